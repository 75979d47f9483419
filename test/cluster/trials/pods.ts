/** Pods that are replaced, drained, killed, or that need too much memory. */
import { setTimeout as delay } from 'node:timers/promises'
import { APPS, NAMESPACE, rolledOut } from '../deploy.ts'
import { containerd } from '../own/nodes.ts'
import { NODES } from '../own/plan.ts'
import { drainNode, timed, type Trial, type TrialTools, untilPods } from './trial.ts'

const READY_WITHIN_MS = 180_000
const BETWEEN_MS = 5000
const UPDATES = 50
/** Processes of 70 MiB and more: together more than the limit of each app. */
const FILLERS = 40

/** Replaces all pods of all apps at the same time. */
export const restarts: Trial = ({ cluster, underLoad }) =>
  underLoad(async () => ({
    seconds: await timed(async () => {
      await cluster.kubectl.run(['--namespace', NAMESPACE, 'rollout', 'restart', 'deployment'])
      await rolledOut(cluster)
    }),
  }))

/** Replaces the pods of command-api fifty times. No request on the kept connections may fail. */
export const updates: Trial = ({ cluster, underLoad }) =>
  underLoad(async () => ({
    seconds: await timed(async () => {
      for (let update = 0; update < UPDATES; update++) {
        await cluster.kubectl.run(['--namespace', NAMESPACE, 'rollout', 'restart', 'deployment/command-api'])
        await rolledOut(cluster, ['command-api'])
      }
    }),
    updates: UPDATES,
  }))

export const drain: Trial = (tools) =>
  tools.underLoad(async () => {
    const { kubectl } = tools.cluster
    const [pod] = await tools.pods('dispatcher')
    const seconds = await drainNode(tools.cluster, pod!.node)
    await rolledOut(tools.cluster)
    await kubectl.run(['uncordon', pod!.node])
    return { drainSeconds: seconds }
  })

/** The id of the first process of a container. Only a cluster on this machine shows it. */
const processOf = async ({ cluster }: TrialTools, node: string, container: string): Promise<number> => {
  const { own } = cluster
  if (own === null) throw new Error('the processes of another machine cannot be signalled')
  const tasks = await containerd(
    own,
    NODES.find(({ name }) => name === node)!,
    'task',
    'ls',
  )
  const line = tasks.split('\n').find((one) => one.startsWith(container))
  if (line === undefined) throw new Error(`${container} has no process`)
  return Number(line.split(/\s+/u)[1])
}

/** Kills one process of each app. A dispatcher may have submitted messages whose answer it has not recorded. */
export const kills: Trial = (tools) =>
  tools.underLoad(
    async () => {
      const seconds: Record<string, number> = {}
      for (const app of APPS) {
        const [pod] = await untilPods(
          tools,
          app,
          (pods) => pods.every(({ isReady }) => isReady),
          READY_WITHIN_MS,
        )
        process.kill(await processOf(tools, pod!.node, pod!.container), 'SIGKILL')
        seconds[app] = await timed(() =>
          untilPods(
            tools,
            app,
            (pods) =>
              pods.some(
                ({ isReady, name, restarts: count }) =>
                  name === pod!.name && count > pod!.restarts && isReady,
              ),
            READY_WITHIN_MS,
          ),
        )
        await delay(BETWEEN_MS)
      }
      return { secondsUntilReady: seconds }
    },
    // A killed command-api breaks the connections in use. A killed dispatcher leaves submits without an answer.
    { ingressErrors: 40, codesRefusedMs: 10_000, unknown: 40 },
  )

/** The kernel ends a process of each consumer that uses more memory than its limit. */
export const outOfMemory: Trial = (tools) =>
  tools.underLoad(
    async () => {
      const [pod] = await untilPods(
        tools,
        'projector',
        (pods) => pods.every(({ isReady }) => isReady),
        READY_WITHIN_MS,
      )
      // Processes that are each smaller than the app use its memory, until the kernel ends the largest process: the
      // app. With it, the container ends.
      const small = 'const held = Buffer.alloc(33554432, 1); setTimeout(() => held, 60000)'
      const filler = [
        '/usr/local/bin/node',
        '-e',
        `for (let n = 0; n < ${FILLERS}; n++) setTimeout(() => require('child_process').spawn(process.execPath, ['-e', '${small}']), n * 300)`,
      ]
      await tools.cluster.kubectl.attempt([
        '--namespace',
        NAMESPACE,
        'exec',
        pod!.name,
        '--container',
        'app',
        '--',
        ...filler,
      ])
      const seconds = await timed(() =>
        untilPods(
          tools,
          'projector',
          (pods) =>
            pods.some(
              ({ isReady, name, restarts: count }) => name === pod!.name && count > pod!.restarts && isReady,
            ),
          READY_WITHIN_MS,
        ),
      )
      return { secondsUntilReady: seconds }
    },
    { codesRefusedMs: 10_000 },
  )
