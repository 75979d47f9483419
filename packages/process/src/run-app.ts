/** Starts a process of the hub, and ends it at a signal or after a failure. */
// Imported by its own path, because the whole package takes 25 MB more.
import * as NodeRuntime from '@effect/platform-node/NodeRuntime'
import { type AnyApp, checkSettings } from '@hub/config'
import { type BeforeKafka, makeHubProof, type MasterKeyEncryption, type Sql } from '@hub/store'
import { adminLayer, loggerLayer, Readiness, teardown, tracingLayer, withFailureLog } from '@hub/telemetry'
import { Effect, Layer } from 'effect'

/** The services that prove that the process belongs to its hub. */
type ProofServices = Sql | MasterKeyEncryption

export interface AppOptions<Services, AppError, ConnectionError> {
  readonly name: AnyApp
  /** Checks in addition to those of the settings catalogue, before the process connects to anything. */
  readonly checks: Parameters<typeof checkSettings>[1]
  readonly beforeKafka: BeforeKafka
  /** The connections and the keys of the process. */
  readonly layers: Layer.Layer<Services | ProofServices, ConnectionError, Readiness>
  /** Runs until its scope closes. If it fails, the process ends. */
  readonly app: Layer.Layer<never, AppError, Services | ProofServices | Readiness>
}

/**
 * Checks the settings, builds the layers, proves that the process belongs to its hub, and runs the app. The exit
 * code is 0 after a signal and 1 after a failure.
 */
export const runApp = <Services, AppError, ConnectionError>({
  app,
  beforeKafka,
  checks,
  layers,
  name,
}: AppOptions<Services, AppError, ConnectionError>): void => {
  const proof = makeHubProof(name, { beforeKafka })
  const process = app.pipe(
    Layer.provide(proof.layer),
    Layer.provide(layers),
    Layer.provide(adminLayer),
    Layer.provide(Readiness.layer),
    Layer.provide(tracingLayer(name)),
    Layer.provide(loggerLayer(name)),
  )
  checkSettings(name, checks).pipe(
    Effect.andThen(Effect.raceFirst(Layer.launch(process), proof.lost)),
    withFailureLog(name),
    NodeRuntime.runMain({ teardown, disableErrorReporting: true }),
  )
}
