/** KEDA adds instances when records wait, and removes them afterwards. */
import { setTimeout as delay } from 'node:timers/promises'
import { client, send, sendBatchUntilAccepted } from '../../support/client.ts'
import { NAMESPACE } from '../deploy.ts'
import { timed, type Trial, untilPods } from './trial.ts'

/** KEDA wants an instance for each 5,000 messages that wait: four instances. */
const BURST = 20_000
const BATCH = 500
const BATCH_WITHIN_MS = 60_000
const UP_WITHIN_MS = 240_000

/** Sends batches until all of their messages are accepted. */
const burst = async (url: string, key: string): Promise<number> => {
  const hub = client(url, key)
  const name = `b${Date.now().toString(36)}`
  let accepted = 0
  for (let first = 0; first < BURST; first += BATCH) {
    const messages = Array.from({ length: BATCH }, (_, index) =>
      send(
        'service',
        `+7914${String((Date.now() + first + index) % 10_000_000).padStart(7, '0')}`,
        `${name}-${first + index}`,
      ),
    )
    accepted += (await sendBatchUntilAccepted(hub, messages, BATCH_WITHIN_MS)).length
  }
  return accepted
}

export const scaling: Trial = async (tools) => {
  const { access, cluster } = tools
  const { kubectl } = cluster
  const { key, url } = await access()
  const inHub = ['--namespace', NAMESPACE]
  // Without dispatchers, the messages wait. `paused-replicas` is the documented way to stop scaling.
  await kubectl.run([
    ...inHub,
    'annotate',
    'scaledobject',
    'dispatcher',
    'autoscaling.keda.sh/paused-replicas=0',
    '--overwrite',
  ])
  const downSeconds = await timed(() =>
    untilPods(tools, 'dispatcher', (pods) => pods.length === 0, UP_WITHIN_MS),
  )
  const accepted = await burst(url, key)
  const before = await cluster.servers.operatorStatistics()
  await kubectl.run([
    ...inHub,
    'annotate',
    'scaledobject',
    'dispatcher',
    'autoscaling.keda.sh/paused-replicas-',
  ])
  let most = 0
  const upSeconds = await timed(() =>
    untilPods(
      tools,
      'dispatcher',
      (pods) => {
        most = Math.max(most, pods.length)
        return pods.length > 2
      },
      UP_WITHIN_MS,
    ),
  ).catch(() => null)
  const submitted = async () =>
    ((await cluster.servers.operatorStatistics())['references'] ?? 0) - (before['references'] ?? 0)
  const drainedSeconds = await timed(async () => {
    for (let tries = 0; tries < 180 && (await submitted()) < accepted; tries++) await delay(1000)
  })
  const after = await cluster.servers.operatorStatistics()
  const repeated = (after['repeated'] ?? 0) - (before['repeated'] ?? 0)
  const received = await submitted()
  return {
    figures: { accepted, received, downSeconds, upSeconds, dispatchers: most, drainedSeconds },
    faults: [
      ...(upSeconds === null ? ['KEDA did not add dispatchers'] : []),
      ...(received === accepted ? [] : [`the operator received ${received} of ${accepted} messages`]),
      ...(repeated === 0 ? [] : [`the operator received ${repeated} messages more than once`]),
    ],
  }
}
