/**
 * The timeline of a message: everything that the hub knows about it, in the order of time, from the
 * read model, the lanes, the log, the reports, the event journal and the delivery log. What cannot
 * be shown is named, with the reason.
 */
import { settings } from '@hub/config'
import type { MessageFact } from '@hub/domain'
import type { ReadMessages } from '@hub/store'
import { readTraceparent } from '@hub/telemetry'
import { Clock, Duration, Effect, Schema } from 'effect'
import { publicId } from '../fields.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'
import { entriesOf, Entry } from './entries.ts'
import { Message, toMessage } from './message.ts'
import { between, type Period } from './periods.ts'
import { readDeliveries } from './read-deliveries.ts'
import { readMessage } from './read-message.ts'
import { answersOf, factsOf, type Found, readPeriods, reportsOf } from './records.ts'

const Missing = Schema.Struct({
  what: Schema.String,
  why: Schema.String,
})

/** An account has at most 20 subscriptions in a mode. */
const MOST = { subscriptions: 20, attempts: 100 }

/** People wait for a page. The parts of the topics are usually read within a second. */
const KAFKA_DEADLINE = Duration.seconds(8)

/** The statuses with their times, without the acceptance. */
const changesOf = ({ history }: ReadMessages.ProjectedMessage) =>
  (history ?? []).filter(({ status }) => status !== 'accepted').toSorted((a, b) => a.at - b.at)

/** The periods of the log that contain the facts of a message. */
const logPeriods = (row: ReadMessages.ProjectedMessage, now: number): ReadonlyArray<Period> => {
  const accepted = row.created_at.getTime()
  const changes = changesOf(row)
  return [
    between(accepted, changes[0]?.at ?? now),
    ...changes.map(({ at }) => between(at, at)),
    between(row.updated_at.getTime(), row.updated_at.getTime()),
  ]
}

/** The periods of the reports topic: around each fact, because an answer or a report caused it. */
const reportPeriods = (facts: ReadonlyArray<Found<MessageFact>>): ReadonlyArray<Period> =>
  facts.map(({ value }) => between(value.at, value.at))

/** The records of Kafka about a message; `null`: Kafka does not answer in time. */
const readKafka = Effect.fnUntraced(function* (row: ReadMessages.ProjectedMessage) {
  const now = yield* Clock.currentTimeMillis
  const [lane, log] = yield* Effect.all(
    [
      readPeriods(row, 'lane', [between(row.created_at.getTime(), row.created_at.getTime())]),
      readPeriods(row, 'log', logPeriods(row, now)),
    ],
    { concurrency: 'unbounded' },
  )
  const facts = [...factsOf(lane, row.id), ...factsOf(log, row.id)]
  const raw = yield* readPeriods(row, 'reports', reportPeriods(facts))
  return { facts, answers: answersOf(raw, row.id), reports: yield* reportsOf(raw, row.id) }
})

type KafkaRecords = Effect.Success<ReturnType<typeof readKafka>>

const NOTHING: KafkaRecords = { facts: [], answers: [], reports: [] }

/** The id of the trace in which the request was sampled: 32 hexadecimal digits. */
const traceOf = (facts: KafkaRecords['facts']): string | null => {
  const traceparent = facts.map(({ record }) => record.traceparent).find((one) => one !== null)
  return traceparent === undefined ? null : (readTraceparent(traceparent)?.traceId ?? null)
}

const missingOf = (
  row: ReadMessages.ProjectedMessage,
  isProjected: boolean,
  records: KafkaRecords | null,
  hasSubscriptions: boolean,
): ReadonlyArray<typeof Missing.Type> => {
  const missing: Array<typeof Missing.Type> = []
  const hasRequest = records?.facts.some(
    ({ value }) => value.type === 'MessageAccepted' && value.request != null,
  )
  if (hasRequest !== true) {
    missing.push({
      what: 'The request id and the API key of the send',
      why: 'Only the record of the acceptance in Kafka has them. It cannot be read now, or an older version of the hub or the reconciler wrote it.',
    })
  }
  if (!isProjected) {
    missing.push({
      what: 'Everything after the acceptance',
      why: 'The projectors have not recorded the message yet. Look at the lag under stuck work.',
    })
  }
  if (records === null) {
    missing.push({
      what: 'Handover claims, refusals, answers and reports',
      why: 'Kafka did not answer in time. Try again.',
    })
  } else if (records.facts.length === 0) {
    missing.push({
      what: 'Handover claims and refusals',
      why: 'The lanes and the log have no record of this message any more. Kafka keeps them for 13 months.',
    })
  } else if (row.status !== 'accepted' && records.answers.length === 0) {
    missing.push({
      what: "The SMS operator's answers and reports",
      why: 'The hub has none: they are kept for 90 days, and an operator need not send any.',
    })
  }
  if (!hasSubscriptions) {
    missing.push({
      what: 'Webhook attempts',
      why: 'The account has no webhook subscription in this mode now. Attempts of deleted ones are in hubctl deliveries.',
    })
  }
  return missing
}

export const timeline = defineUseCase({
  name: 'messages whole-timeline',
  permission: 'messages.read',
  members: 'named',
  input: Schema.Struct({ id: publicId('msg') }),
  output: Schema.Struct({
    object: Schema.Literal('timeline'),
    message: Message,
    trace_id: Schema.NullOr(Schema.String).annotate({
      description: 'The trace of the request, if it was sampled.',
    }),
    trace_url: Schema.NullOr(Schema.String).annotate({
      description: 'The address of the trace, if the hub knows the tracing backend.',
    }),
    entries: Schema.Array(Entry),
    missing: Schema.Array(Missing).annotate({ description: 'What cannot be shown, and why.' }),
  }).annotate({ identifier: 'Timeline' }),
  audit: ({ id }) => ({ message: id }),
  result: ({ entries }) => ({ entries: entries.length }),
  run: ({ id }) =>
    Effect.gen(function* () {
      const { isProjected, row } = yield* readMessage(id)
      const [records, { attempts, events, hasSubscriptions }] = yield* Effect.all(
        [
          readKafka(row).pipe(
            Effect.timeoutOrElse({ duration: KAFKA_DEADLINE, orElse: () => Effect.succeed(null) }),
            Effect.catchTag('KafkaUnavailable', () => Effect.succeed(null)),
          ),
          query((q) => readDeliveries(q, row, MOST)),
        ],
        { concurrency: 'unbounded' },
      )
      const read = records ?? NOTHING
      const trace = traceOf(read.facts)
      const traceUrl = yield* settings.traceUrl.config
      return {
        object: 'timeline' as const,
        message: toMessage(row),
        trace_id: trace,
        trace_url: trace === null ? null : (traceUrl?.replaceAll('{trace_id}', trace) ?? null),
        entries: entriesOf({ row, isProjected, ...read, events, attempts }),
        missing: missingOf(row, isProjected, records, hasSubscriptions),
      }
    }),
})
