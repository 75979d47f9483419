/** Starts Redis servers, Sentinels and clusters for tests that kill them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureJars, findRedis, readSettings, STACK_JARS } from '@hub/local-stack'
import { accepts, eventually, freePort, isFree, reservePort } from '@hub/testkit'
import { Redis } from 'ioredis'
import { type Program, startProgram } from './program.ts'

/** The test runner has already downloaded the files for its own server. */
const JARS_WITHIN_MS = 60_000

export interface RedisProcess extends Program {
  readonly port: number
  /** A client without a proxy. `stop` of all servers closes it. */
  readonly client: Redis
}

export interface RedisServers {
  /** Starts a server with these further settings. */
  readonly start: (port: number, settings?: Readonly<Record<string, string>>) => Promise<RedisProcess>
  /** Starts a Sentinel with these further lines of its configuration. */
  readonly startSentinel: (port: number, lines: ReadonlyArray<string>) => Promise<RedisProcess>
  /** Stops all servers and removes their data. */
  readonly stop: () => Promise<void>
}

const passwordIn = (lines: ReadonlyArray<string>): string | undefined =>
  lines.find((line) => line.startsWith('requirepass '))?.split(' ')[1]

export const redisServers = async (): Promise<RedisServers> => {
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'redis-servers-'))
  const { cacheDir } = readSettings(process.env)
  const program = await findRedis(process.env, () =>
    ensureJars(STACK_JARS, cacheDir, process.env, () => {}, AbortSignal.timeout(JARS_WITHIN_MS)),
  )
  const started: Array<RedisProcess> = []

  const run = async (
    port: number,
    lines: ReadonlyArray<string>,
    flags: ReadonlyArray<string>,
  ): Promise<RedisProcess> => {
    const file = join(folder, `${port}.conf`)
    writeFileSync(file, ['bind 127.0.0.1', `port ${port}`, `dir ${folder}`, ...lines, ''].join('\n'))
    const running = startProgram(program, [file, ...flags])
    await eventually(() => {
      if (!running.isRunning()) throw new Error(running.lines.join('\n'))
      return accepts(port)
    })
    const password = passwordIn(lines)
    const client = new Redis({ host: '127.0.0.1', port, ...(password === undefined ? {} : { password }) })
    // It connects again after a server was killed.
    client.on('error', () => {})
    const server = { ...running, port, client }
    started.push(server)
    return server
  }

  return {
    start: (port, settings = {}) =>
      run(
        port,
        [
          'save ""',
          `cluster-config-file nodes-${port}.conf`,
          ...Object.entries(settings).map(([name, value]) => `${name} ${value}`),
        ],
        [],
      ),
    startSentinel: (port, lines) => run(port, lines, ['--sentinel']),
    stop: async () => {
      for (const { client } of started) client.disconnect()
      for (const server of started) await server.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** A busy machine must not cause a failover of its own. */
const NEVER_DOWN_MS = 3_600_000
const SOON_DOWN_MS = 1000

/**
 * Starts three Sentinels for a primary with one replica, and waits until they know each other and both servers. They
 * take no server for dead before `allowFailover`.
 */
export const startSentinels = async (
  servers: RedisServers,
  primary: RedisProcess,
  name: string,
  lines: ReadonlyArray<string> = [],
): Promise<ReadonlyArray<RedisProcess>> => {
  const sentinels: Array<RedisProcess> = []
  for (let index = 0; index < 3; index++) {
    sentinels.push(
      await servers.startSentinel(await freePort(), [
        `sentinel monitor ${name} 127.0.0.1 ${primary.port} 2`,
        `sentinel down-after-milliseconds ${name} ${NEVER_DOWN_MS}`,
        `sentinel failover-timeout ${name} 10000`,
        ...lines,
      ]),
    )
  }
  const count = async (client: Redis, what: 'SENTINELS' | 'REPLICAS'): Promise<number> => {
    const answer = await client.call('SENTINEL', what, name)
    return Array.isArray(answer) ? answer.length : 0
  }
  for (const { client } of sentinels)
    await eventually(
      async () => (await count(client, 'SENTINELS')) === 2 && (await count(client, 'REPLICAS')) === 1,
    )
  return sentinels
}

/** From now on, a server that does not answer is replaced by a replica. */
export const allowFailover = async (sentinels: ReadonlyArray<RedisProcess>, name: string): Promise<void> => {
  for (const { client } of sentinels)
    await client.call('SENTINEL', 'SET', name, 'down-after-milliseconds', String(SOON_DOWN_MS))
}

/** The slots of a cluster. Source: Redis cluster specification. */
const SLOTS = 16_384

/** A node listens to other nodes at its port + 10,000. Source: Redis cluster specification, "The cluster bus". */
const BUS_OFFSET = 10_000

/** Ports for nodes of a cluster. They belong to this process until it ends, as does the second port of each. */
export const freeClusterPorts = (count: number): Promise<ReadonlyArray<number>> =>
  Promise.all(
    Array.from({ length: count }, () =>
      eventually(async () => {
        const port = await freePort()
        const bus = port + BUS_OFFSET
        return (await isFree(bus)) && (await reservePort(bus)) ? port : null
      }),
    ),
  )

export interface ClusterNode extends RedisProcess {
  readonly id: string
}

/**
 * Starts a cluster of three primaries, and a replica of the first. `ports`: of the four. `announced`: the ports that
 * the nodes name to clients and to each other, such as those of proxies. No node is taken for dead before
 * `allowClusterFailover`.
 */
export const startCluster = async (
  servers: RedisServers,
  ports: ReadonlyArray<number>,
  announced: ReadonlyArray<number>,
  settings: Readonly<Record<string, string>>,
): Promise<ReadonlyArray<ClusterNode>> => {
  const nodes: Array<ClusterNode> = []
  for (const [index, port] of ports.entries()) {
    const server = await servers.start(port, {
      'cluster-enabled': 'yes',
      'cluster-node-timeout': String(NEVER_DOWN_MS),
      'cluster-announce-ip': '127.0.0.1',
      'cluster-announce-port': String(announced[index]),
      'cluster-announce-bus-port': String(port + BUS_OFFSET),
      ...settings,
    })
    nodes.push({ ...server, id: String(await server.client.cluster('MYID')) })
  }
  const [first, ...others] = nodes
  const primaries = nodes.slice(0, 3)
  for (const [index, { client }] of primaries.entries()) {
    await client.cluster('SET-CONFIG-EPOCH', index + 1)
    const from = Math.ceil((SLOTS * index) / 3)
    const to = Math.ceil((SLOTS * (index + 1)) / 3)
    await client.cluster(
      'ADDSLOTS',
      Array.from({ length: to - from }, (_, i) => from + i),
    )
  }
  for (const { port } of others) await first!.client.cluster('MEET', '127.0.0.1', port)
  const known = async (client: Redis): Promise<boolean> => {
    const info = String(await client.cluster('INFO'))
    return info.includes('cluster_known_nodes:4') && info.includes('cluster_state:ok')
  }
  for (const { client } of nodes) await eventually(() => known(client))
  const replica = nodes[3]!
  await eventually(async () => (await replica.client.cluster('REPLICATE', first!.id)) === 'OK')
  await eventually(async () => (await replica.client.info('replication')).includes('master_link_status:up'))
  return nodes
}

/** From now on, a replica replaces a primary that does not answer. */
export const allowClusterFailover = async (nodes: ReadonlyArray<ClusterNode>): Promise<void> => {
  for (const { client } of nodes) await client.config('SET', 'cluster-node-timeout', String(SOON_DOWN_MS))
}

/** Moves a slot with all its keys, as `redis-cli --cluster reshard` does. */
export const moveSlot = async (
  slot: number,
  from: ClusterNode,
  to: ClusterNode,
  password: string,
): Promise<void> => {
  const target = ['127.0.0.1', String(to.port), '', '0', '60000', 'AUTH', password, 'KEYS']
  await to.client.cluster('SETSLOT', slot, 'IMPORTING', from.id)
  await from.client.cluster('SETSLOT', slot, 'MIGRATING', to.id)
  for (;;) {
    const keys = (await from.client.cluster('GETKEYSINSLOT', slot, 100)) as ReadonlyArray<string>
    if (keys.length === 0) break
    await from.client.call('MIGRATE', ...target, ...keys)
  }
  for (const { client } of [to, from]) await client.cluster('SETSLOT', slot, 'NODE', to.id)
}
