/**
 * Starts the dispatcher. First it ends the group membership of its predecessor, so that other
 * members take over the shards at once. Only then it loads and runs the app.
 */
import { leavePreviousMemberFromConfig } from '@hub/kafka/leave-previous-member'
import * as Effect from 'effect/Effect'
import { APP, membership } from './membership/identity.ts'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** There is nothing to finish yet. In a container, a signal without a handler has no effect. */
const exit = (): void => process.exit(0)
for (const signal of SIGNALS) process.on(signal, exit)
await Effect.runPromise(leavePreviousMemberFromConfig(APP, membership))
const { run } = await import('./run.ts')
for (const signal of SIGNALS) process.off(signal, exit)
run()
