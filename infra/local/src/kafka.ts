/** Starts Apache Kafka: one node that is broker and controller, or a node of a cluster of such nodes. */
import { execFile } from 'node:child_process'
import { randomBytes, createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Jars } from './jars.ts'
import type { Java } from './java.ts'
import { UserError } from './user-error.ts'
import { keepFirst } from './cached-folder.ts'
import { launch, type RunningProcess } from './processes.ts'

const LOG4J = join(import.meta.dirname, '../log4j2.properties')

type Properties = Readonly<Record<string, string>>

/** A listener with TLS and authentication, for tests. A local hub uses the plaintext listener. */
export interface SecuredListener {
  /** Default: the loopback interface. */
  readonly host?: string
  readonly port: number
  /** The name that clients are told. Default: the address. */
  readonly advertisedName?: string
  /** PEM. */
  readonly key: string
  readonly cert: string
  /** The only user. */
  readonly username: string
  readonly password: string
  /** Further listeners of the same host. */
  readonly others?: ReadonlyArray<{
    readonly name: string
    readonly protocol: 'SSL' | 'SASL_SSL'
    readonly port: number
    /** What the listener does differently from the broker, without its prefix. */
    readonly properties: Properties
  }>
  /** System properties of the broker. */
  readonly systemProperties?: Properties
}

/** A node of a cluster of several nodes, for tests. A local hub has a single node. */
export interface ClusterNode {
  /** From 1. */
  readonly id: number
  /** The controllers of all nodes: `1@127.0.0.1:7321,…`. */
  readonly voters: string
  /** The same for all nodes; `newKafkaId` makes one. */
  readonly clusterId: string
  /** Further listeners. Clients are told the advertised port, which may be that of a proxy. */
  readonly listeners: ReadonlyArray<{
    readonly name: string
    readonly port: number
    readonly advertisedPort: number
  }>
}

interface KafkaOptions {
  /**
   * The broker runs for an hour or more, so the second compiler pays off. Cryptography for TLS takes a multiple of
   * the processor time without it. Default: false.
   */
  readonly isLongLived?: boolean
  readonly java: Java
  readonly jars: Jars
  /** The folder for data and configuration. */
  readonly dir: string
  readonly port: number
  readonly controllerPort: number
  readonly log: string
  readonly runDir: string
  readonly secured?: SecuredListener
  readonly cluster?: ClusterNode
}

/** A PEM text as one line, as a properties file requires. */
const onOneLine = (pem: string): string => pem.replaceAll('\n', '\\n')

const listenerProperties = (name: string, properties: Properties): Properties =>
  Object.fromEntries(
    Object.entries(properties).map(([property, value]) => [
      `listener.name.${name.toLowerCase()}.${property}`,
      onOneLine(value),
    ]),
  )

const securedProperties = (secured: SecuredListener): Properties => {
  const keys = {
    'ssl.keystore.type': 'PEM',
    'ssl.keystore.key': secured.key,
    'ssl.keystore.certificate.chain': secured.cert,
  }
  return (secured.others ?? []).reduce<Properties>(
    (all, { name, properties }) => ({ ...all, ...listenerProperties(name, { ...keys, ...properties }) }),
    { ...passwordProperties(secured), ...listenerProperties('secured', keys) },
  )
}

const passwordProperties = ({ password, username }: SecuredListener): Properties => ({
  'sasl.enabled.mechanisms': 'SCRAM-SHA-512,PLAIN',
  'listener.name.secured.scram-sha-512.sasl.jaas.config':
    'org.apache.kafka.common.security.scram.ScramLoginModule required;',
  'listener.name.secured.plain.sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required user_${username}="${password}";`,
})

/**
 * Where a node of a cluster differs from a single node. An acknowledged record is on two nodes, and
 * a broker counts as lost after 4 s: a machine with several brokers may be busy for a second.
 */
const clusterProperties = ({ id, listeners, voters }: ClusterNode) => ({
  'node.id': id,
  'controller.quorum.voters': voters,
  'listener.security.protocol.map': ['PLAINTEXT', 'CONTROLLER', ...listeners.map(({ name }) => name)]
    .map((name) => `${name}:PLAINTEXT`)
    .concat('SECURED:SASL_SSL')
    .join(','),
  'min.insync.replicas': 2,
  'offsets.topic.replication.factor': voters.split(',').length,
  'controller.quorum.election.timeout.ms': 1000,
  'broker.session.timeout.ms': 4000,
})

