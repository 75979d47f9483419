/** Starts the projector: checks the settings and runs the app until a signal. */
// Imported by its own path, because the whole package takes 25 MB more.
import * as NodeRuntime from '@effect/platform-node/NodeRuntime'
import { checkSettings } from '@hub/config'
import { teardown, withFailureLog } from '@hub/telemetry'
import { Effect, Layer } from 'effect'
import { app, proof } from './app.ts'
import { APP, checks } from './config.ts'

checkSettings(APP, checks).pipe(
  Effect.andThen(Effect.raceFirst(Layer.launch(app), proof.lost)),
  withFailureLog(APP),
  NodeRuntime.runMain({ teardown, disableErrorReporting: true }),
)
