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
      const { items } = await tools.cluster.kubectl.get('pods', '--namespace', 'ingress')
      const ofIngress = new Set(items.map(({ spec }: any) => String(spec.nodeName)))
      // The clients come through the only pod of the ingress: the trial is about the pods of the hub.
      const node = NODES.find(({ name }) => !ofIngress.has(name))
      if (node === undefined) throw new Error('the ingress runs on every node')
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
