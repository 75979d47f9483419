/** The readiness checks of command-api. */
import { connect } from 'node:net'
import { Sql } from '@hub/store'
import { Readiness } from '@hub/telemetry'
import { Clock, Duration, Effect, Layer } from 'effect'
import { HttpEdge } from '../http/edge.ts'

/**
 * Acceptances are stamped by PostgreSQL's clock, lifetimes end by this machine's clock. Source:
 * architecture, Accepting.
 */
const CLOCK_TOLERANCE_MS = 1000

/** A reachable broker accepts a connection within a millisecond. */
const CONNECT_WITHIN = Duration.millis(400)

/** Whether the broker accepts a connection. */
const acceptsConnection = (broker: string): Effect.Effect<boolean> =>
  Effect.callback<boolean>((resume) => {
    const colon = broker.lastIndexOf(':')
    const socket = connect({ host: broker.slice(0, colon), port: Number(broker.slice(colon + 1)) })
    const end = (reached: boolean) => {
      socket.destroy()
      resume(Effect.succeed(reached))
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
    return Effect.sync(() => socket.destroy())
  }).pipe(Effect.timeoutOrElse({ duration: CONNECT_WITHIN, orElse: () => Effect.succeed(false) }))

/**
 * Adds the checks of this app: PostgreSQL answers, the clocks agree, the listener serves requests,
 * and a Kafka broker was reachable once.
 *
 * Kafka is checked until it was reachable once: a process that has never reached it is probably
 * misconfigured. Later, reads and `service` sends must go on while Kafka is unavailable.
 */
export const readinessLayer = (brokers: ReadonlyArray<string>) =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const readiness = yield* Readiness
      const sql = yield* Sql
      const edge = yield* HttpEdge

      const databaseClock = sql.run(
        async (q) => {
          const [row] = await q<{ at: number }[]>`
          SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS at`
          return row?.at ?? 0
        },
        { deadline: Duration.millis(800) },
      )
      yield* readiness.add(
        'postgresql',
        databaseClock.pipe(
          Effect.as(true),
          Effect.catch(() => Effect.succeed(false)),
        ),
      )
      yield* readiness.add(
        'clock',
        Effect.gen(function* () {
          const before = yield* Clock.currentTimeMillis
          const databaseTime = yield* databaseClock
          const after = yield* Clock.currentTimeMillis
          // PostgreSQL read its clock between the two moments.
          return databaseTime >= before - CLOCK_TOLERANCE_MS && databaseTime <= after + CLOCK_TOLERANCE_MS
        }).pipe(Effect.catch(() => Effect.succeed(false))),
      )
      let kafkaSeen = false
      yield* readiness.add(
        'kafka',
        Effect.suspend(() =>
          kafkaSeen
            ? Effect.succeed(true)
            : Effect.map(
                Effect.forEach(brokers, acceptsConnection, { concurrency: 'unbounded' }),
                (answers) => (kafkaSeen = answers.includes(true)),
              ),
        ),
      )
      yield* readiness.add(
        'serving',
        Effect.sync(() => edge.state() === 'serving'),
      )
      yield* readiness.started
    }),
  )
