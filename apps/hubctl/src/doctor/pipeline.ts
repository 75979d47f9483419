/** Whether the hub's work flows: topics as they should be, readers that keep up, nothing stuck, nothing stopped. */
import { settings } from '@hub/config'
import { readRedis, utcDay } from '@hub/counters'
import {
  catalogueConfig,
  compareTopics,
  kafkaConnectionConfig,
  describeGroup,
  readOffsetRanges,
  topicCatalogue,
  type TopicDifference,
  type TopicNames,
  topicNames,
  type OffsetRange,
} from '@hub/kafka'
import { ReadCheckpoints, readWaitingRows, Sql } from '@hub/store'
import { Clock, Config, Effect } from 'effect'
import { CLIENT } from '../command-line/connections.ts'
import { type Check, ill, note, well } from './check.ts'
import { KAFKA, MIGRATIONS, REDIS } from './servers.ts'

const TOPICS = 'topics'

const bus = Config.all([kafkaConnectionConfig(CLIENT), catalogueConfig])

const differenceSentence = ({ found, setting, topic, wanted }: TopicDifference): string =>
  `${topic} has ${setting} ${found} instead of ${wanted}`

/** Enough to begin with; `hubctl topics diff` has the rest. */
const MOST_NAMED = 2

const some = (sentences: ReadonlyArray<string>): string =>
  sentences.length <= MOST_NAMED
    ? sentences.join('; ')
    : `${sentences.slice(0, MOST_NAMED).join('; ')}; and ${sentences.length - MOST_NAMED} more`

const topics: Check = {
  subject: TOPICS,
  needs: [KAFKA],
  mend: 'See hubctl topics diff.',
  run: Effect.gen(function* () {
    const [connection, options] = yield* bus
    const specs = topicCatalogue(options)
    const { differences, missing } = yield* compareTopics(connection, specs)
    const facts = { missing, differences: differences.map(differenceSentence) }
    const mend = 'See hubctl topics diff, and run hubctl topics apply.'
    if (missing.length > 0) return ill(`missing: ${some(missing)}`, mend, facts)
    return differences.length > 0
      ? ill(some(differences.map(differenceSentence)), mend, facts)
      : well(
          `all ${specs.length} are there, with ${options.partitions} partitions and the settings of the catalogue`,
          facts,
        )
  }),
}

/** Where a reader stands in its topics: the next offset, by topic and partition. */
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

interface Place {
  readonly topic: string
  readonly partition: number
  readonly position: number
}

const positionsOf = (places: ReadonlyArray<Place>): Positions =>
  new Map(
    [...Map.groupBy(places, ({ topic }) => topic)].map(([topic, own]) => [
      topic,
      new Map(own.map(({ partition, position }) => [partition, Math.max(0, position)])),
    ]),
  )

/** Some seconds of the load that the hub is built for: behind by more, a reader is worth a look. */
const MUCH_LAG = 10_000

/** Readers that are there; how far they are behind is a remark, since a backlog is no fault of theirs. */
const reader = (
  app: string,
  read: (names: TopicNames) => ReadonlyArray<string>,
  /** Where it stands, if that is not what the group has committed. */
  positions: ((names: TopicNames, prefix: string) => Effect.Effect<Positions, unknown, Sql>) | null,
): Check => ({
  subject: `${app} group`,
  needs: [KAFKA, ...(positions === null ? [] : [MIGRATIONS])],
  mend: 'Look at the log of its processes.',
  run: Effect.gen(function* () {
    const [connection, { prefix }] = yield* bus
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
    if (group.members === 0) return ill(`nobody reads, ${lag} records wait`, `Start ${app}.`, facts)
    return lag > MUCH_LAG ? note(said, facts) : well(said, facts)
  }),
})

