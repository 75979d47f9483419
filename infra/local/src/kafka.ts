/** Apache Kafka: one node that is broker and controller. */
import { execFile } from 'node:child_process'
import { randomBytes, createHash } from 'node:crypto'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Jars } from './jars.ts'
import type { Java } from './java.ts'
import { UserError } from './user-error.ts'
import { launch, type RunningProcess } from './processes.ts'

const LOG4J = join(import.meta.dirname, '../log4j2.properties')

/** A listener for those who prove who they are, over TLS. For tests: a local hub speaks to its broker in the clear, on the loopback. */
export interface SecuredListener {
  readonly port: number
  /** PEM. */
  readonly key: string
  readonly cert: string
  /** The one user that it knows. */
  readonly username: string
  readonly password: string
}

interface KafkaOptions {
  readonly java: Java
  readonly jars: Jars
  /** Its data and configuration. */
  readonly dir: string
  readonly port: number
  readonly controllerPort: number
  readonly log: string
  readonly runDir: string
  /** Absent: none. */
  readonly secured?: SecuredListener
}

/** PEM on the one line that a value of a properties file is. */
const onOneLine = (pem: string): string => pem.replaceAll('\n', '\\n')

const securedProperties = ({ cert, key, password, username }: SecuredListener) => ({
  'sasl.enabled.mechanisms': 'SCRAM-SHA-512,PLAIN',
  'listener.name.secured.ssl.keystore.type': 'PEM',
  'listener.name.secured.ssl.keystore.key': onOneLine(key),
  'listener.name.secured.ssl.keystore.certificate.chain': onOneLine(cert),
  'listener.name.secured.scram-sha-512.sasl.jaas.config':
    'org.apache.kafka.common.security.scram.ScramLoginModule required;',
  'listener.name.secured.plain.sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required user_${username}="${password}";`,
})

/** The broker's configuration. What is not said here is Kafka's default. */
const kafkaProperties = (options: {
  readonly dir: string
  readonly port: number
  readonly controllerPort: number
  readonly secured?: SecuredListener
}): string => {
  const { secured } = options
  const listening = [`PLAINTEXT://127.0.0.1:${options.port}`]
  if (secured !== undefined) listening.push(`SECURED://127.0.0.1:${secured.port}`)
  return Object.entries({
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${options.controllerPort}`,
    listeners: [...listening, `CONTROLLER://127.0.0.1:${options.controllerPort}`].join(','),
    'advertised.listeners': listening.join(','),
    'controller.listener.names': 'CONTROLLER',
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL,CONTROLLER:PLAINTEXT',
    'log.dirs': join(options.dir, 'data'),
    // Topics come from the catalogue only: one that appears by a typing error would hide it.
    'auto.create.topics.enable': false,
    // One node has nobody to copy to.
    'offsets.topic.replication.factor': 1,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'share.coordinator.state.topic.replication.factor': 1,
    'share.coordinator.state.topic.min.isr': 1,
    // 50 partitions each by default: opened at every start, and of no use to a handful of groups.
    'offsets.topic.num.partitions': 1,
    'transaction.state.log.num.partitions': 1,
    'share.coordinator.state.topic.num.partitions': 1,
    // The first member of a group would wait 3 s for others.
    'group.initial.rebalance.delay.ms': 0,
    // The only voter need not wait for a rival, nor a restarted broker for the session of its former self:
    // a start after kill -9 takes 2.4 s with these, 10 s without.
    'controller.quorum.election.timeout.ms': 200,
    'broker.heartbeat.interval.ms': 500,
    'broker.session.timeout.ms': 1500,
    // 128 MiB by default, a third of the heap. Compacted topics here are small.
    'log.cleaner.dedupe.buffer.size': 2_097_152,
    ...(secured === undefined ? {} : securedProperties(secured)),
  })
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

/**
 * The heap holds a local hub's traffic with room to spare. The serial collector and the first compiler tier start
 * fastest, and two cores gain nothing from the others.
 */
const JVM = ['-Xmx384m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']

const javaArguments = (options: KafkaOptions, more: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...JVM,
  ...more,
  `-Dlog4j2.configurationFile=${LOG4J}`,
  '-cp',
  options.jars.files.join(':'),
]

/** Prepares the data folder, once. A format that was interrupted leaves no mark and is done again. */
const format = async (options: KafkaOptions, properties: string): Promise<void> => {
  const mark = join(options.dir, 'formatted')
  if (existsSync(mark)) return
  const data = join(options.dir, 'data')
  rmSync(data, { recursive: true, force: true })
  // A leading `-` would be taken for an option: one id in 64.
  const user =
    options.secured === undefined
      ? []
      : [
          '--add-scram',
          `SCRAM-SHA-512=[name=${options.secured.username},password=${options.secured.password}]`,
        ]
  const clusterId = `k${randomBytes(16).toString('base64url').slice(1)}`
  await promisify(execFile)(
    options.java.command,
    [
      ...javaArguments(options, []),
      'kafka.tools.StorageTool',
      'format',
      '-t',
      clusterId,
      '-c',
      properties,
      ...user,
    ],
    { timeout: 60_000 },
  ).catch((error: unknown) => {
    throw new UserError(`Kafka's data folder could not be prepared: ${String(error).slice(0, 600)}`)
  })
  writeFileSync(mark, `${clusterId}\n`)
}

/**
 * Starts the broker. The classes that a run loads are archived when it ends (AppCDS): later starts, of any data
 * folder, take half the time. The archive is made on the machine because it fits one Java build only.
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
    name: 'kafka',
    command: options.java.command,
    args: [
      ...javaArguments(options, [
        recording ? `-XX:ArchiveClassesAtExit=${fresh}` : `-XX:SharedArchiveFile=${archive}`,
        // Classes that cannot be archived are no news, and an archive that does not fit is simply not used.
        '-Xlog:disable',
        '-Xlog:all=error:stderr',
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
      // Renamed when it is whole: a process that was killed half-way leaves an archive nobody uses.
      if (exit.signal === null && existsSync(fresh)) renameSync(fresh, archive)
      else rmSync(fresh, { force: true })
      return exit
    },
  }
}
