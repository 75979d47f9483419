/** The listener of command-api beside clients and proxies that are slow, silent, or in the way. */
import { listenerContract } from '@hub/http-server/testing'
import { afterAll } from 'vitest'
import { type Deployment, makeDeployment } from '../testing/harness.ts'

let deployment: Promise<Deployment> | undefined
afterAll(async () => (await deployment)?.remove())

listenerContract({
  start: async (shutdownDelayMs) => (await (deployment ??= makeDeployment())).start({ shutdownDelayMs }),
  openPath: '/docs/errors',
})
