/** The answers of the API, as the console reads them. Their types are generated from its description. */
import type { components } from './contract.ts'

type Schemas = components['schemas']
type Answers = components['responses']

/** The answer of an operation. That of an export is no JSON. */
type Answer<Name extends keyof Answers> = Answers[Name]['content'] extends {
  readonly 'application/json': infer Body
}
  ? Body
  : never

/** A row of an operation that answers with a list. */
type Row<Name extends keyof Answers> =
  Answer<Name> extends { readonly data: ReadonlyArray<infer Item> } ? Item : never

export type Me = Schemas['Me']
export type Permission = Me['permissions'][number]
export type Message = Schemas['Message']
export type Mode = Message['mode']

export type SearchResult = Schemas['SearchResult']
export type Hit = SearchResult['data'][number]
export type Timeline = Schemas['Timeline']
export type TimelineEntry = Schemas['TimelineEntry']
export type RevealedMessage = Schemas['RevealedMessage']
export type OperatorRecord = Schemas['OperatorRecord']

export type ModerationRow = Row<'moderation.list_templates'> | Row<'moderation.list_senders'>
export type ModerationItem = Answer<'moderation.read_template'> | Answer<'moderation.read_sender'>

export type Subscription = Schemas['WebhookEndpoint']
export type Attempt = Schemas['WebhookDelivery']
export type AttemptDetails = Schemas['WebhookDeliveryDetails']

export type Insights = Schemas['Insights']
export type InsightPart = Insights['now']['parts'][number]
export type InsightGroup = Insights['groups'][number]
export type UnusualDelivery = NonNullable<Insights['unusual']>[number]
export type SuspiciousRange = Schemas['SuspiciousRange']
export type RangeBlock = Row<'ranges.list_blocks'>
export type InsightReason = Insights['reasons'][number]

export type Overview = Schemas['Overview']
export type StuckWork = Schemas['StuckWork']
export type SmsOperator = StuckWork['operators'][number]
export type DoctorReport = Answer<'stuck.check'>
export type Finding = DoctorReport['findings'][number]
export type DeadLetter = Row<'dead_letters.list'>

export type AccountRow = Row<'accounts.list'>
export type Account = Answer<'accounts.read'>
export type AccountSetting = keyof Account['modes'][number]['in_force']
export type ApiKey = Row<'keys.list'>
/** A key as it is shown once: issued, rotated or confirmed. */
export type NewKey = Pick<Answer<'keys.issue'>, 'id' | 'key' | 'mode' | 'scopes'> &
  Partial<Pick<Answer<'keys.confirm'>, 'expires_at' | 'replaces'>>
export type KeyRequest = Schemas['KeyRequest']
export type Certification = Answer<'accounts.read_certification'>
export type DaySpend = Schemas['DaySpend']
export type HubState = Answer<'hub.read'>
export type TemplatePerformance = Schemas['TemplatePerformance']
export type ChargedUsage = Schemas['ChargedUsage']

export type OptOut = Row<'people.list_opt_outs'>
export type OptOutCheck = Schemas['OptOutCheck']
export type ErasureReceipt = Schemas['ErasureReceipt']
export type ErasureRequest = Schemas['ErasureRequest']
export type ErasureOutcome = Schemas['ErasureOutcome']

export type AuditRow = Row<'audit.list'>

export type SavedView = Schemas['SavedView']
export type OpenedView = Answer<'views.read'>