const readers: ReadonlyArray<Check> = [
  // What it has committed of the log is as far back as open messages reach: no measure of being late.
  reader('dispatcher', (names) => [names.acceptedOtp, names.acceptedService, names.operatorReports], null),
  reader(
    'projector',
    (names) => [names.acceptedOtp, names.acceptedService, names.messages],
    (_, prefix) =>
      Effect.flatMap(Sql, (sql) => sql.run(ReadCheckpoints.readPositions)).pipe(
        Effect.map((places) =>
          positionsOf(places.map((place) => ({ ...place, topic: `${prefix}${place.topic}` }))),
        ),
      ),
  ),
  reader(
    'webhook-fanout',
    (names) => [names.webhooks],
    ({ webhooks }) =>
      Effect.flatMap(Sql, (sql) =>
        sql.run(
          (q) => q<Place[]>`
            SELECT ${webhooks} AS topic, partition, position::float8 AS position FROM webhooks.positions`,
        ),
      ).pipe(Effect.map(positionsOf)),
  ),
]

/** A turn of a relay takes a second; what waits for a minute waits for somebody. */
const STUCK_AFTER_MS = 60_000

const outboxes: Check = {
  subject: 'outboxes',
  needs: [MIGRATIONS],
  mend: 'Look at the log of command-api and projector.',
  run: Effect.gen(function* () {
    const sql = yield* Sql
    const waiting = yield* sql.run(readWaitingRows)
    const facts = Object.fromEntries(waiting.map(({ content, rows }) => [content.replaceAll(' ', '_'), rows]))
    const stuck = waiting.filter(({ ageMs }) => (ageMs ?? 0) > STUCK_AFTER_MS)
    const total = waiting.reduce((sum, { rows }) => sum + rows, 0)
    return stuck.length === 0
      ? well(total === 0 ? 'empty' : `${total} waiting, none for long`, facts)
      : ill(
          some(
            stuck.map(
              ({ ageMs, content, rows }) =>
                `${rows} of ${content} wait, the oldest for ${Math.round((ageMs ?? 0) / 1000)} s`,
            ),
          ),
          'They go out when Kafka takes records and command-api and projector run: mend those first.',
          facts,
        )
  }),
}

const deadLetters: Check = {
  subject: 'dead letters',
  needs: [KAFKA],
  mend: 'See hubctl topics diff.',
  run: Effect.gen(function* () {
    const [connection, options] = yield* bus
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
      ? well('none', facts)
      : note(`${total} are kept: ${some(facts.topics)}. See hubctl dead-letters list`, facts)
  }),
}

const stops: Check = {
  subject: 'stop flag',
  needs: [MIGRATIONS],
  mend: 'See hubctl limits.',
  run: Effect.gen(function* () {
    const sql = yield* Sql
    const [row] = yield* sql.run(
      (q) => q<{ stopped_until: Date | null; stopped: boolean; daily_limit: number | null }[]>`
        SELECT stopped_until, daily_limit, coalesce(stopped_until > now(), false) AS stopped
          FROM command.hub_settings`,
    )
    const until = row?.stopped_until?.toISOString() ?? null
    const facts = {
      stopped: row?.stopped ?? false,
      stopped_until: until,
      daily_limit: row?.daily_limit ?? null,
    }
    return row?.stopped === true
      ? ill(
          `the hub takes nothing new until ${until}`,
          'Lift it with hubctl when what it was for is over.',
          facts,
        )
      : well('not set', facts)
  }),
}

/** A day's share that is left when it is time to look. */
const NEARLY = 0.9

const daily: Check = {
  subject: 'daily limit',
  needs: [MIGRATIONS, REDIS],
  mend: 'See hubctl limits.',
  run: Effect.gen(function* () {
    const sql = yield* Sql
    const [row] = yield* sql.run(
      (q) => q<{ daily_limit: number | null }[]>`SELECT daily_limit FROM command.hub_settings`,
    )
    const limit = row?.daily_limit ?? null
    const url = yield* settings.redisUrl.config
    const prefix = yield* settings.redisPrefix.config
    const day = utcDay(yield* Clock.currentTimeMillis)
    const { today } = yield* readRedis({ url, prefix, day })
    const facts = { limit, today }
    if (limit === null) return well(`none is set; ${today} messages today`, facts)
    const said = `${today} of ${limit} messages today`
    if (today >= limit)
      return ill(`${said}: nothing more is taken`, 'Raise it with hubctl, or wait for midnight UTC.', facts)
    return today >= limit * NEARLY ? note(said, facts) : well(said, facts)
  }),
}

export const work: ReadonlyArray<Check> = [topics, ...readers, outboxes, deadLetters, stops, daily]
