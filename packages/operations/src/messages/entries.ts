/** The entries of the timeline of a message. Pure: it turns what was read into sentences and facts. */
import { encodeId, type MessageFact, toTimestamp } from '@hub/domain'
import type { DeliveryReportReceived, OperatorAnswerReceived, Position } from '@hub/kafka'
import { type ReadMessages, WebhooksAttempts } from '@hub/store'
import { Schema } from 'effect'
import { Timestamp } from '../fields.ts'
import type { Found } from './records.ts'

const KINDS = [
  'accepted',
  'claimed',
  'refused',
  'answered',
  'sent',
  'reported',
  'final',
  'seen',
  'deadline',
  'event',
  'webhook',
] as const

/** Where an entry was read. */
const SOURCES = ['lane', 'log', 'reports', 'read_model', 'ledger', 'journal', 'delivery_log'] as const

const Detail = Schema.Record(
  Schema.String,
  Schema.Union([Schema.String, Schema.Number, Schema.Boolean, Schema.Null, Schema.Array(Schema.String)]),
)

export const Entry = Schema.Struct({
  at: Timestamp,
  kind: Schema.Literals(KINDS),
  by: Schema.String.annotate({ description: 'The app of the hub, or `operator` and its name.' }),
  title: Schema.String,
  source: Schema.Literals(SOURCES),
  detail: Detail.annotate({
    description: 'The facts, by name. `record`: topic, partition and offset in Kafka.',
  }),
}).annotate({ identifier: 'TimelineEntry' })
export type Entry = typeof Entry.Type

type Draft = Omit<Entry, 'at'> & { readonly at: number }

const recordText = ({ offset, partition, topic }: Position): string => `${topic}/${partition}/${offset}`

const ofAcceptance = (
  row: ReadMessages.ProjectedMessage,
  fact: Found<Extract<MessageFact, { type: 'MessageAccepted' }>> | null,
  source: 'read_model' | 'ledger',
): Draft => ({
  at: row.created_at.getTime(),
  kind: 'accepted',
  by: 'command-api',
  title: 'The hub accepted the message.',
  source: fact === null ? source : 'lane',
  detail: {
    template: row.template,
    sender: row.sender,
    parts: row.parts,
    ...(row.client_ref === null ? {} : { client_ref: row.client_ref }),
    ...(row.batch_id === null ? {} : { batch: encodeId('bat', row.batch_id) }),
    ...(fact === null
      ? {}
      : {
          record: recordText(fact.record),
          republished: fact.value.republished,
          payload_key: fact.value.payloadKey,
          request: fact.value.request ?? null,
          api_key: fact.value.apiKey ?? null,
        }),
  },
})

const ENDED = {
  delivered: 'The SMS operator reported the delivery.',
  undelivered: 'The SMS operator reported that it could not deliver the message.',
  rejected: 'The SMS operator rejected the message.',
  expired: 'The message expired.',
} as const

const EXPIRED: Readonly<Record<string, string>> = {
  dlr_timeout: 'The SMS operator reported that it stopped trying.',
  dlr_timeout_local: 'No report came until the deadline of the hub. The message may have arrived.',
  ttl_expired_before_submit: 'The lifetime ended before the hub could submit the message.',
}

