/** PostgreSQL, Redis and Kafka: whether they answer, what they are, how fast, and what their clocks say. */
import { connect } from 'node:net'
import { settings } from '@hub/config'
import { readRedis, utcDay } from '@hub/counters'
import { kafkaConnectionConfig, describeCluster } from '@hub/kafka'
import { makeSql, migrationStatus, Sql } from '@hub/store'
import { Clock, Duration, Effect, Layer, Redacted } from 'effect'
import { CLIENT } from '../command-line/connections.ts'
import { type Check, DEADLINE, ill, note, type Outcome, well } from './check.ts'

const POSTGRESQL = 'PostgreSQL'
export const MIGRATIONS = 'migrations'
export const REDIS = 'Redis'
export const KAFKA = 'Kafka'

/** One to be asked and one that hangs. */
const CONNECTIONS = 2

/** PostgreSQL for all checks. A wrong URL is told by the check of PostgreSQL before anybody connects. */
export const pool: Layer.Layer<Sql> = Layer.effect(
  Sql,
  Effect.gen(function* () {
    const url = yield* settings.databaseUrl.config.pipe(
      Effect.orElseSucceed(() => Redacted.make('postgres://')),
    )
    const sql = yield* makeSql(url, CONNECTIONS, CLIENT)
    // As long as a check may take: its own bound is the one that is told.
    const patient = { deadline: DEADLINE }
    return {
      run: (body) => sql.run(body, patient),
      transaction: (body) => sql.transaction(body, patient),
    }
  }),
)

/** As much as command-api bears before it says that it is not ready. */
const CLOCK_TOLERANCE_MS = 1000

const ms = (value: number): number => Math.round(value * 10) / 10

/** What is left of a difference between clocks when the way there and back has had its share. */
const beyond = (clockMs: number, latencyMs: number): number => Math.max(0, Math.abs(clockMs) - latencyMs / 2)

const clockSentence = (clockMs: number): string =>
  `its clock is ${Math.abs(Math.round(clockMs))} ms ${clockMs < 0 ? 'behind' : 'ahead of'} ours`

