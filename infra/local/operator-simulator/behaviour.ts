/** Decides the outcome of a message from its number, its reference and the settings. */
import { createHash } from 'node:crypto'
import { type ReasonCode, sandboxScenario } from '@hub/domain'

/** The format of the message id in `submit_sm_resp`. A receipt has the same id in decimal. */
const ID_FORMS = ['opaque', 'hexadecimal_answer'] as const
/** The place of the fields of a receipt: optional parameters, the text, or both. */
const RECEIPT_FORMS = ['both', 'text', 'parameters'] as const

export interface Behaviour {
  /** Time from the submission to its report. */
  readonly report_delay_ms: number
  /** Time until a submission is answered. */
  readonly submit_delay_ms: number
  readonly undelivered_percent: number
  readonly rejected_by_report_percent: number
  readonly expired_percent: number
  /** Reported as delivered, then as seen. */
  readonly seen_percent: number
  /** Accepted, without a report. */
  readonly silent_percent: number
  readonly rejected_percent: number
  /** Accepted, but the connection is closed without an answer. */
  readonly dropped_answer_percent: number
  /** Submissions per second above which the answer is `throttled`. Null means no limit. */
  readonly throttle_per_second: number | null
  /** SMPP: the most `submit_sm` without an answer on a bind. Above it the answer is `throttled`. */
  readonly window: number
  /** SMPP: accepted, but not answered. The bind stays open. */
  readonly unanswered_percent: number
  /** SMPP: the receipt is sent before the answer that names its id. */
  readonly receipts_before_answer: boolean
  /** SMPP: how much later the report of the last of several parts comes. */
  readonly last_part_delay_ms: number
  readonly id_form: (typeof ID_FORMS)[number]
  readonly receipt_form: (typeof RECEIPT_FORMS)[number]
  /** SMPP: `err` in the text of receipts; null: the code of the reason. */
  readonly receipt_error: string | null
  /** SMPP: `text` in the text of receipts, which quotes the message at many SMSCs. */
  readonly receipt_text: string
}

export const DEFAULT_BEHAVIOUR: Behaviour = {
  report_delay_ms: 200,
  submit_delay_ms: 0,
  undelivered_percent: 0,
  rejected_by_report_percent: 0,
  expired_percent: 0,
  seen_percent: 0,
  silent_percent: 0,
  rejected_percent: 0,
  dropped_answer_percent: 0,
  throttle_per_second: null,
  window: 100,
  unanswered_percent: 0,
  receipts_before_answer: false,
  last_part_delay_ms: 0,
  id_form: 'opaque',
  receipt_form: 'both',
  receipt_error: null,
  receipt_text: '',
}

/** One day, which is longer than every deadline of the hub. */
const MAX_DELAY_MS = 24 * 60 * 60 * 1000

/** With two such texts, the text of a receipt still fits into a `short_message`. */
const MAX_TEXT = 60

/** The requirement of a setting if the value violates it, else null. */
const requirementOf = (name: keyof Behaviour, value: unknown): string | null => {
  const oneOf = (values: ReadonlyArray<string>): string | null =>
    typeof value === 'string' && values.includes(value) ? null : `one of ${values.join(', ')}`
  const upTo = (most: number): string | null =>
    typeof value === 'number' && Number.isFinite(value) && value >= 0 && value <= most
      ? null
      : `a number from 0 to ${most}`
  switch (name) {
    case 'id_form':
      return oneOf(ID_FORMS)
    case 'receipt_form':
      return oneOf(RECEIPT_FORMS)
    case 'receipt_error':
    case 'receipt_text':
      return (name === 'receipt_error' && value === null) ||
        (typeof value === 'string' && value.length <= MAX_TEXT)
        ? null
        : `a text of at most ${MAX_TEXT} characters`
    case 'receipts_before_answer':
      return typeof value === 'boolean' ? null : 'true or false'
    case 'throttle_per_second':
      return value === null ? null : upTo(1_000_000)
    case 'window':
      return upTo(100_000)
    case 'report_delay_ms':
    case 'submit_delay_ms':
    case 'last_part_delay_ms':
      return upTo(MAX_DELAY_MS)
    default:
      return upTo(100)
  }
}

