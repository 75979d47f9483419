/** Checks of the message flow: topics, consumer lag, outboxes, dead letters and limits. */
import { settings } from '@hub/config'
import { readRedis, utcDay } from '@hub/counters'
import { encodeId, toTimestamp } from '@hub/domain'
import {
  compareTopics,
  layerEventLog,
  layerKeysAndErasures,
  readOffsetRanges,
  topicCatalogue,
  type TopicDifference,
  topicNames,
} from '@hub/kafka'
import {
  CommandHubSettings,
  missingErasures,
  oldestUnpublishedErasure,
  readWaitingRows,
  WebhooksEndpoints,
} from '@hub/store'
import { Clock, Effect, Layer } from 'effect'
import { type Consumer, CONSUMERS, keepsPositionsInPostgresql, readConsumer } from '../consumer-lag.ts'
import { kafkaConfig } from '../kafka.ts'
import { query } from '../sql.ts'
import { readUnanswered, UNANSWERED_HOURS } from '../unanswered.ts'
import { type Check, problem, notice, ok } from './check.ts'
import { KAFKA, MIGRATIONS, REDIS } from './servers.ts'

const TOPICS = 'topics'

const differenceSentence = ({ found, setting, topic, wanted }: TopicDifference): string =>
  `${topic} has ${setting} ${found} instead of ${wanted}`

/** Enough for one line; `hubctl topics diff` shows all. */
const MAX_NAMED = 2

const firstOf = (sentences: ReadonlyArray<string>): string =>
  sentences.length <= MAX_NAMED
    ? sentences.join('; ')
    : `${sentences.slice(0, MAX_NAMED).join('; ')}; and ${sentences.length - MAX_NAMED} more`

const topics: Check = {
  subject: TOPICS,
  needs: [KAFKA],
  mend: 'See hubctl topics diff.',
  run: Effect.gen(function* () {
    const [connection, options] = yield* kafkaConfig
    const specs = topicCatalogue(options)
    const { differences, missing } = yield* compareTopics(connection, specs)
    const facts = { missing, differences: differences.map(differenceSentence) }
    const mend = 'See hubctl topics diff, and run hubctl topics apply.'
    if (missing.length > 0) return problem(`missing: ${firstOf(missing)}`, mend, facts)
    return differences.length > 0
      ? problem(firstOf(differences.map(differenceSentence)), mend, facts)
      : ok(
          `all ${specs.length} are there, with ${options.partitions} partitions and the settings of the catalogue`,
          facts,
        )
  }),
}

/** Some seconds of the design load. A larger lag is worth a notice. */
const HIGH_LAG = 10_000

/** Missing members are a problem. A lag is only a notice, because readers do not cause it. */
const reader = (consumer: Consumer): Check => ({
  subject: `${consumer} group`,
  needs: [KAFKA, ...(keepsPositionsInPostgresql(consumer) ? [MIGRATIONS] : [])],
  mend: 'Read the logs of its processes.',
  run: Effect.gen(function* () {
    const [connection, { prefix }] = yield* kafkaConfig
    const { lag, members, state } = yield* readConsumer(connection, prefix, consumer)
    const facts = { members, state, lag }
    const said = `${members} ${members === 1 ? 'member' : 'members'}, ${lag} ${lag === 1 ? 'record' : 'records'} behind`
    if (members === 0) return problem(`nobody reads, ${lag} records wait`, `Start ${consumer}.`, facts)
    return lag > HIGH_LAG ? notice(said, facts) : ok(said, facts)
  }),
})

const readers = CONSUMERS.map(reader)

/** A relay turn takes a second, so a row that waits for a minute is stuck. */
const STUCK_AFTER_MS = 60_000

const outboxes: Check = {
  subject: 'outboxes',
  needs: [MIGRATIONS],
  mend: 'Read the logs of command-api and projector.',
  run: Effect.gen(function* () {
    const waiting = yield* query(readWaitingRows)
    const facts = Object.fromEntries(waiting.map(({ content, rows }) => [content.replaceAll(' ', '_'), rows]))
    const stuck = waiting.filter(({ ageMs }) => (ageMs ?? 0) > STUCK_AFTER_MS)
    const total = waiting.reduce((sum, { rows }) => sum + rows, 0)
    return stuck.length === 0
      ? ok(total === 0 ? 'empty' : `${total} waiting, none for long`, facts)
      : problem(
          firstOf(
            stuck.map(
              ({ ageMs, content, rows }) =>
                `${rows} of ${content} wait, the oldest for ${Math.round((ageMs ?? 0) / 1000)} s`,
            ),
          ),
          'Kafka, command-api and projector must run for the relay: repair those first.',
          facts,
        )
  }),
}