/** The entry of a fact in the log; `null`: it says nothing new about the message. */
const ofFact = ({ record, value }: Found<MessageFact>): Draft | null => {
  const common = { at: value.at, source: 'log' as const }
  const at = { record: recordText(record) }
  switch (value.type) {
    case 'HandoverStarted':
      return {
        ...common,
        kind: 'claimed',
        by: 'dispatcher',
        title: `The dispatcher recorded handover claim ${value.attempt}, and then submitted the message.`,
        detail: { ...at, attempt: value.attempt, operator: value.operator, epoch: value.epoch },
      }
    case 'HandoverRefused':
      return {
        ...common,
        kind: 'refused',
        by: 'dispatcher',
        title:
          'The SMS operator refused the message for now, or nothing could be submitted. It is submitted again.',
        detail: {
          ...at,
          attempt: value.attempt,
          retry_at: toTimestamp(value.retryAt),
          unsubmitted_claims: value.unsubmitted ?? 0,
        },
      }
    case 'MessageSent':
      return {
        ...common,
        kind: 'sent',
        by: `operator ${value.operator}`,
        title:
          value.operatorIds.length === 0
            ? 'The outcome of the submit is unknown. The hub treats the message as sent.'
            : 'The SMS operator took the message.',
        detail: {
          ...at,
          operator: value.operator,
          operator_ids: value.operatorIds,
          report_deadline: toTimestamp(value.reportDeadline),
        },
      }
    case 'MessageSeen':
      return {
        ...common,
        kind: 'seen',
        by: 'operator',
        title: 'The SMS operator reported that the recipient read the message.',
        detail: at,
      }
    case 'MessageDelivered':
      return {
        ...common,
        kind: 'final',
        by: 'operator',
        title: ENDED.delivered,
        detail: { ...at, status: 'delivered' },
      }
    case 'MessageUndelivered':
      return {
        ...common,
        kind: 'final',
        by: 'operator',
        title: ENDED.undelivered,
        detail: { ...at, status: 'undelivered', reason: value.reason },
      }
    case 'MessageRejected':
      return {
        ...common,
        kind: 'final',
        by: 'operator',
        title: ENDED.rejected,
        detail: { ...at, status: 'rejected', reason: value.reason },
      }
    case 'MessageExpired':
      return {
        ...common,
        kind: 'final',
        by: value.reason === 'dlr_timeout' ? 'operator' : 'dispatcher',
        title: EXPIRED[value.reason] ?? ENDED.expired,
        detail: { ...at, status: 'expired', reason: value.reason },
      }
    case 'MessageAccepted':
    case 'OpenMessageCarried':
      return null
  }
}

/** The deadlines of an open message, and of one that a deadline ended. */
const ofDeadlines = (
  row: ReadMessages.ProjectedMessage,
  facts: ReadonlyArray<Found<MessageFact>>,
): ReadonlyArray<Draft> => {
  const lifetime = facts.flatMap(({ value }) => (value.type === 'MessageAccepted' ? [value.expiresAt] : []))
  const report = facts.flatMap(({ value }) => (value.type === 'MessageSent' ? [value.reportDeadline] : []))
  const draft = (at: number, title: string): Draft => ({
    at,
    kind: 'deadline',
    by: 'dispatcher',
    title,
    source: 'log',
    detail: {},
  })
  return [
    ...(row.status === 'accepted' ? lifetime : []).map((at) =>
      draft(at, 'The lifetime ends: a message that is not submitted by then expires.'),
    ),
    ...(row.status === 'sent' ? report : []).map((at) =>
      draft(at, 'The deadline for the delivery report: without a report the message expires.'),
    ),
  ]
}

/** A status of the read model that no read fact of the log explains. */
const ofStatus = ({
  at,
  reason,
  status,
}: NonNullable<ReadMessages.ProjectedMessage['history']>[number]): Draft | null =>
  status === 'accepted'
    ? null
    : {
        at,
        kind: status === 'sent' ? 'sent' : 'final',
        by: 'operator',
        title:
          status === 'sent'
            ? 'The SMS operator took the message.'
            : status === 'expired'
              ? (EXPIRED[reason ?? ''] ?? ENDED.expired)
              : ENDED[status],
        source: 'read_model',
        detail: { status, ...(reason === null ? {} : { reason }) },
      }

const ofAnswer = ({ record, value }: Found<OperatorAnswerReceived>): Draft => ({
  at: value.receivedAt,
  kind: 'answered',
  by: `operator ${value.operator}`,
  title: 'The SMS operator answered a submit. Its own words are among the raw records.',
  source: 'reports',
  detail: { record: recordText(record), operator: value.operator },
})

