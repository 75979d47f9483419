/**
 * The hub of a run: three brokers, PostgreSQL with a synchronous standby, Redis, and two processes of
 * each app. The first process of each app is in zone a, the second in zone b. Between each zone and
 * each server is a proxy.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type AppName,
  APP_NAMES,
  copyAsStandby,
  DATABASE,
  DATABASE_USER,
  ensureJars,
  findJava,
  findRedis,
  freePortBase,
  type Hub,
  isKafkaReady,
  isPostgresReady,
  isRedisReady,
  killProcessesOf,
  locatePostgres,
  lockDataDir,
  makeService,
  newKafkaId,
  portsAt,
  readSettings,
  removeData,
  type Service,
  SIMULATOR_SMPP_ERRORS,
  startHub,
  startKafka,
  startPostgres,
  startRedis,
  STACK_JARS,
  WITHOUT_FSYNC,
} from '@hub/local-stack'
import { eventually, freePort, openDatabase } from '@hub/testkit'
import { type Network, startNetwork } from './network.ts'

export const ZONES = ['a', 'b'] as const
export type Zone = (typeof ZONES)[number]
export const BROKERS = [1, 2, 3] as const

/** The disks of PostgreSQL and of one broker. Much larger than the data of a run. */
const DISK_MB = 6144

/** A process that is started again when it ends, unless it is held down. */
export interface Supervised {
  readonly service: Service
  /** From now on, the process is not started again. */
  readonly hold: () => void
  /** Starts the process again, and waits until it is ready or the time is over. */
  readonly release: (withinMs: number) => Promise<boolean>
  /** Kills a process that runs and does not answer. Then as `release`. */
  readonly restart: (withinMs: number) => Promise<boolean>
}

/** A file system of limited size, so that a run can fill it. */
export interface SmallDisk {
  readonly fill: () => void
  readonly free: () => void
}

export interface Cluster {
  readonly hub: Hub
  /** The data folder of the hub. */
  readonly dataDir: string
  readonly network: Network
  /** All processes by name: `command-api`, `command-api-2`, …, `kafka-1`, `postgres-a`, `redis`. */
  readonly processes: ReadonlyMap<string, Supervised>
  readonly apps: ReadonlyArray<string>
  readonly addresses: ReadonlyArray<{ readonly baseUrl: string; readonly readyUrl: string }>
  /** The primary. It changes when the standby is promoted. */
  readonly databaseUrl: () => string
  /** Or the reason why this machine cannot mount one. */
  readonly disks: { readonly kafka: SmallDisk; readonly postgres: SmallDisk } | { readonly reason: string }
  /** Ends the primary, promotes the standby, and moves the clients to it. */
  readonly failOver: () => Promise<void>
  /** Moves the clock of an app by some milliseconds. */
  readonly moveClock: (app: string, ms: number) => void
  readonly stop: () => Promise<void>
}

interface ClusterOptions {
  readonly dir: string
  readonly operatorPort: number
  readonly operator: { readonly systemId: string; readonly password: string }
  readonly environment: Readonly<Record<string, string>>
  readonly report: (line: string) => void
  readonly signal: AbortSignal
}

/** Otherwise, a busy disk would decide the rate. */
const POSTGRES = { ...WITHOUT_FSYNC, max_wal_size: '1GB' }

const RESTART_AFTER_MS = 1000
/** A start on a busy machine, or after the recovery of a crashed server. */
const READY_WITHIN_MS = 120_000
const END_WITHIN_MS = 30_000

/** `false` if the time is over first: a service waits longer than some faults do. */
const within = async (isReady: Promise<boolean>, ms: number): Promise<boolean> => {
  const waiting = new AbortController()
  const { signal } = waiting
  try {
    return await Promise.race([isReady, delay(ms, false, { signal }).catch(() => false)])
  } finally {
    waiting.abort()
  }
}

