/** The overview: one object that says whether the hub works. */
import { LONGEST_LIFETIME_SECONDS } from '@hub/config'
import { MESSAGE_CLASSES, MODES, toTimestamp } from '@hub/domain'
import {
  CommandHubSettings,
  CommandSenders,
  CommandTemplates,
  type Queries,
  ReadMessageMinutes,
  ReadMessages,
  readWaitingRows,
  WebhooksEndpoints,
} from '@hub/store'
import { Schema } from 'effect'
import { CONSUMERS, type ConsumerLag } from '../consumer-lag.ts'
import { Count, Timestamp } from '../fields.ts'
import { OperatorState } from '../operators.ts'
import { Unanswered } from '../unanswered.ts'

const Mode = Schema.Literals(MODES)
const MessageClass = Schema.Literals(MESSAGE_CLASSES)
const Milliseconds = Schema.Int.annotate({ description: 'Milliseconds.' })

const Queue = Schema.Struct({ waiting: Count, oldest_at: Schema.NullOr(Timestamp) })

/** The parts of the overview. Each is read on its own, and has its own time. */
export const PARTS = ['minutes', 'work', 'consumers', 'operators'] as const
export type OverviewPart = (typeof PARTS)[number]

export const Overview = Schema.Struct({
  object: Schema.Literal('overview'),
  at: Timestamp,
  unavailable: Schema.Array(Schema.Literals(PARTS)).annotate({
    description: 'The parts that could not be read. Their values are older, or empty.',
  }),
  minutes: Schema.Array(
    Schema.Struct({
      minute: Timestamp,
      mode: Mode,
      class: MessageClass,
      accepted: Count,
      sent: Count.annotate({ description: 'Submitted to an SMS operator, whatever became of them.' }),
      delivered: Count,
      failed: Count.annotate({ description: 'Undelivered, rejected or expired.' }),
    }),
  ).annotate({
    description:
      'The messages of the last hour by the minute of their acceptance, with their status now. Minutes without messages are left out.',
  }),
  submission: Schema.Array(
    Schema.Struct({
      mode: Mode,
      class: MessageClass,
      messages: Count,
      p50_ms: Milliseconds,
      p99_ms: Milliseconds,
    }),
  ).annotate({
    description: 'The time from acceptance to submission of the messages of the last five minutes.',
  }),
  waiting: Schema.Array(
    Schema.Struct({ mode: Mode, class: MessageClass, messages: Count, oldest_at: Timestamp }),
  ).annotate({ description: 'Accepted messages that no SMS operator has yet.' }),
  unanswered: Unanswered,
  consumers: Schema.Array(
    Schema.Struct({
      consumer: Schema.Literals(CONSUMERS),
      members: Count.annotate({ description: 'Processes in the consumer group.' }),
      lag: Count.annotate({ description: 'Records that it has not read or applied.' }),
    }),
  ),
  operators: Schema.Array(OperatorState).annotate({
    description: 'The SMS operators, as the dispatchers see them. A dispatcher reports every five seconds.',
  }),
  outboxes: Schema.Array(
    Schema.Struct({ content: Schema.String, rows: Count, oldest_seconds: Schema.NullOr(Count) }),
  ),
  endpoints: Schema.Struct({
    enabled: Count,
    failing: Count.annotate({ description: 'Enabled, with a failed last attempt.' }),
    disabled: Count.annotate({ description: 'Disabled by failures.' }),
  }),
  moderation: Schema.Struct({ templates: Queue, senders: Queue }),
  hub: Schema.Struct({
    stopped: Schema.Boolean.annotate({ description: 'The hub accepts no new messages.' }),
    stopped_until: Schema.NullOr(Timestamp),
  }),
}).annotate({ identifier: 'Overview', title: 'Overview', description: 'Whether the hub works.' })
export type Overview = typeof Overview.Type

/** The overview before anything is read. */
export const EMPTY: Omit<Overview, 'at' | 'unavailable'> = {
  object: 'overview',
  minutes: [],
  submission: [],
  waiting: [],
  unanswered: { sent: 0, expired: 0, oldest_at: null },
  consumers: [],
  operators: [],
  outboxes: [],
  endpoints: { enabled: 0, failing: 0, disabled: 0 },
  moderation: {
    templates: { waiting: 0, oldest_at: null },
    senders: { waiting: 0, oldest_at: null },
  },
  hub: { stopped: false, stopped_until: null },
}