const ofReport = ({ record, value }: Found<DeliveryReportReceived>): Draft => ({
  at: value.receivedAt,
  kind: 'reported',
  by: `operator ${value.operator}`,
  title: `The SMS operator sent a delivery report: ${value.outcome}.`,
  source: 'reports',
  detail: {
    record: recordText(record),
    operator: value.operator,
    operator_id: value.operatorId,
    outcome: value.outcome,
    reason: value.reason,
    operator_time: toTimestamp(value.at),
  },
})

export interface JournalEvent {
  readonly id: string
  readonly type: string
  readonly created_at: string
}

/** `events`: those of the message among the events of the attempt. */
export interface MessageAttempt {
  readonly subscriptionId: string
  readonly attempt: WebhooksAttempts.Attempt
  readonly events: ReadonlyArray<JournalEvent>
}

const ofEvent = ({ created_at, id, type }: JournalEvent): Draft => ({
  at: Date.parse(created_at),
  kind: 'event',
  by: 'projector',
  title: `The hub recorded the event ${type}.`,
  source: 'journal',
  detail: { event: id, type },
})

const ofAttempt = ({ attempt, subscriptionId, events }: MessageAttempt): Draft => {
  const made = WebhooksAttempts.toDelivery(attempt)
  const answer = made.response_code === null ? (made.reason ?? 'no answer') : `HTTP ${made.response_code}`
  return {
    at: attempt.created_at.getTime(),
    kind: 'webhook',
    by: 'webhook-fanout',
    title: `Attempt ${made.attempt} to deliver ${events.map(({ type }) => type).join(', ')} ${made.status}: ${answer}.`,
    source: 'delivery_log',
    detail: {
      webhook_endpoint: encodeId('we', subscriptionId),
      webhook_delivery: made.id,
      event_batch: made.event_batch,
      events: events.map((event) => event.id),
      attempt: made.attempt,
      status: made.status,
      response_code: made.response_code,
      reason: made.reason,
      duration_ms: made.duration_ms,
      redelivery: made.redelivery,
      resend: made.resend,
      next_attempt_at: made.next_attempt_at,
    },
  }
}

/** Everything that was read about a message. */
export interface Material {
  readonly row: ReadMessages.ProjectedMessage
  readonly isProjected: boolean
  readonly facts: ReadonlyArray<Found<MessageFact>>
  readonly answers: ReadonlyArray<Found<OperatorAnswerReceived>>
  readonly reports: ReadonlyArray<Found<DeliveryReportReceived>>
  readonly events: ReadonlyArray<JournalEvent>
  readonly attempts: ReadonlyArray<MessageAttempt>
}

/** The order of entries of the same millisecond: as they follow from each other. */
const ORDER = new Map(KINDS.map((kind, place) => [kind, place]))

/** The entries, in the order of time. */
export const entriesOf = (material: Material): ReadonlyArray<Entry> => {
  const { answers, attempts, events, facts, isProjected, reports, row } = material
  const acceptance = facts.flatMap(({ record, value }) =>
    value.type === 'MessageAccepted' ? [{ record, value }] : [],
  )
  const ofLog = facts.flatMap((fact) => ofFact(fact) ?? [])
  const known = new Set(ofLog.map(({ detail, kind }) => (kind === 'sent' ? 'sent' : detail['status'])))
  const drafts: ReadonlyArray<Draft> = [
    ofAcceptance(row, acceptance[0] ?? null, isProjected ? 'read_model' : 'ledger'),
    ...ofLog,
    ...(row.history ?? []).filter(({ status }) => !known.has(status)).flatMap((one) => ofStatus(one) ?? []),
    ...answers.map(ofAnswer),
    ...reports.map(ofReport),
    ...ofDeadlines(row, facts),
    ...events.map(ofEvent),
    ...attempts.map(ofAttempt),
  ]
  return drafts
    .toSorted((a, b) => a.at - b.at || (ORDER.get(a.kind) ?? 0) - (ORDER.get(b.kind) ?? 0))
    .map((draft) => ({ ...draft, at: toTimestamp(draft.at) }))
}
