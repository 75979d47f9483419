/** When the process can do its work. */
import { connect } from 'node:net'
import { Sql } from '@hub/store'
import { Readiness } from '@hub/telemetry'
import { Clock, Duration, Effect, Layer } from 'effect'
import { HttpEdge } from '../http/edge.ts'

/**
 * Stamps come from PostgreSQL and lifetimes are judged by this machine's clock as well: a second apart is as much as may go
 * unnoticed. Architecture, Accepting.
 */
const CLOCK_TOLERANCE_MS = 1000

/** A broker that is there takes a connection in a millisecond. */
const CONNECT_WITHIN = Duration.millis(400)

/** Whether any of the brokers takes a connection. */
const takesConnection = (broker: string): Effect.Effect<boolean> =>
  Effect.callback<boolean>((resume) => {
    const mark = broker.lastIndexOf(':')
    const socket = connect({ host: broker.slice(0, mark), port: Number(broker.slice(mark + 1)) })
    const end = (reached: boolean) => {
      socket.destroy()
      resume(Effect.succeed(reached))
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
    return Effect.sync(() => socket.destroy())
  }).pipe(Effect.timeoutOrElse({ duration: CONNECT_WITHIN, orElse: () => Effect.succeed(false) }))

/**
 * Adds the checks of this app: PostgreSQL answers, the clocks agree, requests are taken, and Kafka was there once.
 *
 * Once, and not now: a process that cannot reach Kafka from the start is configured wrongly and must not get traffic; later, the contract
 * wants reads and `service` sends to go on while Kafka is down, and taking every process out would end both.
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
          const there = yield* databaseClock
          const after = yield* Clock.currentTimeMillis
          // The answer was given somewhere between the two.
          return there >= before - CLOCK_TOLERANCE_MS && there <= after + CLOCK_TOLERANCE_MS
        }).pipe(Effect.catch(() => Effect.succeed(false))),
      )
      let kafkaSeen = false
      yield* readiness.add(
        'kafka',
        Effect.suspend(() =>
          kafkaSeen
            ? Effect.succeed(true)
            : Effect.map(
                Effect.forEach(brokers, takesConnection, { concurrency: 'unbounded' }),
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
