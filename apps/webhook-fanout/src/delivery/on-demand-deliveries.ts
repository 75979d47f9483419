/**
 * Deliveries on demand: test deliveries (`POST …/test`) and resends (`POST …/resend`). command-api
 * or hubctl inserts a request in PostgreSQL, and the first process of the fan-out that finds it makes
 * the attempt at once. Such a delivery changes neither queue, endpoint health nor journal, so any
 * process may make it, not only the owner of the partition. Source: SUB-22 to SUB-26;
 * docs/decisions/webhooks.md#deliveries-on-demand.
 */
import { AttemptNotMade, WebhookClient } from '@hub/webhooks'
import { crashPointOfValue } from '@hub/crash-points'
import { storageCrashPoint } from '@hub/store'
import { Effect, FiberSet } from 'effect'
import { FanoutSettings } from '../config.ts'
import { metrics } from '../metrics.ts'
import { type DeliveryOnDemand, FanoutStore } from '../store/store.port.ts'
import { noAnswer } from './no-answer.ts'

/** A query takes PostgreSQL some microseconds, because the index is usually empty. */
const POLL_EVERY = '200 millis'

/**
 * Deliveries on demand in flight in this process, beside the attempts. Each account has at most
 * four (`WebhooksResends.hasPlace`), and accounts take turns. So hung receivers of one account do
 * not delay the others.
 */
const MAX_IN_FLIGHT = 32

/** The pause after PostgreSQL failed. */
const FAILURE_PAUSE = '1 second'

const atTaken = storageCrashPoint(
  'webhook-fanout.on-demand-taken',
  (taken: ReadonlyArray<DeliveryOnDemand>) => taken.length > 0,
)
const atAttempted = crashPointOfValue('webhook-fanout.on-demand-attempted', noAnswer)
const atRecorded = storageCrashPoint('webhook-fanout.on-demand-recorded')

/** Takes and makes deliveries on demand, without end. */
export const runDeliveriesOnDemand = Effect.gen(function* () {
  const store = yield* FanoutStore
  const client = yield* WebhookClient
  const settings = yield* FanoutSettings
  const inFlight = yield* FiberSet.make<void>()
  const fork = yield* FiberSet.runtime(inFlight)()

  const make = Effect.fnUntraced(
    function* (taken: DeliveryOnDemand) {
      const result = yield* client.deliver(taken.delivery, { deadlineMs: settings.deadlineMs }).pipe(
        Effect.map(atAttempted),
        Effect.catchTag('AttemptNotMade', (error) => Effect.succeed(error)),
      )
      if (result instanceof AttemptNotMade) {
        metrics.notMade.add()
        yield* Effect.logWarning(
          'deliveries on demand: this process could not make an attempt; releasing it',
          result,
        )
        yield* store.releaseOnDemand(taken)
        return
      }
      yield* atRecorded(store.recordOnDemand(taken, result))
      metrics.onDemand.add()
    },
    // The client of the API gets no result, and may request another one.
    Effect.catch((error) =>
      Effect.logWarning('deliveries on demand: could not record an attempt; dropping it', error),
    ),
  )

  const poll = Effect.gen(function* () {
    const free = MAX_IN_FLIGHT - (yield* FiberSet.size(inFlight))
    if (free > 0) for (const taken of yield* atTaken(store.takeOnDemand(free))) fork(make(taken))
    yield* Effect.sleep(POLL_EVERY)
  }).pipe(
    Effect.catch((error) =>
      Effect.andThen(
        Effect.logWarning('deliveries on demand: could not read requests; trying again in 1 s', error),
        Effect.sleep(FAILURE_PAUSE),
      ),
    ),
  )
  return yield* Effect.forever(poll)
})