/** Starts a process again when it ends. */
const supervise = (service: Service, report: (line: string) => void, stopping: AbortSignal): Supervised => {
  let isHeld = false
  let isStarting: Promise<boolean> | null = null
  const start = async (): Promise<boolean> => {
    try {
      await service.start()
      return true
    } catch (error) {
      if (!stopping.aborted)
        report(`${service.name}: ${error instanceof Error ? error.message : String(error)}`)
      return false
    }
  }
  void (async () => {
    for (;;) {
      await service.exited()
      if (stopping.aborted) return
      await delay(RESTART_AFTER_MS, undefined, { signal: stopping }).catch(() => {})
      if (stopping.aborted) return
      if (isHeld || service.pid() !== null) continue
      isStarting = start()
      await isStarting
    }
  })()
  const release = (withinMs: number): Promise<boolean> => {
    isHeld = false
    const isReady = eventually(
      async () => {
        await isStarting
        if (service.pid() === null) throw new Error('it does not run yet')
        await service.waitReady()
        return true
      },
      { withinMs, everyMs: 200 },
    ).catch(() => false)
    return within(isReady, withinMs)
  }
  return {
    service,
    hold: () => {
      isHeld = true
    },
    release,
    restart: async (withinMs) => {
      if (service.pid() !== null) {
        service.signal('SIGKILL')
        await service.exited()
      }
      return release(withinMs)
    },
  }
}

const mounted = new Set<string>()

const unmount = (path: string): void => {
  try {
    execFileSync('umount', ['-l', path], { stdio: 'ignore' })
  } catch {
    // It was never mounted.
  }
  mounted.delete(path)
}

/** Mounts a file system of limited size at a folder. Throws if this machine does not permit it. */
const mountDisk = (path: string): SmallDisk => {
  const image = `${path}.image`
  execFileSync('truncate', ['-s', `${DISK_MB}M`, image])
  execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', '-E', 'lazy_itable_init=1', image], { stdio: 'pipe' })
  mkdirSync(path)
  execFileSync('mount', ['-o', 'loop', image, path], { stdio: 'pipe' })
  mounted.add(path)
  chmodSync(path, 0o755)
  const ballast = join(path, 'ballast')
  return {
    fill: () => {
      const { bavail, bsize } = statfsSync(path)
      // The rest is too small for a segment of either server.
      const bytes = Math.max(bsize, (bavail - 16) * bsize)
      try {
        execFileSync('fallocate', ['-l', String(bytes), ballast], { stdio: 'pipe' })
      } catch (error) {
        // The server wrote meanwhile, and took the rest: the disk is full.
        if (!String(error).includes('No space left')) throw error
      }
    },
    free: () => rmSync(ballast, { force: true }),
  }
}

const ownedBy = (path: string, user: { readonly uid: number; readonly gid: number } | undefined): void => {
  if (user !== undefined) chownSync(path, user.uid, user.gid)
}

const mountDisks = (dir: string): Cluster['disks'] => {
  try {
    return { kafka: mountDisk(join(dir, 'kafka-disk')), postgres: mountDisk(join(dir, 'postgres-disk')) }
  } catch (error) {
    const { stderr } = error as { readonly stderr?: Buffer }
    return {
      reason: `this machine cannot mount a small file system (${
        String(stderr ?? error)
          .trim()
          .split('\n')[0]
      })`,
    }
  }
}

/** Removes what a run leaves behind. It can be called while its processes run: it ends them. */
export const removeCluster = (dir: string): void => {
  for (const part of ['servers', 'hub']) killProcessesOf(join(dir, part))
  for (const path of [...mounted].filter((one) => one.startsWith(dir))) unmount(path)
  removeData(join(dir, 'servers'))
  removeData(join(dir, 'hub'))
}

