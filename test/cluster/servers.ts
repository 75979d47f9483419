/**
 * The servers of the hub, on this machine: three Kafka brokers with TLS and SCRAM, PostgreSQL with TLS, Redis and
 * an SMPP operator behind TLS. They listen at addresses that the pods reach.
 */
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  copyAsStandby,
  DATABASE,
  DATABASE_USER,
  ensureJars,
  findJava,
  findRedis,
  isKafkaReady,
  locatePostgres,
  newKafkaId,
  type PostgresLocation,
  readSettings,
  ROOT,
  STACK_JARS,
  startKafka,
  startPostgres,
} from '@hub/local-stack'
import { eventually, openDatabase } from '@hub/testkit'
import type { Daemons } from './daemons.ts'
import type { Authority } from './own/authority.ts'
import type { ServerAddresses } from './settings.ts'

/** Ports on the loopback interface. Nothing else uses this range: the other tests choose free ports above 20000. */
const PORTS = {
  kafka: [17321, 17322, 17323],
  controllers: [17331, 17332, 17333],
  redis: 17350,
  smpp: 17360,
  simulator: 17361,
} as const

/** The ports of docs/deploying.md. */
export const KAFKA_PORT = 9093
export const POSTGRES_PORT = 5432
export const REDIS_PORT = 6380
export const SMPP_PORT = 3550
/** The user of the hub at the brokers, and its system id at the operator. */
export const USER = 'hub'

export interface Passwords {
  readonly databaseUser: string
  readonly database: string
  readonly redis: string
  readonly kafka: string
  /** SMPP permits eight characters. */
  readonly smpp: string
  readonly simulator: string
  readonly masterKey: string
  readonly numberHashSecret: string
}

/** The two PostgreSQL servers: the standby follows the primary, until it takes its place. */
export type DatabaseServer = 'postgres' | 'standby'

export interface Servers {
  readonly passwords: () => Passwords
  /** The primary, from this machine, without TLS and password. */
  readonly databaseUrl: () => string
  /** The address of the primary. */
  readonly databaseAddress: () => string
  /** Creates another user of the hub, with the rights of the first one. The first one can still connect. */
  readonly addDatabaseUser: () => Promise<void>
  /** The first user cannot connect with a password any more. */
  readonly removeFirstDatabasePassword: () => Promise<void>
  /** What the operator has received. */
  readonly operatorStatistics: () => Promise<Readonly<Record<string, number>>>
  /** Starts what does not run, and waits until all are ready. */
  readonly start: () => Promise<void>
  /** The standby becomes the primary. */
  readonly promote: () => Promise<void>
}

const READY = { withinMs: 120_000, everyMs: 200 } as const

const readPasswords = (path: string): Passwords => {
  if (!existsSync(path)) {
    const secret = () => randomBytes(16).toString('hex')
    const passwords: Passwords = {
      databaseUser: DATABASE_USER,
      database: secret(),
      redis: secret(),
      kafka: secret(),
      smpp: randomBytes(4).toString('hex'),
      simulator: randomBytes(32).toString('hex'),
      masterKey: randomBytes(32).toString('base64'),
      numberHashSecret: randomBytes(32).toString('hex'),
    }
    writeFileSync(path, JSON.stringify(passwords), { mode: 0o600 })
  }
  return JSON.parse(readFileSync(path, 'utf8')) as Passwords
}

/** Lets clients of other addresses connect with TLS and a password. Clients of this machine need none. */
const permitTls = (
  { dir, user }: PostgresLocation,
  issued: { readonly cert: string; readonly key: string },
): void => {
  const rules = [
    'host all all samehost trust',
    'host replication all samehost trust',
    'hostssl all all 0.0.0.0/0 scram-sha-256',
  ]
  writeFileSync(join(dir, 'pg_hba.conf'), `${rules.join('\n')}\n`)
  for (const [from, to] of [
    [issued.key, join(dir, 'server.key')],
    [issued.cert, join(dir, 'server.crt')],
  ] as const) {
    copyFileSync(from, to)
    if (user !== undefined) chownSync(to, user.uid, user.gid)
    chmodSync(to, 0o600)
  }
}

