/** Checks of PostgreSQL, Redis and Kafka: reachability, role, latency and clock. */
import { settings } from '@hub/config'
import { readRedis, type RedisState, utcDay } from '@hub/counters'
import { kafkaConnectionConfig, describeCluster } from '@hub/kafka'
import { CLOCK_TOLERANCE_MS, databaseClock, makeSql, migrationStatus, Sql } from '@hub/store'
import { acceptsConnection } from '@hub/telemetry'
import { Clock, Duration, Effect, Layer, Redacted } from 'effect'
import { CLIENT } from '../kafka.ts'
import { type Check, DEADLINE, problem, notice, type Outcome, ok } from './check.ts'

const POSTGRESQL = 'PostgreSQL'
export const MIGRATIONS = 'migrations'
export const REDIS = 'Redis'
export const KAFKA = 'Kafka'

/** One for the checks, and one that may hang. */
const CONNECTIONS = 2

/** PostgreSQL for all checks, also without a valid URL. The check of PostgreSQL reports an invalid URL before it connects. */
export const doctorPool: Layer.Layer<Sql> = Layer.effect(
  Sql,
  Effect.gen(function* () {
    const url = yield* settings.databaseUrl.config.pipe(
      Effect.orElseSucceed(() => Redacted.make('postgres://')),
    )
    const sql = yield* makeSql(url, CONNECTIONS, CLIENT)
    // The deadline of the check applies, and not that of the statement.
    const options = { deadline: DEADLINE }
    return {
      run: (body) => sql.run(body, options),
      transaction: (body) => sql.transaction(body, options),
      answers: sql.answers,
    }
  }),
)

const ms = (value: number): number => Math.round(value * 10) / 10

/** The difference between clocks that the latency cannot explain. */
const unexplainedOffset = (clockMs: number, latencyMs: number): number =>
  Math.max(0, Math.abs(clockMs) - latencyMs / 2)

const clockSentence = (clockMs: number): string =>
  `its clock is ${Math.abs(Math.round(clockMs))} ms ${clockMs < 0 ? 'behind' : 'ahead of'} ours`

const assess = (
  title: string,
  measured: { readonly latencyMs: number; readonly clockMs: number },
  facts: Readonly<Record<string, string | number | boolean | null>>,
): Outcome => {
  const all = { ...facts, latency_ms: ms(measured.latencyMs), clock_ms: Math.round(measured.clockMs) }
  const said = `${title}, answers in ${ms(measured.latencyMs)} ms, ${clockSentence(measured.clockMs)}`
  return unexplainedOffset(measured.clockMs, measured.latencyMs) > CLOCK_TOLERANCE_MS
    ? problem(said, 'Synchronize the clocks of both machines with NTP: times and deadlines use both.', all)
    : ok(said, all)
}

const postgresql: Check = {
  subject: POSTGRESQL,
  needs: [],
  mend: 'Start it, or correct HUB_DATABASE_URL.',
  run: Effect.gen(function* () {
    yield* settings.databaseUrl.config
    const sql = yield* Sql
    const ask = sql.run(async (q) => {
      const [row] = await q<{ version: string; at: number; standby: boolean }[]>`
            SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS standby,
                   ${databaseClock(q)} AS at`
      return row
    })
    // The first statement opens the connection, so only the second is measured.
    yield* ask
    const before = yield* Clock.currentTimeMillis
    const asked = performance.now()
    const row = yield* ask
    const latencyMs = performance.now() - asked
    const version = row?.version.split(' ')[0] ?? 'unknown'
    const measured = { latencyMs, clockMs: (row?.at ?? before) - (before + latencyMs / 2) }
    return row?.standby === true
      ? problem(`${version}, is a standby and refuses writes`, 'Set HUB_DATABASE_URL to the primary.', {
          version,
        })
      : assess(version, measured, { version })
  }),
}

