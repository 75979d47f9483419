/** Starts the webhook fan-out. */
import { settings } from '@hub/config'
import { catalogueConfig } from '@hub/kafka'
import { runApp } from '@hub/process'
import { watchErasures } from '@hub/store'
import { Readiness } from '@hub/telemetry'
import { Effect, Layer } from 'effect'
import { join } from 'node:path'
import { makeFanout } from './app.ts'
import { APP, checks } from './config.ts'
import { layers } from './layers.ts'
import { FanoutStore } from './store/store.port.ts'

const app = Layer.effectDiscard(
  Effect.gen(function* () {
    const { prefix } = yield* catalogueConfig
    const dataDir = (yield* settings.dataDir.config) ?? `.local/${APP}`
    const store = yield* FanoutStore
    const readiness = yield* Readiness
    yield* readiness.add('postgresql', store.answers)
    const { failure, isHealthy, isOpen } = yield* makeFanout({
      prefix,
      memberFile: join(dataDir, 'member-id'),
    })
    yield* readiness.add('group', isHealthy)
    yield* readiness.add('partitions', isOpen)
    yield* readiness.add('erasures', yield* watchErasures)
    yield* readiness.started
    yield* Effect.logInfo('webhook-fanout: started')
    return yield* failure
  }),
)

runApp({ name: APP, checks, beforeKafka: 'waits', layers, app })
