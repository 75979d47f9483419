/**
 * Trial deliveries: command-api asks for one in PostgreSQL, and whichever process of the fan-out sees it first makes it at
 * once. It has nothing to do with the queue, the run of failures or the journal, so nobody's partition matters. Source: contract,
 * Webhook subscription; docs/decisions/0011.
 */
import { AttemptNotMade, WebhookClient } from '@hub/webhooks'
import { Effect, FiberSet, Metric } from 'effect'
import { metrics } from '../metrics.ts'
import { FanoutSettings } from '../config.ts'
import { FanoutStore, type Trial } from '../store/store.port.ts'

/** How often new ones are looked for. The question costs PostgreSQL some microseconds: the index is empty as a rule. */
const LOOK_EVERY = '200 millis'

/**
 * Trials under way in this process, beside the attempts. A subscription has one at a time, so that it takes as many hung receivers
 * to hold up others; and these are told to try again.
 */
const AT_ONCE = 32

/** After PostgreSQL stood in the way. */
const TROUBLE_PAUSE = '1 second'

/** Between two steps while there is something to clear. */
const CLEAR_PAUSE = '100 millis'

/** Makes trials, for ever. */
export const runTrials = Effect.gen(function* () {
  const store = yield* FanoutStore
  const client = yield* WebhookClient
  const settings = yield* FanoutSettings
  const underWay = yield* FiberSet.make<void>()
  const fork = yield* FiberSet.runtime(underWay)()

  const make = Effect.fnUntraced(
    function* (trial: Trial) {
      const result = yield* client
        .deliver(
          { url: trial.url, eventBatch: trial.eventBatch, body: trial.body, secrets: trial.secrets },
          { deadlineMs: settings.deadlineMs },
        )
        .pipe(Effect.catchTag('AttemptNotMade', (error) => Effect.succeed(error)))
      if (result instanceof AttemptNotMade) {
        yield* Metric.update(metrics.notMade, 1)
        yield* Effect.logWarning('a trial delivery could not be made', result)
        yield* store.releaseTrial(trial)
        return
      }
      yield* store.recordTrial(trial, result)
      yield* Metric.update(metrics.trials, 1)
    },
    // Who asked for it gets no answer, and may ask again.
    Effect.catch((error) => Effect.logWarning('a trial delivery could not be recorded', error)),
  )

  const look = Effect.gen(function* () {
    const free = AT_ONCE - (yield* FiberSet.size(underWay))
    if (free > 0) for (const trial of yield* store.claimTrials(free)) fork(make(trial))
    yield* Effect.sleep(LOOK_EVERY)
  }).pipe(
    Effect.catch((error) =>
      Effect.andThen(
        Effect.logWarning('trial deliveries could not be looked for', error),
        Effect.sleep(TROUBLE_PAUSE),
      ),
    ),
  )
  return yield* Effect.forever(look)
})

/** Clears what deleted subscriptions have left, for ever. */
export const runClearing = Effect.gen(function* () {
  const store = yield* FanoutStore
  const { clearEveryMs } = yield* FanoutSettings
  const step = store.clearDeleted.pipe(
    Effect.catch((error) =>
      Effect.as(Effect.logWarning('what deleted subscriptions left could not be cleared', error), 0),
    ),
    Effect.flatMap((cleared) => Effect.sleep(cleared > 0 ? CLEAR_PAUSE : clearEveryMs)),
  )
  return yield* Effect.forever(step)
})