const migrations: Check = {
  subject: MIGRATIONS,
  needs: [POSTGRESQL],
  mend: 'See hubctl migrations status.',
  run: migrationStatus.pipe(
    Effect.map(({ applied, newer, pending, problems }) => {
      const facts = { applied: applied.length, pending, newer, problems }
      // Newer migrations are no problem: a version works with the schema of the next one.
      if (problems.length > newer.length) {
        return problem(problems.join('; '), 'Run the version of the hub that matches this database.', facts)
      }
      if (pending.length > 0) {
        return problem(
          `${pending.length} are pending, ${pending[0]} first`,
          'Run hubctl migrations apply.',
          facts,
        )
      }
      return newer.length > 0
        ? notice(`all of this version are applied, and ${newer.join(', ')} of a newer version`, facts)
        : ok(`all ${applied.length} are applied`, facts)
    }),
  ),
}

const redisTitle = ({ primaries, sentinels, version }: RedisState): string => {
  if (primaries !== null) return `${version}, a cluster of ${primaries} primaries`
  return sentinels === null ? version : `${version}, the primary of ${sentinels.all} Sentinels`
}

/** The finding about a Redis that answers. */
export const assessRedis = (state: RedisState): Outcome => {
  const { evictionPolicy, primaries, role, sentinels, version } = state
  const facts = {
    version,
    role,
    eviction_policy: evictionPolicy,
    primaries,
    sentinels: sentinels?.naming ?? null,
  }
  if (role !== 'master') {
    return problem(`${version}, is a replica and refuses writes`, 'Set HUB_REDIS_URL to the primary.', facts)
  }
  if (evictionPolicy !== null && evictionPolicy !== 'noeviction') {
    return problem(
      `${version}, can evict counters (${evictionPolicy})`,
      'Set maxmemory-policy to noeviction. Otherwise flood windows are lost silently.',
      facts,
    )
  }
  if (sentinels !== null && sentinels.naming < sentinels.all) {
    return problem(
      `${version}, but only ${sentinels.naming} of ${sentinels.all} Sentinels say that it is the primary`,
      'Start the others, wait for the end of a failover, or correct HUB_REDIS_URL.',
      facts,
    )
  }
  return assess(redisTitle(state), state, facts)
}

const redis: Check = {
  subject: REDIS,
  needs: [],
  mend: 'Start it, or correct HUB_REDIS_URL. Until then, sends continue without flood windows and rate limits.',
  run: Effect.gen(function* () {
    const url = yield* settings.redisUrl.config
    const prefix = yield* settings.redisPrefix.config
    const day = utcDay(yield* Clock.currentTimeMillis)
    return assessRedis(yield* readRedis({ url, prefix, day }))
  }),
}

/** A running broker accepts a connection within a millisecond. */
export const CONNECT_TIMEOUT = Duration.seconds(2)

const KAFKA_MEND =
  'Start it, or correct HUB_KAFKA_BROKERS. Until then, `service` sends wait in the outbox, and `otp` sends are refused.'

const kafka: Check = {
  subject: KAFKA,
  needs: [],
  mend: KAFKA_MEND,
  run: Effect.gen(function* () {
    const connection = yield* kafkaConnectionConfig(CLIENT)
    const reached = yield* Effect.forEach(
      connection.brokers,
      (broker) => acceptsConnection(broker, CONNECT_TIMEOUT),
      { concurrency: 'unbounded' },
    )
    const silent = connection.brokers.filter((_, index) => reached[index] !== true)
    if (silent.length === connection.brokers.length) {
      return problem(`${silent.join(', ')} accept no connection`, KAFKA_MEND, { silent })
    }
    const asked = performance.now()
    const { brokers, cluster } = yield* describeCluster(connection)
    const latencyMs = performance.now() - asked
    const facts = { cluster, brokers, silent, latency_ms: ms(latencyMs) }
    const said = `${brokers} ${brokers === 1 ? 'broker' : 'brokers'}, connected and described in ${ms(latencyMs)} ms`
    if (silent.length > 0)
      return problem(
        `${said}, but ${silent.join(', ')} accept no connection`,
        'Start them, or correct HUB_KAFKA_BROKERS.',
        facts,
      )
    const wanted = yield* settings.replicationFactor.config
    return brokers < wanted
      ? problem(
          said,
          `Topics need ${wanted} replicas: start the other brokers, or correct HUB_REPLICATION_FACTOR.`,
          facts,
        )
      : ok(said, facts)
  }),
}

export const serverChecks: ReadonlyArray<Check> = [postgresql, migrations, redis, kafka]
