/**
 * Test deliveries (`POST …/test`): command-api inserts a request in PostgreSQL, and the first
 * process of the fan-out that finds it makes the attempt at once. A test delivery changes neither
 * queue, endpoint health nor journal, so any process may make it, not only the owner of the
 * partition. Source: contract, Webhook subscription; docs/decisions/0011.
 */
import { AttemptNotMade, WebhookClient } from '@hub/webhooks'
import { Effect, FiberSet, Metric } from 'effect'
import { FanoutSettings } from '../config.ts'
import { metrics } from '../metrics.ts'
import { FanoutStore, type TestDelivery } from '../store/store.port.ts'

/** A query takes PostgreSQL some microseconds, because the index is usually empty. */
const POLL_EVERY = '200 millis'

/**
 * Test deliveries in flight in this process, beside the attempts. Each subscription has at most
 * one. So many hung receivers together delay the others; command-api then tells clients to try again.
 */
const MAX_IN_FLIGHT = 32

/** The pause after PostgreSQL failed. */
const TROUBLE_PAUSE = '1 second'

/** Takes and makes test deliveries, without end. */
export const runTestDeliveries = Effect.gen(function* () {
  const store = yield* FanoutStore
  const client = yield* WebhookClient
  const settings = yield* FanoutSettings
  const inFlight = yield* FiberSet.make<void>()
  const fork = yield* FiberSet.runtime(inFlight)()

  const make = Effect.fnUntraced(
    function* (taken: TestDelivery) {
      const { body, eventBatch, secrets, url } = taken
      const result = yield* client
        .deliver({ url, eventBatch, body, secrets }, { deadlineMs: settings.deadlineMs })
        .pipe(Effect.catchTag('AttemptNotMade', (error) => Effect.succeed(error)))
      if (result instanceof AttemptNotMade) {
        yield* Metric.update(metrics.notMade, 1)
        yield* Effect.logWarning(
          'test deliveries: this process could not make an attempt; releasing it',
          result,
        )
        yield* store.releaseTestDelivery(taken)
        return
      }
      yield* store.recordTestDelivery(taken, result)
      yield* Metric.update(metrics.trials, 1)
    },
    // The client of the API gets no result, and may request another one.
    Effect.catch((error) =>
      Effect.logWarning('test deliveries: could not record an attempt; dropping it', error),
    ),
  )

  const poll = Effect.gen(function* () {
    const free = MAX_IN_FLIGHT - (yield* FiberSet.size(inFlight))
    if (free > 0) for (const taken of yield* store.takeTestDeliveries(free)) fork(make(taken))
    yield* Effect.sleep(POLL_EVERY)
  }).pipe(
    Effect.catch((error) =>
      Effect.andThen(
        Effect.logWarning('test deliveries: could not read requests; trying again in 1 s', error),
        Effect.sleep(TROUBLE_PAUSE),
      ),
    ),
  )
  return yield* Effect.forever(poll)
})