const judged = (
  title: string,
  measured: { readonly latencyMs: number; readonly clockMs: number },
  facts: Readonly<Record<string, string | number | boolean | null>>,
): Outcome => {
  const all = { ...facts, latency_ms: ms(measured.latencyMs), clock_ms: Math.round(measured.clockMs) }
  const said = `${title}, answers in ${ms(measured.latencyMs)} ms, ${clockSentence(measured.clockMs)}`
  return beyond(measured.clockMs, measured.latencyMs) > CLOCK_TOLERANCE_MS
    ? ill(said, 'Set the clocks of both machines by NTP: times and deadlines are judged by both.', all)
    : well(said, all)
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
                   (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS at`
      return row
    })
    // The first one opens the connection.
    yield* ask
    const before = yield* Clock.currentTimeMillis
    const asked = performance.now()
    const row = yield* ask
    const latencyMs = performance.now() - asked
    const version = row?.version.split(' ')[0] ?? 'unknown'
    const measured = { latencyMs, clockMs: (row?.at ?? before) - (before + latencyMs / 2) }
    return row?.standby === true
      ? ill(
          `${version}, is a standby: nothing can be written there`,
          'Let HUB_DATABASE_URL name the primary.',
          { version },
        )
      : judged(version, measured, { version })
  }),
}

const migrations: Check = {
  subject: MIGRATIONS,
  needs: [POSTGRESQL],
  mend: 'See hubctl migrations status.',
  run: migrationStatus.pipe(
    Effect.map(({ applied, newer, pending, problems }) => {
      const facts = { applied: applied.length, pending, newer, problems }
      // That there are newer ones is no fault: a version works with the schema of the next one, so are upgrades done.
      if (problems.length > newer.length) {
        return ill(problems.join('; '), 'Run the version of the hub that this database belongs to.', facts)
      }
      if (pending.length > 0) {
        return ill(
          `${pending.length} are pending, ${pending[0]} first`,
          'Run hubctl migrations apply.',
          facts,
        )
      }
      return newer.length > 0
        ? note(`all of this version are applied, and ${newer.join(', ')} of a newer one`, facts)
        : well(`all ${applied.length} are applied`, facts)
    }),
  ),
}

const redis: Check = {
  subject: REDIS,
  needs: [],
  mend: 'Start it, or correct HUB_REDIS_URL. Meanwhile sends go on without flood windows and rate limits.',
  run: Effect.gen(function* () {
    const url = yield* settings.redisUrl.config
    const prefix = yield* settings.redisPrefix.config
    const day = utcDay(yield* Clock.currentTimeMillis)
    const { evictionPolicy, role, version, ...measured } = yield* readRedis({ url, prefix, day })
    const facts = { version, role, eviction_policy: evictionPolicy }
    if (role !== 'master') {
      return ill(
        `${version}, is a replica: nothing can be written there`,
        'Let HUB_REDIS_URL name the primary.',
        facts,
      )
    }
    if (evictionPolicy !== null && evictionPolicy !== 'noeviction') {
      return ill(
        `${version}, may throw counters away (${evictionPolicy})`,
        'Set its maxmemory-policy to noeviction, or flood windows are lost unseen.',
        facts,
      )
    }
    return judged(version, measured, facts)
  }),
}

/** A broker that is there takes a connection in a millisecond. */
const CONNECT_WITHIN = Duration.seconds(2)

/** Whether somebody takes a connection there. */
export const takesConnection = (host: string, port: number): Effect.Effect<boolean> =>
  Effect.callback<boolean>((resume) => {
    const socket = connect({ host, port })
    const end = (reached: boolean) => {
      socket.destroy()
      resume(Effect.succeed(reached))
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
    return Effect.sync(() => socket.destroy())
  }).pipe(Effect.timeoutOrElse({ duration: CONNECT_WITHIN, orElse: () => Effect.succeed(false) }))

const KAFKA_MEND =
  'Start it, or correct HUB_KAFKA_BROKERS. Meanwhile `service` sends wait in the outbox, and `otp` sends are refused.'

const kafka: Check = {
  subject: KAFKA,
  needs: [],
  mend: KAFKA_MEND,
  run: Effect.gen(function* () {
    const connection = yield* kafkaConnectionConfig(CLIENT)
    const reached = yield* Effect.forEach(
      connection.brokers,
      (broker) => {
        const mark = broker.lastIndexOf(':')
        const host = broker.slice(0, mark).replace(/^\[|\]$/gu, '')
        return takesConnection(host, Number(broker.slice(mark + 1)))
      },
      { concurrency: 'unbounded' },
    )
    const silent = connection.brokers.filter((_, index) => reached[index] !== true)
    if (silent.length === connection.brokers.length) {
      return ill(`${silent.join(', ')} take no connection`, KAFKA_MEND, { silent })
    }
    const asked = performance.now()
    const { brokers, cluster } = yield* describeCluster(connection)
    const latencyMs = performance.now() - asked
    const facts = { cluster, brokers, silent, latency_ms: ms(latencyMs) }
    const said = `${brokers} ${brokers === 1 ? 'broker' : 'brokers'}, connected and described in ${ms(latencyMs)} ms`
    if (silent.length > 0)
      return ill(
        `${said}, but ${silent.join(', ')} take no connection`,
        'Start them, or correct HUB_KAFKA_BROKERS.',
        facts,
      )
    const wanted = yield* settings.replicationFactor.config
    return brokers < wanted
      ? ill(
          said,
          `Topics want ${wanted} replicas: start the other brokers, or correct HUB_REPLICATION_FACTOR.`,
          facts,
        )
      : well(said, facts)
  }),
}

export const servers: ReadonlyArray<Check> = [postgresql, migrations, redis, kafka]
