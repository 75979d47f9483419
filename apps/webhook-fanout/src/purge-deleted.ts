/** Deletes the rows of deleted subscriptions in the background. */
import { storageCrashPoint } from '@hub/store'
import { Effect } from 'effect'
import { FanoutSettings } from './config.ts'
import { FanoutStore } from './store/store.port.ts'

/** Between two steps while rows are left: PostgreSQL serves deliveries in between. */
const STEP_PAUSE = '100 millis'

const atPurged = storageCrashPoint('webhook-fanout.deleted-purged', (rows: number) => rows > 0)

/** Deletes step by step, without end. */
export const runPurge = Effect.gen(function* () {
  const store = yield* FanoutStore
  const { purgeEveryMs } = yield* FanoutSettings
  const step = store.purgeDeleted.pipe(
    atPurged,
    Effect.catch((error) =>
      Effect.as(
        Effect.logWarning('purge: could not delete rows of deleted subscriptions; trying again', error),
        0,
      ),
    ),
    Effect.flatMap((purged) => Effect.sleep(purged > 0 ? STEP_PAUSE : purgeEveryMs)),
  )
  return yield* Effect.forever(step)
})