export const openServers = async (
  dir: string,
  daemons: Daemons,
  authority: Authority,
  addresses: ServerAddresses,
): Promise<Servers> => {
  const passwordFile = join(dir, 'passwords.json')
  const passwords = readPasswords(passwordFile)
  /** It exists when the standby has become the primary. */
  const promoted = join(dir, 'promoted')
  const primary = (): DatabaseServer => (existsSync(promoted) ? 'standby' : 'postgres')
  const runDir = join(dir, 'run')
  const { cacheDir } = readSettings(process.env)
  const databaseUrl = (server: DatabaseServer): string =>
    `postgres://${DATABASE_USER}@${addresses[server]}:${POSTGRES_PORT}/${DATABASE}`
  const inDatabase = async (server: DatabaseServer, statement: string): Promise<true> => {
    const sql = openDatabase(databaseUrl(server))
    try {
      await sql.unsafe(statement)
      return true
    } finally {
      await sql.end()
    }
  }
  const setDatabasePassword = (): Promise<true> => {
    const { database, databaseUser } = readPasswords(passwordFile)
    return inDatabase(primary(), `ALTER ROLE ${databaseUser} PASSWORD '${database}'`)
  }
  const findJars = () => ensureJars(STACK_JARS, cacheDir, process.env, () => {}, AbortSignal.timeout(300_000))

  const startBrokers = async (): Promise<void> => {
    const java = await findJava(process.env)
    const jars = await findJars()
    const idFile = join(dir, 'kafka-id')
    if (!existsSync(idFile)) writeFileSync(idFile, newKafkaId())
    const clusterId = readFileSync(idFile, 'utf8')
    const voters = PORTS.controllers.map((port, index) => `${index + 1}@127.0.0.1:${port}`).join(',')
    await Promise.all(
      addresses.kafka.map(async (host, index) => {
        const name = `kafka-${index + 1}`
        if (await daemons.isRunning(name)) return
        const advertisedName = `kafka-${index}.kafka.hub-data`
        const issued = await authority.issue(name, { name, hosts: [advertisedName, host] })
        await startKafka({
          isLongLived: true,
          java,
          jars,
          dir: join(dir, name),
          port: PORTS.kafka[index]!,
          controllerPort: PORTS.controllers[index]!,
          log: daemons.log(name),
          runDir,
          cluster: { id: index + 1, voters, clusterId, listeners: [] },
          secured: {
            host,
            port: KAFKA_PORT,
            advertisedName,
            key: readFileSync(issued.key, 'utf8'),
            cert: readFileSync(issued.cert, 'utf8'),
            username: USER,
            password: passwords.kafka,
          },
        })
      }),
    )
    for (const port of PORTS.kafka) await eventually(() => isKafkaReady(port), READY)
  }

  const startDatabase = async (): Promise<void> => {
    const location = locatePostgres(join(dir, 'postgres'), process.getuid?.() === 0)
    const standby = { ...location, dir: `${location.dir}-standby` }
    const issued = await authority.issue('postgres', {
      name: 'postgres',
      hosts: ['postgres.hub-data', 'postgres.hub-data.svc', addresses.postgres, addresses.standby],
    })
    if (!existsSync(standby.dir)) await copyAsStandby(location, cacheDir, standby.dir)
    const servers = [
      { name: 'postgres', at: location, settings: {} },
      {
        name: 'standby',
        at: standby,
        settings: {
          primary_conninfo: `host=${addresses.postgres} port=${POSTGRES_PORT} user=${DATABASE_USER} application_name=standby`,
        },
      },
    ] as const
    for (const { at, name, settings } of servers) {
      // The former primary has other records than the new one.
      if ((await daemons.isRunning(name)) || (name === 'postgres' && primary() === 'standby')) continue
      permitTls(at, issued)
      await startPostgres({
        location: at,
        name,
        port: POSTGRES_PORT,
        log: daemons.log(name),
        runDir,
        cacheDir,
        settings: {
          listen_addresses: addresses[name],
          ssl: 'on',
          ssl_cert_file: 'server.crt',
          ssl_key_file: 'server.key',
          ...settings,
        },
      })
      await eventually(() => inDatabase(name, 'SELECT 1'), READY)
    }
    await setDatabasePassword()
  }

  /** A process that ends TLS in front of a server that has none. */
  const startTls = async (
    name: string,
    host: string,
    port: number,
    target: number,
    names: ReadonlyArray<string>,
  ) => {
    const issued = await authority.issue(name, { name, hosts: [...names, host] })
    await daemons.start(`${name}-tls`, {
      command: process.execPath,
      args: [
        join(import.meta.dirname, 'tls-front.ts'),
        issued.cert,
        issued.key,
        host,
        String(port),
        String(target),
      ],
    })
  }

  const startRedis = async (): Promise<void> => {
    const command = await findRedis(process.env, findJars)
    await daemons.start('redis', {
      command,
      args: [
        '--bind',
        '127.0.0.1',
        '--port',
        String(PORTS.redis),
        '--requirepass',
        passwords.redis,
        '--dir',
        dir,
        '--save',
        '',
      ],
    })
    await startTls('redis', addresses.redis, REDIS_PORT, PORTS.redis, [
      'redis.hub-data',
      'redis.hub-data.svc',
    ])
  }

  const startOperator = async (): Promise<void> => {
    await daemons.start('operator', {
      command: process.execPath,
      args: [join(ROOT, 'infra/local/operator-simulator/main.ts')],
      env: {
        HUB_OPERATOR_SIMULATOR_PORT: String(PORTS.simulator),
        HUB_OPERATOR_SIMULATOR_SMPP_PORT: String(PORTS.smpp),
        HUB_OPERATOR_SIMULATOR_SMPP_SYSTEM_ID: USER,
        HUB_OPERATOR_SIMULATOR_SMPP_PASSWORD: passwords.smpp,
        HUB_OPERATOR_HTTP_SECRET: passwords.simulator,
        // The hub submits over SMPP, so there are no reports over HTTP.
        HUB_OPERATOR_CALLBACK_URL: 'http://127.0.0.1:9/reports',
        HUB_OPERATOR_JOURNAL: join(dir, 'operator.jsonl'),
      },
    })
    await startTls('smpp', addresses.operator, SMPP_PORT, PORTS.smpp, ['smpp.operator.example'])
  }

  const operatorStatistics: Servers['operatorStatistics'] = async () => {
    const response = await fetch(`http://127.0.0.1:${PORTS.simulator}/statistics`, {
      signal: AbortSignal.timeout(5000),
    })
    return (await response.json()) as Readonly<Record<string, number>>
  }

  return {
    passwords: () => readPasswords(passwordFile),
    databaseUrl: () => databaseUrl(primary()),
    databaseAddress: () => addresses[primary()],
    addDatabaseUser: async () => {
      const databaseUser = `${DATABASE_USER}_${randomBytes(2).toString('hex')}`
      // What it creates belongs to the first user, like all that exists.
      await inDatabase(
        primary(),
        `CREATE ROLE ${databaseUser} LOGIN IN ROLE ${DATABASE_USER}; ALTER ROLE ${databaseUser} SET role = ${DATABASE_USER}`,
      )
      const changed = {
        ...readPasswords(passwordFile),
        databaseUser,
        database: randomBytes(16).toString('hex'),
      }
      writeFileSync(passwordFile, JSON.stringify(changed), { mode: 0o600 })
      await setDatabasePassword()
    },
    removeFirstDatabasePassword: async () => {
      await inDatabase(primary(), `ALTER ROLE ${DATABASE_USER} PASSWORD NULL`)
    },
    operatorStatistics,
    start: async () => {
      await Promise.all([startBrokers(), startDatabase(), startRedis(), startOperator()])
      await eventually(() => operatorStatistics().then(() => true), READY)
    },
    promote: async () => {
      await daemons.stop('postgres')
      await inDatabase('standby', 'SELECT pg_promote()')
      writeFileSync(promoted, '')
    },
  }
}
