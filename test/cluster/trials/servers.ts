/** The servers of the hub are away, fail over, or change their certificates and passwords. */
import { setTimeout as delay } from 'node:timers/promises'
import { createSecrets, NAMESPACE, rolledOut } from '../deploy.ts'
import { drainNode, inSteps, timed, type Trial, type TrialTools } from './trial.ts'

const AWAY_MS = 30_000
/** While PostgreSQL or Kafka is away, codes are refused. Afterwards they are accepted within these. */
const AFTER_OUTAGE_MS = AWAY_MS + 10_000

/** Stops a program for half a minute, so that it does not answer. */
const pause = async ({ cluster }: TrialTools, names: ReadonlyArray<string>): Promise<void> => {
  for (const name of names) await cluster.daemons.signal(name, 'SIGSTOP')
  await delay(AWAY_MS)
  for (const name of names) await cluster.daemons.signal(name, 'SIGCONT')
}

/** PostgreSQL is restarted after half a minute. A node is drained meanwhile. */
export const database: Trial = (tools) =>
  tools.underLoad(
    async () => {
      const { cluster } = tools
      const [pod] = await tools.pods('projector')
      await cluster.daemons.stop('postgres')
      const drained = drainNode(cluster, pod!.node)
      await delay(AWAY_MS)
      const api = (await tools.pods('command-api')).filter(({ isReady }) => isReady).length
      await cluster.servers.start()
      const drainSeconds = await drained
      await cluster.kubectl.run(['uncordon', pod!.node])
      await rolledOut(cluster)
      if (api === 0) throw new Error('no pod of command-api was ready while PostgreSQL was away')
      return { drainSeconds, readyApisMeanwhile: api }
    },
    { codesRefusedMs: AFTER_OUTAGE_MS },
  )

/** The standby takes the place of the primary, behind the same name. */
export const failover: Trial = (tools) =>
  tools.underLoad(
    async () => {
      const { publishServers, servers } = tools.cluster
      const seconds = await timed(async () => {
        await servers.promote()
        await publishServers()
      })
      await rolledOut(tools.cluster)
      return { seconds }
    },
    { codesRefusedMs: 20_000 },
  )

/** One broker is killed and comes back. Then all are away for half a minute. */
export const brokers: Trial = (tools) => {
  const { cluster } = tools
  const killOne = async (): Promise<void> => {
    await cluster.daemons.signal('kafka-2', 'SIGKILL')
    await delay(AWAY_MS)
    await cluster.servers.start()
  }
  return inSteps(tools, {
    oneKilled: { disturb: killOne, tolerance: { codesRefusedMs: 15_000 } },
    allAway: {
      disturb: () => pause(tools, ['kafka-1', 'kafka-2', 'kafka-3']),
      tolerance: { codesRefusedMs: AFTER_OUTAGE_MS },
    },
  })
}

export const redis: Trial = (tools) => tools.underLoad(() => pause(tools, ['redis']), {})

/** New certificates of servers while the hub runs, and another user of PostgreSQL, as docs/operating.md says. */
export const rotation: Trial = (tools) =>
  tools.underLoad(
    async () => {
      const { cluster } = tools
      const { addresses, authority, daemons, servers } = cluster
      await authority.renew('redis', { name: 'redis', hosts: ['redis.hub-data', addresses.redis] })
      await authority.renew('smpp', { name: 'smpp', hosts: ['smpp.operator.example', addresses.operator] })
      for (const name of ['redis-tls', 'smpp-tls']) {
        await daemons.stop(name)
        await servers.start()
      }
      await servers.addDatabaseUser()
      const seconds = await timed(async () => {
        await createSecrets(cluster)
        await cluster.kubectl.run(['--namespace', NAMESPACE, 'rollout', 'restart', 'deployment'])
        await rolledOut(cluster)
        await servers.removeFirstDatabasePassword()
      })
      return { secondsUntilAllPodsHaveTheSecret: seconds }
    },
    { codesRefusedMs: 10_000 },
  )
