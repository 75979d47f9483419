/**
 * The dispatcher's process. First of all the session of the process before it is ended, so that the others may have its shards at once;
 * the app itself (app.ts) is loaded when they do.
 */
import { endFormerSession } from '@hub/kafka/former-session'
import * as Effect from 'effect/Effect'
import { APP, membership } from './identity.ts'

await Effect.runPromise(endFormerSession(APP, membership))
const { run } = await import('./app.ts')
run()
