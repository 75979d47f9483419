/**
 * The dispatcher's process. First of all the session of the process before it is ended, so that the others may have its shards at once;
 * the app itself (app.ts) is loaded when they do.
 */
import { leavePreviousMemberFromConfig } from '@hub/kafka/leave-previous-member'
import * as Effect from 'effect/Effect'
import { APP, membership } from './membership/identity.ts'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** Until the app is there to end itself, nothing is held. In a container nobody else would end a process without a handler. */
const end = (): void => process.exit(0)
for (const signal of SIGNALS) process.on(signal, end)
await Effect.runPromise(leavePreviousMemberFromConfig(APP, membership))
const { run } = await import('./app.ts')
for (const signal of SIGNALS) process.off(signal, end)
run()
