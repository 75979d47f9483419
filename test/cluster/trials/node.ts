/** A node is gone for good. */
import { eventually } from '@hub/testkit'
import { APPS } from '../deploy.ts'
import { killNode } from '../own/nodes.ts'
import { NODES } from '../own/plan.ts'
import { timed, type Trial } from './trial.ts'

/** Kubernetes notices after 50 s, and moves pods after five minutes more. */
const MOVED_WITHIN_MS = 480_000

export const lostNode: Trial = (tools) => {
  const { own } = tools.cluster
  if (own === null)
    return Promise.resolve({ figures: {}, faults: ['only nodes on this machine can be ended'] })
  return tools.underLoad(
    async () => {
      const [pod] = await tools.pods('dispatcher')
      const node = NODES.find(({ name }) => name === pod!.node)!
      await killNode(own, node)
      const seconds = await timed(() =>
        eventually(
          async () => {
            for (const app of APPS) {
              const ready = (await tools.pods(app)).filter((one) => one.node !== node.name && one.isReady)
              if (ready.length < 2) throw new Error(`${app} has ${ready.length} ready pods elsewhere`)
            }
            return true
          },
          { withinMs: MOVED_WITHIN_MS, everyMs: 3000 },
        ),
      )
      await tools.cluster.replaceNode(node)
      return { secondsUntilAllPodsRunElsewhere: seconds }
    },
    { ingressErrors: 4000, codesRefusedMs: 120_000, unknown: 40 },
  )
}