/** The configuration of the broker, where it differs from the defaults of Kafka. */
const kafkaProperties = (
  options: Pick<KafkaOptions, 'dir' | 'port' | 'controllerPort' | 'secured' | 'cluster'>,
): string => {
  const { cluster, secured } = options
  const listeners = [`PLAINTEXT://127.0.0.1:${options.port}`]
  const advertised = [...listeners]
  if (secured !== undefined) {
    const { advertisedName, host = '127.0.0.1', others = [], port } = secured
    for (const one of [{ name: 'SECURED', port }, ...others]) {
      listeners.push(`${one.name}://${host}:${one.port}`)
      advertised.push(`${one.name}://${advertisedName ?? host}:${one.port}`)
    }
  }
  for (const { advertisedPort, name, port } of cluster?.listeners ?? []) {
    listeners.push(`${name}://127.0.0.1:${port}`)
    advertised.push(`${name}://127.0.0.1:${advertisedPort}`)
  }
  return Object.entries({
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${options.controllerPort}`,
    listeners: [...listeners, `CONTROLLER://127.0.0.1:${options.controllerPort}`].join(','),
    'advertised.listeners': advertised.join(','),
    'controller.listener.names': 'CONTROLLER',
    'listener.security.protocol.map': [
      'PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL,CONTROLLER:PLAINTEXT',
      ...(secured?.others ?? []).map(({ name, protocol }) => `${name}:${protocol}`),
    ].join(','),
    'log.dirs': join(options.dir, 'data'),
    // `prepareTopics` creates all topics. Automatic creation would hide a misspelt topic name.
    'auto.create.topics.enable': false,
    // A single node cannot replicate.
    'offsets.topic.replication.factor': 1,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'share.coordinator.state.topic.replication.factor': 1,
    'share.coordinator.state.topic.min.isr': 1,
    // The default of 50 partitions slows down each start. A few groups do not need them.
    'offsets.topic.num.partitions': 1,
    'transaction.state.log.num.partitions': 1,
    'share.coordinator.state.topic.num.partitions': 1,
    // By default, the first member of a group waits 3 s for others.
    'group.initial.rebalance.delay.ms': 0,
    // With a single voter, elections and broker sessions need not wait long. With these values, a
    // start after kill -9 takes 2.4 s instead of 10 s.
    'controller.quorum.election.timeout.ms': 200,
    'broker.heartbeat.interval.ms': 500,
    'broker.session.timeout.ms': 1500,
    // By default, the controller writes an empty record twice a second, which is a sixth of what an idle broker uses.
    'metadata.max.idle.interval.ms': 0,
    // A local hub sends some hundred requests in a second. The defaults of 3 and 8 threads also wake up
    // for nothing three times in a second each.
    'num.network.threads': 1,
    'num.io.threads': 2,
    'background.threads': 2,
    // The default of 128 MiB is a third of the heap. The compacted topics here are small.
    'log.cleaner.dedupe.buffer.size': 2_097_152,
    // Kafka deletes payload keys only when it checks the retention. The default is 5 minutes.
    'log.retention.check.interval.ms': 5000,
    ...(secured === undefined ? {} : securedProperties(secured)),
    ...(cluster === undefined ? {} : clusterProperties(cluster)),
  })
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

/**
 * The heap is ample for the traffic of a local hub. The serial collector and the first compiler
 * tier start fastest, and machines with two cores gain nothing from the alternatives. By default, the
 * heap begins with 384 MiB, and its young generation is used once before it is collected. The file of
 * performance counters wakes the process 20 times in a second, and nothing reads it.
 */
const JVM = ['-Xms96m', '-Xmx384m', '-Xmn32m', '-XX:+UseSerialGC', '-XX:-UsePerfData']
const FIRST_COMPILER = '-XX:TieredStopAtLevel=1'

const javaArguments = (options: KafkaOptions, more: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...JVM,
  ...(options.isLongLived === true ? [] : [FIRST_COMPILER]),
  ...more,
  `-Dlog4j2.configurationFile=${LOG4J}`,
  '-cp',
  options.jars.files.join(':'),
]

/** Starts with a letter: the format tool would read an id with a leading `-` as an option. */
export const newKafkaId = (): string => `k${randomBytes(16).toString('base64url').slice(1)}`

/** Formats a data folder with the tool of Kafka. */
const runFormatTool = async (options: KafkaOptions, properties: string): Promise<void> => {
  const { secured } = options
  const scram =
    secured === undefined
      ? []
      : ['--add-scram', `SCRAM-SHA-512=[name=${secured.username},password=${secured.password}]`]
  await promisify(execFile)(
    options.java.command,
    [
      ...javaArguments(options, []),
      'kafka.tools.StorageTool',
      'format',
      '-t',
      options.cluster?.clusterId ?? newKafkaId(),
      '-c',
      properties,
      ...scram,
    ],
    { timeout: 60_000 },
  ).catch((error: unknown) => {
    throw new UserError(`The data folder of Kafka could not be formatted: ${String(error).slice(0, 600)}`)
  })
}

/** The file of a formatted folder with the ids of the cluster and of the folder. */
const IDS = 'meta.properties'

/**
 * Formats the data folder once. Without the mark, the format was interrupted and is repeated. The
 * tool takes a second, so each machine runs it once, and later formats copy its files and give them
 * new ids. The listener with authentication has its user in these files, so it is never copied.
 */
const format = async (options: KafkaOptions, properties: string): Promise<void> => {
  const mark = join(options.dir, 'formatted')
  if (existsSync(mark)) return
  const data = join(options.dir, 'data')
  rmSync(data, { recursive: true, force: true })
  const template = join(options.jars.derivedDir, 'kafka-formatted')
  const copies = options.secured === undefined
  if (copies && existsSync(template)) {
    cpSync(template, data, { recursive: true })
    const { cluster } = options
    const ids = readFileSync(join(data, IDS), 'utf8')
    writeFileSync(
      join(data, IDS),
      ids
        .replace(/^cluster\.id=.*$/mu, `cluster.id=${cluster?.clusterId ?? newKafkaId()}`)
        .replace(/^directory\.id=.*$/mu, `directory.id=${newKafkaId()}`)
        .replace(/^node\.id=.*$/mu, `node.id=${cluster?.id ?? 1}`),
    )
  } else {
    await runFormatTool(options, properties)
    if (copies) {
      const fresh = `${template}.${process.pid}`
      cpSync(data, fresh, { recursive: true })
      keepFirst(fresh, template)
    }
  }
  writeFileSync(mark, '')
}

/**
 * Starts the broker. The first run archives its loaded classes when it stops (AppCDS). Then later
 * starts take half the time. An archive is valid for one Java build only, so each machine creates
 * its own.
 */
export const startKafka = async (options: KafkaOptions): Promise<RunningProcess> => {
  mkdirSync(options.dir, { recursive: true })
  const properties = join(options.dir, 'server.properties')
  writeFileSync(properties, kafkaProperties(options))
  await format(options, properties)
  const build = createHash('sha256').update(`${options.java.command}\n${options.java.version}`).digest('hex')
  const archive = join(options.jars.derivedDir, `kafka-${options.java.version}-${build.slice(0, 8)}.jsa`)
  const fresh = `${archive}.${process.pid}`
  const recording = !existsSync(archive)
  const running = await launch({
    name: options.cluster === undefined ? 'kafka' : `kafka-${options.cluster.id}`,
    command: options.java.command,
    args: [
      ...javaArguments(options, [
        recording ? `-XX:ArchiveClassesAtExit=${fresh}` : `-XX:SharedArchiveFile=${archive}`,
        // Hides warnings about classes that cannot be archived and about archives that do not
        // match.
        '-Xlog:disable',
        '-Xlog:all=error:stderr',
        ...Object.entries(options.secured?.systemProperties ?? {}).map(
          ([name, value]) => `-D${name}=${value}`,
        ),
      ]),
      'kafka.Kafka',
      properties,
    ],
    log: options.log,
    runDir: options.runDir,
  })
  if (!recording) return running
  return {
    ...running,
    end: async (graceMs) => {
      const exit = await running.end(graceMs)
      // Renames only a complete archive. A killed process may leave an incomplete one.
      if (exit.signal === null && existsSync(fresh)) renameSync(fresh, archive)
      else rmSync(fresh, { force: true })
      return exit
    },
  }
}
