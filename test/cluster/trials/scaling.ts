/** KEDA adds instances when records wait, and removes them afterwards. */
import { setTimeout as delay } from 'node:timers/promises'
import { fetch } from 'undici'
import { NAMESPACE } from '../deploy.ts'
import { timed, type Trial, untilPods } from './trial.ts'

const BURST = 8000
const BATCH = 500
const UP_WITHIN_MS = 240_000

/** Sends batches until all of their messages are accepted. */
const burst = async (url: string, key: string): Promise<number> => {
  const name = `b${Date.now().toString(36)}`
  let accepted = 0
  for (let first = 0; first < BURST; first += BATCH) {
    const messages = Array.from({ length: BATCH }, (_, index) => ({
      to: `+7914${String((Date.now() + first + index) % 10_000_000).padStart(7, '0')}`,
      class: 'service',
      template: 'order_ready',
      variables: { order: 'A-17' },
      client_ref: `${name}-${first + index}`,
    }))
    for (let attempt = 0; attempt < 20; attempt++) {
      const response = await fetch(`${url}/v1/messages/batch`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ messages }),
        signal: AbortSignal.timeout(60_000),
      }).catch(() => null)
      if (response?.status === 202) {
        const { results } = (await response.json()) as {
          readonly results: ReadonlyArray<{ readonly status?: string }>
        }
        accepted += results.length
        break
      }
      await delay(1000)
    }
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