const deadLetters: Check = {
  subject: 'dead letters',
  needs: [KAFKA],
  mend: 'See hubctl topics diff.',
  run: Effect.gen(function* () {
    const [connection, options] = yield* kafkaConfig
    const ranges = yield* readOffsetRanges(
      connection,
      topicCatalogue(options)
        .map(({ topic }) => topic)
        .filter((topic) => topic.endsWith('.dead-letter')),
    )
    const counts = [...ranges]
      .map(([topic, partitions]) => ({
        topic,
        count: partitions.reduce((sum, { high, low }) => sum + high - low, 0),
      }))
      .filter(({ count }) => count > 0)
    const total = counts.reduce((sum, { count }) => sum + count, 0)
    const facts = { total, topics: counts.map(({ count, topic }) => `${topic}: ${count}`) }
    return total === 0
      ? ok('none', facts)
      : notice(`${total} exist: ${firstOf(facts.topics)}. See hubctl dead-letters list`, facts)
  }),
}

const unanswered: Check = {
  subject: 'unanswered submits',
  needs: [MIGRATIONS],
  mend: 'Read the logs of the dispatchers.',
  run: Effect.gen(function* () {
    const { expired, oldest_at, sent } = yield* query(readUnanswered)
    const facts = { sent, expired, oldest_at }
    return sent + expired === 0
      ? ok(`none in the last ${UNANSWERED_HOURS} hours`, facts)
      : notice(
          `${sent + expired} in the last ${UNANSWERED_HOURS} hours: ${sent} wait for a report, ${expired} expired without one. The operator may not have them: see docs/operating.md`,
          facts,
        )
  }),
}

const stops: Check = {
  subject: 'stop flag',
  needs: [MIGRATIONS],
  mend: 'See hubctl hub show.',
  run: Effect.gen(function* () {
    const { daily_limit, stopped, stopped_until } = yield* query(CommandHubSettings.read)
    const until = stopped_until?.toISOString() ?? null
    const facts = { stopped, stopped_until: until, daily_limit }
    return stopped
      ? problem(
          `the hub accepts no new messages until ${until}`,
          'End it with hubctl hub resume when its reason is gone.',
          facts,
        )
      : ok('not set', facts)
  }),
}

/** The share of the limit from which on a notice is useful. */
const NOTICE_SHARE = 0.9

const daily: Check = {
  subject: 'daily limit',
  needs: [MIGRATIONS, REDIS],
  mend: 'See hubctl hub show.',
  run: Effect.gen(function* () {
    const { daily_limit: limit } = yield* query(CommandHubSettings.read)
    const url = yield* settings.redisUrl.config
    const prefix = yield* settings.redisPrefix.config
    const day = utcDay(yield* Clock.currentTimeMillis)
    const { today } = yield* readRedis({ url, prefix, day })
    const facts = { limit, today }
    if (limit === null) return ok(`none is set; ${today} messages today`, facts)
    const said = `${today} of ${limit} messages today`
    if (today >= limit)
      return problem(
        `${said}${today > limit ? `, ${today - limit} above the limit` : ''}: no more are accepted`,
        'Raise it with hubctl hub limit, or wait for midnight UTC.',
        facts,
      )
    return today >= limit * NOTICE_SHARE ? notice(said, facts) : ok(said, facts)
  }),
}

/** A projector publishes an erasure within seconds. */
const UNPUBLISHED_FOR_MS = 60_000

const erasures: Check = {
  subject: 'erasures',
  needs: [KAFKA, MIGRATIONS],
  mend: 'See hubctl topics diff.',
  run: Effect.gen(function* () {
    const [connection, { prefix, partitions }] = yield* kafkaConfig
    const topic = layerKeysAndErasures(connection, topicNames(prefix)).pipe(
      Layer.provide(layerEventLog({ connection, partitions })),
    )
    const missing = (yield* Effect.provide(missingErasures, topic)).length
    const waitsSince = yield* oldestUnpublishedErasure
    const facts = { missing, unpublished_since: waitsSince === null ? null : toTimestamp(waitsSince) }
    if (missing > 0) {
      return problem(
        `${missing} are missing in the database: it was restored from a backup, and contains erased people`,
        'Run hubctl restore erasures.',
        facts,
      )
    }
    return waitsSince !== null && (yield* Clock.currentTimeMillis) - waitsSince > UNPUBLISHED_FOR_MS
      ? problem('some are not recorded in Kafka, where a restore needs them', 'Start a projector.', facts)
      : ok('all are in the database and in Kafka', facts)
  }),
}

/** A client needs some time to get a certificate. */
const EXPIRES_SOON_MS = 30 * 86_400_000

const clientCertificates: Check = {
  subject: 'client certificates',
  needs: [MIGRATIONS],
  mend: 'See hubctl webhooks list.',
  run: Effect.gen(function* () {
    const before = new Date((yield* Clock.currentTimeMillis) + EXPIRES_SOON_MS)
    const { count, first } = yield* query((q) => WebhooksEndpoints.findExpiringCertificates(q, before))
    if (first === null) return null
    const id = encodeId('we', first.id)
    const end = toTimestamp(first.notAfter.getTime())
    return notice(`expired, or ending within 30 days: ${count}; the first one, of ${id}, ends at ${end}`, {
      count,
      subscription: id,
      not_after: end,
    })
  }),
}

export const pipelineChecks: ReadonlyArray<Check> = [
  topics,
  ...readers,
  outboxes,
  erasures,
  deadLetters,
  unanswered,
  stops,
  daily,
  clientCertificates,
]
