/** Checks of the message flow: topics, consumer lag, outboxes, dead letters and limits. */
import { settings } from '@hub/config'
import { readRedis, utcDay } from '@hub/counters'
import { toTimestamp } from '@hub/domain'
import {
  compareTopics,
  describeGroup,
  layerEventLog,
  layerKeysAndErasures,
  readOffsetRanges,
  topicCatalogue,
  type TopicDifference,
  type TopicNames,
  topicNames,
  type OffsetRange,
} from '@hub/kafka'
import {
  CommandHubSettings,
  missingErasures,
  oldestUnpublishedErasure,
  ReadCheckpoints,
  readWaitingRows,
  type Sql,
  WebhooksPositions,
} from '@hub/store'
import { Clock, Effect, Layer } from 'effect'
import { kafkaConfig } from '../kafka.ts'
import { query } from '../sql.ts'
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

/** The next offset of a reader, by topic and partition. */
type Positions = ReadonlyMap<string, ReadonlyMap<number, number>>

const lagOf = (ranges: ReadonlyMap<string, ReadonlyArray<OffsetRange>>, positions: Positions): number => {
  let lag = 0
  for (const [topic, partitions] of ranges) {
    for (const { high, low, partition } of partitions) {
      lag += Math.max(0, high - Math.max(low, positions.get(topic)?.get(partition) ?? low))
    }
  }
  return lag
}

interface StoredPosition {
  readonly topic: string
  readonly partition: number
  readonly position: number
}

const positionsOf = (stored: ReadonlyArray<StoredPosition>): Positions =>
  new Map(
    [...Map.groupBy(stored, ({ topic }) => topic)].map(([topic, own]) => [
      topic,
      new Map(own.map(({ partition, position }) => [partition, Math.max(0, position)])),
    ]),
  )

/** Some seconds of the design load. A larger lag is worth a notice. */
const HIGH_LAG = 10_000

/** Missing members are a problem. A lag is only a notice, because readers do not cause it. */
const reader = (
  app: string,
  read: (names: TopicNames) => ReadonlyArray<string>,
  /** The positions in PostgreSQL, if the reader does not commit them to the group. */
  positions: ((names: TopicNames, prefix: string) => Effect.Effect<Positions, unknown, Sql>) | null,
): Check => ({
  subject: `${app} group`,
  needs: [KAFKA, ...(positions === null ? [] : [MIGRATIONS])],
  mend: 'Read the logs of its processes.',
  run: Effect.gen(function* () {
    const [connection, { prefix }] = yield* kafkaConfig
    const names = topicNames(prefix)
    const [group, ranges, stored] = yield* Effect.all(
      [
        describeGroup(connection, `${prefix}hub.${app}`),
        readOffsetRanges(connection, read(names)),
        positions === null ? Effect.succeed(null) : positions(names, prefix),
      ],
      { concurrency: 'unbounded' },
    )
    const lag = lagOf(ranges, stored ?? group.committed)
    const facts = { members: group.members, state: group.state, lag }
    const said = `${group.members} ${group.members === 1 ? 'member' : 'members'}, ${lag} ${lag === 1 ? 'record' : 'records'} behind`
    if (group.members === 0) return problem(`nobody reads, ${lag} records wait`, `Start ${app}.`, facts)
    return lag > HIGH_LAG ? notice(said, facts) : ok(said, facts)
  }),
})

const readers: ReadonlyArray<Check> = [
  // Without the log: its low-water mark depends on open messages, so it does not measure lag.
  reader('dispatcher', (names) => [names.acceptedOtp, names.acceptedService, names.operatorReports], null),
  reader(
    'projector',
    (names) => [names.acceptedOtp, names.acceptedService, names.messages],
    (_, prefix) =>
      Effect.map(query(ReadCheckpoints.readPositions), (rows) =>
        positionsOf(rows.map((row) => ({ ...row, topic: `${prefix}${row.topic}` }))),
      ),
  ),
  reader(
    'webhook-fanout',
    (names) => [names.webhooks],
    ({ webhooks }) =>
      Effect.map(query(WebhooksPositions.readAll), (rows) =>
        positionsOf(rows.map((row) => ({ ...row, topic: webhooks }))),
      ),
  ),
]

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
        `${said}: no more are accepted`,
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

export const pipelineChecks: ReadonlyArray<Check> = [
  topics,
  ...readers,
  outboxes,
  erasures,
  deadLetters,
  stops,
  daily,
]
