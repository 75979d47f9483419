/**
 * Stuck work: what waits, since when, and whose it is. One answer, so that a page needs one request.
 * A part that a server cannot answer is missing, with the reason.
 */
import { encodeId, MESSAGE_CLASSES, MODES, toTimestamp } from '@hub/domain'
import { catalogueConfig, kafkaConnectionConfig, topicCatalogue } from '@hub/kafka'
import {
  CommandSenders,
  CommandTemplates,
  ReadMessages,
  readWaitingRows,
  WebhooksEndpoints,
} from '@hub/store'
import { Clock, Duration, Effect, Schema } from 'effect'
import { CONSUMERS, readConsumers } from './consumer-lag.ts'
import { publicId, Timestamp } from './fields.ts'
import { OperatorState, readOperators } from './operators.ts'
import { query } from './sql.ts'
import { defineUseCase } from './use-case.ts'
import { WebhookEndpoint, withBacklogs } from './webhooks/subscriptions.ts'

const ShardLag = Schema.Struct({ topic: Schema.String, shard: Schema.Int, lag: Schema.Int })

const Consumer = Schema.Struct({
  consumer: Schema.Literals(CONSUMERS),
  members: Schema.Int,
  lag: Schema.Int.annotate({ description: 'Records that it has not read or applied.' }),
  shards: Schema.Array(ShardLag).annotate({ description: 'The shards with a lag, the largest first.' }),
})

const OldestOpen = Schema.Struct({
  class: Schema.Literals(MESSAGE_CLASSES),
  mode: Schema.Literals(MODES),
  status: Schema.Literals(['accepted', 'sent']),
  message: publicId('msg'),
  account: publicId('acc'),
  accepted_at: Timestamp,
  age_ms: Schema.Int,
})

const Waiting = Schema.Struct({ rows: Schema.Int, oldest_at: Schema.NullOr(Timestamp) })

export const StuckWork = Schema.Struct({
  object: Schema.Literal('stuck_work'),
  at: Timestamp,
  consumers: Schema.Array(Consumer),
  operators: Schema.Array(OperatorState).annotate({
    description: 'The SMS operators, as the dispatchers see them. A dispatcher reports every five seconds.',
  }),
  oldest_open: Schema.Array(OldestOpen),
  outboxes: Schema.Array(
    Schema.Struct({ content: Schema.String, rows: Schema.Int, age_ms: Schema.NullOr(Schema.Int) }),
  ),
  dead_letters: Schema.Array(Schema.Struct({ topic: Schema.String, records: Schema.Int })),
  webhook_endpoints: Schema.Array(WebhookEndpoint).annotate({
    description: 'Subscriptions that are disabled, or whose last attempts failed.',
  }),
  moderation: Schema.Struct({ templates: Waiting, senders: Waiting }),
  missing: Schema.Array(Schema.Struct({ what: Schema.String, why: Schema.String })),
}).annotate({ identifier: 'StuckWork' })

/** The name that Kafka sees. */
const CLIENT = 'hub-operations'
const MOST_SHARDS = 100
const MOST_SUBSCRIPTIONS = 50
/** A busy broker takes up to a second for a request. */
const KAFKA_DEADLINE = Duration.seconds(6)

const readKafka = Effect.gen(function* () {
  const connection = yield* kafkaConnectionConfig(CLIENT)
  const options = yield* catalogueConfig
  const deadLetterTopics = topicCatalogue(options)
    .map(({ topic }) => topic)
    .filter((topic) => topic.endsWith('.dead-letter'))
  const { consumers, ranges } = yield* readConsumers(connection, options.prefix, deadLetterTopics)
  const deadLetters = deadLetterTopics
    .map((topic) => ({
      topic,
      records: (ranges.get(topic) ?? []).reduce((sum, { high, low }) => sum + high - low, 0),
    }))
    .filter(({ records }) => records > 0)
  return {
    consumers: consumers.map((one) => ({ ...one, shards: one.shards.slice(0, MOST_SHARDS) })),
    deadLetters,
  }
})

const readDatabase = query(async (q) => {
  const subscriptions = await WebhooksEndpoints.readFailing(q, MOST_SUBSCRIPTIONS)
  return {
    open: await ReadMessages.readOldestOpen(q),
    outboxes: await readWaitingRows(q),
    subscriptions: subscriptions.map(await withBacklogs(q, subscriptions)),
    templates: await CommandTemplates.readWaiting(q),
    senders: await CommandSenders.readWaiting(q),
  }
})

export const stuck = defineUseCase({
  name: 'stuck show',
  permission: 'hub.read',
  input: Schema.Struct({}),
  output: StuckWork,
  audit: null,
  run: () =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const [kafka, operators, { subscriptions, open, outboxes, senders, templates }] = yield* Effect.all(
        [
          readKafka.pipe(
            Effect.timeoutOrElse({ duration: KAFKA_DEADLINE, orElse: () => Effect.succeed(null) }),
            Effect.catchTags({
              KafkaUnavailable: () => Effect.succeed(null),
              KafkaRequestRejected: () => Effect.succeed(null),
            }),
          ),
          readOperators.pipe(Effect.catchTag('CountersUnavailable', () => Effect.succeed(null))),
          readDatabase,
        ],
        { concurrency: 'unbounded' },
      )
      const waiting = ({ oldest_at, rows }: { readonly rows: number; readonly oldest_at: Date | null }) => ({
        rows,
        oldest_at: oldest_at === null ? null : toTimestamp(oldest_at.getTime()),
      })
      return {
        object: 'stuck_work' as const,
        at: toTimestamp(now),
        consumers: kafka?.consumers ?? [],
        operators: operators ?? [],
        oldest_open: open.map((row) => ({
          class: row.class,
          mode: row.mode,
          status: row.status,
          message: encodeId('msg', row.id),
          account: encodeId('acc', row.account),
          accepted_at: toTimestamp(row.created_at.getTime()),
          age_ms: Math.max(0, now - row.created_at.getTime()),
        })),
        outboxes: outboxes.map(({ ageMs, content, rows }) => ({
          content,
          rows,
          age_ms: ageMs === null ? null : Math.round(ageMs),
        })),
        dead_letters: kafka?.deadLetters ?? [],
        webhook_endpoints: subscriptions,
        moderation: { templates: waiting(templates), senders: waiting(senders) },
        missing: [
          ...(kafka === null
            ? [{ what: 'Lag of the consumers, and dead letters', why: 'Kafka did not answer in time.' }]
            : []),
          ...(operators === null
            ? [{ what: 'Binds and pace of the SMS operators', why: 'Redis did not answer in time.' }]
            : []),
        ],
      }
    }),
})
