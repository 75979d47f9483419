/** Runs the dispatcher. `main.ts` loads this file when its predecessor has left the group. */
import { runApp } from '@hub/process'
import { dispatcher } from './app.ts'
import { checks } from './config.ts'
import { layers } from './layers.ts'
import { APP } from './membership/identity.ts'

export const run = (): void =>
  runApp({
    name: APP,
    checks,
    // It can submit nothing without Kafka. With secrets of another hub it must not take any shard.
    beforeKafka: 'waits',
    layers,
    app: dispatcher,
  })