const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
/** Most messages have their final status by then. The whole hour is read again from time to time. */
const RECENT_MS = 3 * MINUTE_MS
const SUBMISSION_MS = 5 * MINUTE_MS
/** Enough for a p99, and read within some ten milliseconds. */
const SUBMISSION_SAMPLE = 5000

const startOfMinute = (at: number): number => at - (at % MINUTE_MS)

type Minutes = Overview['minutes']

/**
 * The counts of the last hour. With `earlier`, it reads only the last minutes again, and takes the others
 * from there.
 */
export const readMinutes = async (q: Queries, now: number, earlier: Minutes | null): Promise<Minutes> => {
  const oldest = startOfMinute(now - HOUR_MS) + MINUTE_MS
  const from = earlier === null ? oldest : startOfMinute(now - RECENT_MS)
  const rows = await ReadMessageMinutes.readMinutes(q, { from, to: now + MINUTE_MS })
  const kept = (earlier ?? []).filter(
    ({ minute }) => minute >= toTimestamp(oldest) && minute < toTimestamp(from),
  )
  return [...kept, ...rows.map(({ minute, ...counts }) => ({ minute: toTimestamp(minute), ...counts }))]
}

export const readSubmission = async (q: Queries, now: number): Promise<Overview['submission']> => {
  const rows = await ReadMessageMinutes.readSubmissionTimes(
    q,
    { from: now - SUBMISSION_MS, to: now + MINUTE_MS },
    SUBMISSION_SAMPLE,
  )
  return rows.map(({ p50, p99, ...of }) => ({ ...of, p50_ms: Math.round(p50), p99_ms: Math.round(p99) }))
}

const timestampOf = (at: Date | null): string | null => (at === null ? null : toTimestamp(at.getTime()))

const queueOf = ({ oldest_at, rows }: { readonly rows: number; readonly oldest_at: Date | null }) => ({
  waiting: rows,
  oldest_at: timestampOf(oldest_at),
})

/** Sums the waiting messages of all accounts. */
const waitingOf = (rows: ReadonlyArray<ReadMessages.WaitingRow>): Overview['waiting'] =>
  MODES.flatMap((mode) =>
    MESSAGE_CLASSES.flatMap((messageClass) => {
      const own = rows.filter((row) => row.mode === mode && row.class === messageClass)
      // The row with the longest wait is the first.
      const [oldest] = own
      return oldest === undefined
        ? []
        : [
            {
              mode,
              class: messageClass,
              messages: own.reduce((sum, { messages }) => sum + messages, 0),
              oldest_at: toTimestamp(oldest.oldest_at.getTime()),
            },
          ]
    }),
  )

/** Everything that waits or does not work, except for the lag. */
export const readWork = async (
  q: Queries,
): Promise<Pick<Overview, 'waiting' | 'outboxes' | 'endpoints' | 'moderation' | 'hub'>> => {
  const waiting = await ReadMessages.readWaiting(q, {
    account: null,
    lifetimeSeconds: LONGEST_LIFETIME_SECONDS.service,
    limit: null,
  })
  const outboxes = await readWaitingRows(q)
  const templates = await CommandTemplates.readWaiting(q)
  const senders = await CommandSenders.readWaiting(q)
  const { stopped, stopped_until } = await CommandHubSettings.read(q)
  return {
    waiting: waitingOf(waiting),
    outboxes: outboxes.map(({ ageMs, content, rows }) => ({
      content,
      rows,
      oldest_seconds: ageMs === null ? null : Math.max(0, Math.round(ageMs / 1000)),
    })),
    endpoints: await WebhooksEndpoints.countFailing(q),
    moderation: { templates: queueOf(templates), senders: queueOf(senders) },
    hub: { stopped, stopped_until: timestampOf(stopped_until) },
  }
}

export const withoutShards = (consumers: ReadonlyArray<ConsumerLag>): Overview['consumers'] =>
  consumers.map(({ consumer, lag, members }) => ({ consumer, members, lag }))