/** Returns the changed settings, or the error in the change. */
export const changeBehaviour = (
  current: Behaviour,
  change: unknown,
): Behaviour | { readonly error: string } => {
  if (typeof change !== 'object' || change === null || Array.isArray(change)) {
    return { error: 'the body must be an object of settings' }
  }
  const next: Record<string, unknown> = { ...current }
  for (const [name, value] of Object.entries(change)) {
    if (!Object.hasOwn(DEFAULT_BEHAVIOUR, name)) return { error: `${name} is not a setting` }
    const requirement = requirementOf(name as keyof Behaviour, value)
    if (requirement !== null) return { error: `${name} must be ${requirement}` }
    next[name] = value
  }
  const changed = next as unknown as Behaviour
  const outcomes =
    changed.undelivered_percent +
    changed.rejected_by_report_percent +
    changed.expired_percent +
    changed.seen_percent +
    changed.silent_percent
  return outcomes > 100 ? { error: `the reported outcomes add up to ${outcomes} percent` } : changed
}

/** A pseudo-random number in [0, 100) for a reference and a question, always the same one. */
export const share = (reference: string, question: string): number =>
  createHash('sha256').update(`${question}:${reference}`).digest().readUInt32BE(0) / (0x1_0000_0000 / 100)

export type ReportStatus = 'delivered' | 'undelivered' | 'rejected' | 'expired' | 'seen'

/** The reasons of reports, and the vendor-specific error code of each in an SMPP receipt. */
export const ERROR_CODES = {
  recipient_unreachable: 1,
  recipient_nonexistent: 2,
  recipient_blocked: 3,
  spam_filter_sender: 11,
} as const satisfies Partial<Record<ReasonCode, number>>
export type ReportedReason = keyof typeof ERROR_CODES

export interface PlannedReport {
  readonly status: ReportStatus
  readonly reason: ReportedReason | null
}

/** The properties of a message that decide its outcome. */
interface Selector {
  /** E.164. */
  readonly to: string
  /** The key for the percentages: the reference over HTTP, the number over SMPP. */
  readonly reference: string
}

const DELIVERED: PlannedReport = { status: 'delivered', reason: null }
const SEEN: PlannedReport = { status: 'seen', reason: null }
const EXPIRED: PlannedReport = { status: 'expired', reason: null }
const REJECTED: PlannedReport = { status: 'rejected', reason: 'spam_filter_sender' }
const undelivered = (reason: ReportedReason): PlannedReport => ({ status: 'undelivered', reason })

/** The reports that the number decides, or null if the settings decide. */
const reportsByNumber = (to: string): ReadonlyArray<PlannedReport> | null => {
  const scenario = sandboxScenario(to)
  switch (scenario) {
    case 'recipient_unreachable':
    case 'recipient_nonexistent':
    case 'recipient_blocked':
      return [undelivered(scenario)]
    case 'rejected_by_report':
      return [REJECTED]
    case 'dlr_timeout':
      return [EXPIRED]
    case 'seen':
      return [DELIVERED, SEEN]
    // A live message waits a day for its report, so a late report would show nothing.
    case 'silent':
    case 'silent_then_delivered':
      return []
    // The answer to the submit, or the hub before it, decides what is special about these numbers.
    case 'delivered':
    case 'rejected_at_submit':
    case 'anti_flood':
    case 'always_throttled':
    case 'opted_out':
      return null
  }
}

/** The reports of a message, in order. A silent message has none. */
export const plannedReports = (
  behaviour: Behaviour,
  { reference, to }: Selector,
): ReadonlyArray<PlannedReport> => {
  const byNumber = reportsByNumber(to)
  if (byNumber !== null) return byNumber
  const outcomes: ReadonlyArray<readonly [number, ReadonlyArray<PlannedReport>]> = [
    [behaviour.undelivered_percent, [undelivered('recipient_unreachable')]],
    [behaviour.rejected_by_report_percent, [REJECTED]],
    [behaviour.expired_percent, [EXPIRED]],
    [behaviour.seen_percent, [DELIVERED, SEEN]],
    [behaviour.silent_percent, []],
  ]
  let at = share(reference, 'report')
  for (const [percent, reports] of outcomes) {
    if (at < percent) return reports
    at -= percent
  }
  return [DELIVERED]
}

export const isRejected = (behaviour: Behaviour, { reference, to }: Selector): boolean =>
  sandboxScenario(to) === 'rejected_at_submit' || share(reference, 'answer') < behaviour.rejected_percent

/** Whether the number is throttled at any rate. */
export const isAlwaysThrottled = (to: string): boolean => sandboxScenario(to) === 'always_throttled'

export const isAnswerDropped = (behaviour: Behaviour, reference: string): boolean =>
  share(reference, 'drop') < behaviour.dropped_answer_percent

export const isUnanswered = (behaviour: Behaviour, reference: string): boolean =>
  share(reference, 'silence') < behaviour.unanswered_percent