/** Starts the cluster, and waits until all processes are ready. */
export const startCluster = async (options: ClusterOptions): Promise<Cluster> => {
  const { dir, report, signal } = options
  const stopping = new AbortController()
  const servers = join(dir, 'servers')
  const hubDir = join(dir, 'hub')
  const clocks = join(dir, 'clocks')
  for (const path of [servers, hubDir, clocks]) mkdirSync(path, { recursive: true, mode: 0o755 })
  const environment = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('HUB_') || name === 'HUB_CACHE_DIR'),
  )
  const settings = readSettings(environment)
  const { cacheDir } = settings
  const java = await findJava(environment)
  const jars = await ensureJars(STACK_JARS, cacheDir, environment, report, signal)
  const unlock = await lockDataDir({ dataDir: servers, databaseUrl: undefined }, report)
  const network = startNetwork()
  const disks = mountDisks(servers)
  const isMounted = !('reason' in disks)

  const runDir = join(servers, 'run')
  const serviceOf = (
    name: string,
    port: number,
    isReady: (port: number) => Promise<boolean>,
    launch: Parameters<typeof makeService>[0]['launch'],
  ): Service =>
    makeService({
      name,
      title: name,
      log: join(servers, 'logs', `${name}.log`),
      launch,
      isReady: () => isReady(port),
      readyWithinMs: READY_WITHIN_MS,
      endWithinMs: END_WITHIN_MS,
    })

  // Kafka.
  const ports = await Promise.all(
    BROKERS.map(async () => ({
      port: await freePort(),
      controller: await freePort(),
      a: await freePort(),
      b: await freePort(),
    })),
  )
  const voters = ports.map(({ controller }, i) => `${i + 1}@127.0.0.1:${controller}`).join(',')
  const clusterId = newKafkaId()
  const brokerAddresses: Record<Zone, Array<string>> = { a: [], b: [] }
  const services: Array<Service> = []
  for (const [i, own] of ports.entries()) {
    const id = i + 1
    const name = `kafka-${id}`
    const listeners = await Promise.all(
      ZONES.map(async (zone) => {
        const advertisedPort = await network.open(`${name}:${zone}`, `tcp://127.0.0.1:${own[zone]}`)
        brokerAddresses[zone].push(`127.0.0.1:${advertisedPort}`)
        return { name: `ZONE_${zone.toUpperCase()}`, port: own[zone], advertisedPort }
      }),
    )
    const log = join(servers, 'logs', `${name}.log`)
    services.push(
      serviceOf(name, own.port, isKafkaReady, () =>
        startKafka({
          java,
          jars,
          dir: id === 3 && isMounted ? join(servers, 'kafka-disk', 'kafka') : join(servers, name),
          port: own.port,
          controllerPort: own.controller,
          log,
          runDir,
          cluster: { id, voters, clusterId, listeners },
        }),
      ),
    )
  }

  // PostgreSQL: `postgres-a` is the primary at first.
  const location = locatePostgres(servers, process.getuid?.() === 0)
  const primaryDir = isMounted ? join(servers, 'postgres-disk', 'data') : location.dir
  if (isMounted) ownedBy(join(servers, 'postgres-disk'), location.user)
  const standbyDir = join(servers, 'postgres-b')
  const primary = { ...location, dir: primaryDir }
  await copyAsStandby(primary, cacheDir, standbyDir)
  const primaryPort = await freePort()
  const standbyPort = await freePort()
  services.push(
    serviceOf('postgres-a', primaryPort, isPostgresReady, () =>
      startPostgres({
        location: primary,
        port: primaryPort,
        log: join(servers, 'logs', 'postgres-a.log'),
        runDir,
        cacheDir,
        name: 'postgres-a',
        settings: { ...POSTGRES, synchronous_standby_names: 'standby' },
      }),
    ),
    serviceOf('postgres-b', standbyPort, isPostgresReady, () =>
      startPostgres({
        location: { ...location, dir: standbyDir },
        port: standbyPort,
        log: join(servers, 'logs', 'postgres-b.log'),
        runDir,
        cacheDir,
        name: 'postgres-b',
        settings: {
          ...POSTGRES,
          primary_conninfo: `host=127.0.0.1 port=${primaryPort} user=${DATABASE_USER} application_name=standby`,
        },
      }),
    ),
  )
  const urlAt = (port: number): string => `postgres://${DATABASE_USER}@127.0.0.1:${port}/${DATABASE}`
  let databaseUrl = urlAt(primaryPort)

  // Redis.
  const redisPort = await freePort()
  const redis = await findRedis(environment, async () => jars)
  services.push(
    serviceOf('redis', redisPort, isRedisReady, () =>
      startRedis({
        command: redis,
        dir: join(servers, 'redis'),
        port: redisPort,
        log: join(servers, 'logs', 'redis.log'),
        runDir,
      }),
    ),
  )

  const zoneEnvironment = async (zone: Zone): Promise<Record<string, string>> => {
    const database = await network.open(`postgres:${zone}`, `tcp://127.0.0.1:${primaryPort}`)
    const counters = await network.open(`redis:${zone}`, `tcp://127.0.0.1:${redisPort}`)
    const operator = await network.open(`operator:${zone}`, `tcp://127.0.0.1:${options.operatorPort}`)
    return {
      HUB_DATABASE_URL: urlAt(database),
      HUB_REDIS_URL: `redis://127.0.0.1:${counters}`,
      HUB_KAFKA_BROKERS: brokerAddresses[zone].join(','),
      HUB_OPERATOR_SMPP_URL: `smpp://${options.operator.systemId}@127.0.0.1:${operator}`,
    }
  }

  let hub: Hub | null = null
  const stop = async (): Promise<void> => {
    stopping.abort()
    await hub?.stop()
    await Promise.all(services.map((service) => service.end()))
    await network.close()
    for (const path of [...mounted].filter((one) => one.startsWith(dir))) unmount(path)
    unlock()
  }
  try {
    const zoneA = await zoneEnvironment('a')
    const zoneB = await zoneEnvironment('b')
    const began = performance.now()
    await Promise.all(services.map((service) => service.start()))
    signal.throwIfAborted()
    report(
      `Kafka (3 brokers), PostgreSQL (primary and standby) and Redis are ready after ${((performance.now() - began) / 1000).toFixed(1)} s`,
    )
    const env = {
      ...environment,
      ...zoneA,
      HUB_OPERATOR_SMPP_PASSWORD: options.operator.password,
      HUB_OPERATOR_SMPP_ERRORS: JSON.stringify(SIMULATOR_SMPP_ERRORS),
      HUB_REPLICATION_FACTOR: '3',
      NODE_OPTIONS: `--import=${new URL('./moved-clock.mjs', import.meta.url).href}`,
      CLOCK_DIR: clocks,
      ...options.environment,
    }
    hub = await startHub({
      settings: {
        ...settings,
        ports: portsAt(await freePortBase()),
        dataDir: hubDir,
        kafkaBrokers: brokerAddresses.a,
        databaseUrl: zoneA['HUB_DATABASE_URL']!,
        redisUrl: zoneA['HUB_REDIS_URL']!,
        liveOperator: null,
      },
      environment: env,
      report,
      restart: false,
      simulator: false,
      signal,
    })
    const running = hub
    const adminPorts = new Map<string, number>(
      APP_NAMES.map((name) => [name, Number(new URL(running.describe().metrics_urls[name]).port)]),
    )
    const publicPort = await freePort()
    const seconds: Array<Service> = []
    for (const app of APP_NAMES) {
      const adminPort = await freePort()
      const name = `${app}-2`
      adminPorts.set(name, adminPort)
      seconds.push(
        running.addInstance(app satisfies AppName, {
          name,
          adminPort,
          ...(app === 'command-api' ? { port: publicPort } : {}),
          environment: zoneB,
        }),
      )
    }
    await Promise.all(seconds.map((service) => service.start()))
    const readyUrl = (name: string): string => `http://127.0.0.1:${adminPorts.get(name)}/readyz`
    const all = [...services, ...running.services, ...seconds]
    const processes = new Map(
      all.map((service) => [service.name, supervise(service, report, stopping.signal)]),
    )

    const failOver = async (): Promise<void> => {
      const former = processes.get('postgres-a')!
      former.hold()
      former.service.signal('SIGKILL')
      await former.service.exited()
      const sql = openDatabase(urlAt(standbyPort))
      try {
        await sql`SELECT pg_promote()`
        await eventually(
          async () => {
            const [row] = await sql`SELECT pg_is_in_recovery() AS recovering`
            return row?.['recovering'] === false
          },
          { everyMs: 100 },
        )
      } finally {
        await sql.end()
      }
      databaseUrl = urlAt(standbyPort)
      for (const zone of ZONES) {
        await network.run({ do: 'retarget', name: `postgres:${zone}`, url: `tcp://127.0.0.1:${standbyPort}` })
      }
    }
    return {
      hub: running,
      dataDir: hubDir,
      network,
      processes,
      apps: [...adminPorts.keys()],
      addresses: [
        { baseUrl: running.describe().base_url, readyUrl: readyUrl('command-api') },
        { baseUrl: `http://127.0.0.1:${publicPort}`, readyUrl: readyUrl('command-api-2') },
      ],
      databaseUrl: () => databaseUrl,
      disks,
      failOver,
      moveClock: (app, ms) => writeFileSync(join(clocks, String(adminPorts.get(app))), String(ms)),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
