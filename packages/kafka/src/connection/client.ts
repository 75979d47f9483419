/**
 * What every use of kafkajs shares: where the brokers are, how it logs, how its errors are told, and how its
 * connections are cut when they hang.
 */
import { caFileConfig, settings } from '@hub/config'
import * as Config from 'effect/Config'
import * as Effect from 'effect/Effect'
import * as Redacted from 'effect/Redacted'
import net from 'node:net'
import tls from 'node:tls'
import kafkajs, {
  type ISocketFactory,
  type Kafka,
  type LogEntry,
  type RetryOptions,
  type SASLOptions,
} from 'kafkajs'
import '../kafkajs-patches/request-queue-timer.ts'
import type { KafkaUnavailable } from '../port.ts'

// A CommonJS module: Node finds its values through the default export only.
const { logLevel } = kafkajs

export interface KafkaCredentials {
  readonly mechanism: 'scram-sha-512' | 'scram-sha-256' | 'plain'
  readonly username: string
  readonly password: Redacted.Redacted<string>
}

/** Where Kafka is, and who asks. */
export interface KafkaConnection {
  /** `host:port`, any one of which is enough to find the rest. */
  readonly brokers: ReadonlyArray<string>
  /** Shown in the broker's logs and quotas. */
  readonly clientId: string
  /** Speaks TLS; `ca` in PEM, `null` for Node's authorities. Absent: in the clear. */
  readonly tls?: { readonly ca: string | null }
  /** Proves who it is (SASL). Absent: the brokers ask nobody. */
  readonly credentials?: KafkaCredentials
  /** Opens connections in another way; for tests that put something between client and broker. */
  readonly socketFactory?: ISocketFactory
}

/** Authorities of the brokers' certificates, PEM. To be attached to the check of the settings: a file is read. */
export const kafkaCaConfig: Config.Config<string | null> = caFileConfig(settings.kafkaCaFile)

/** The brokers of the environment, and how to speak to them; the client id is the app's name. */
export const kafkaConnectionConfig = (clientId: string): Config.Config<KafkaConnection> =>
  Config.all({
    brokers: settings.kafkaBrokers.config,
    tls: settings.kafkaTls.config,
    ca: kafkaCaConfig,
    mechanism: settings.kafkaMechanism.config,
    username: settings.kafkaUsername.config,
    password: settings.kafkaPassword.config,
  }).pipe(
    Config.map(({ brokers, ca, mechanism, password, tls: isTls, username }) => ({
      clientId,
      brokers,
      ...(isTls === 'on' ? { tls: { ca } } : {}),
      ...(username === null || password === null ? {} : { credentials: { mechanism, username, password } }),
    })),
  )

const saslOf = ({ mechanism, password, username }: KafkaCredentials): SASLOptions => ({
  mechanism,
  username,
  password: Redacted.value(password),
})

/** Opening a connection takes a millisecond where it works; half the append deadline leaves time for a second broker. */
const CONNECTION_TIMEOUT_MS = 500

/** As kafkajs' own: notices a peer that vanished without a word. */
const KEEP_ALIVE_MS = 60_000

const connectDirectly: ISocketFactory = ({ host, port, ssl, onConnect }) => {
  const socket = ssl
    ? tls.connect({ host, port, ...(net.isIP(host) ? {} : { servername: host }), ...ssl }, onConnect)
    : net.connect({ host, port }, onConnect)
  socket.setKeepAlive(true, KEEP_ALIVE_MS)
  return socket
}

/** A kafkajs client whose connections can be cut. */
export interface CuttableKafka {
  readonly kafka: Kafka
  /**
   * Cuts every connection, now. What waits for an answer on one fails; kafkajs' own disconnect would wait for
   * a hung broker's answers first.
   */
  readonly destroy: () => void
}

export interface ClientTuning {
  /** How long kafkajs lets one request wait, milliseconds. */
  readonly requestTimeoutMs: number
  /** kafkajs' own retries of connecting and of metadata. None by default. */
  readonly retry?: RetryOptions
  /** Which of the brokers to ask first. */
  readonly startAt?: number
}

/** Only these are logged of what kafkajs says: none of them can hold a record's content. */
const LOGGED = [
  'broker',
  'clientId',
  'groupId',
  'memberId',
  'topic',
  'partition',
  'retryCount',
  'errorCode',
] as const

/** Makes a client that logs through Effect's logger. Nothing is connected yet. */
export const makeKafka = (connection: KafkaConnection, tuning: ClientTuning): Effect.Effect<CuttableKafka> =>
  Effect.map(Effect.context<never>(), (context) => kafkaWith(connection, tuning, Effect.runForkWith(context)))

/** Runs an effect from a callback, with the context it was captured in. */
export type Fork = (effect: Effect.Effect<void>) => unknown

/** As `makeKafka`, for code that has captured its context already. */
export const kafkaWith = (connection: KafkaConnection, tuning: ClientTuning, fork: Fork): CuttableKafka => {
  const sockets = new Set<net.Socket>()
  const open = connection.socketFactory ?? connectDirectly
  const { brokers } = connection
  const first = brokers.length === 0 ? 0 : (tuning.startAt ?? 0) % brokers.length
  let cut = false
  const kafka = new kafkajs.Kafka({
    clientId: connection.clientId,
    brokers: [...brokers.slice(first), ...brokers.slice(0, first)],
    connectionTimeout: CONNECTION_TIMEOUT_MS,
    requestTimeout: tuning.requestTimeoutMs,
    ...(connection.tls === undefined
      ? {}
      : { ssl: connection.tls.ca === null ? {} : { ca: [connection.tls.ca] } }),
    ...(connection.credentials === undefined ? {} : { sasl: saslOf(connection.credentials) }),
    enforceRequestTimeout: true,
    retry: tuning.retry ?? { retries: 0 },
    socketFactory: (options) => {
      const socket = open(options)
      if (cut) socket.destroy(new Error('the connection was given up'))
      // Node gathers small writes otherwise, and waits for the peer's acknowledgement of the one before.
      socket.setNoDelay(true)
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
      return socket
    },
    logLevel: logLevel.WARN,
    logCreator: () => (entry) => {
      // What follows from giving up is no news.
      if (!cut) fork(logOf(entry))
    },
  })
  return {
    kafka,
    destroy: () => {
      cut = true
      for (const socket of sockets) socket.destroy(new Error('the connection was given up'))
    },
  }
}

/**
 * For the curious only: what fails is told by value to whoever asked, and kafkajs says it again for every request, which
 * would be thousands of lines a second while a broker is away.
 */
const logOf = (entry: LogEntry): Effect.Effect<void> => {
  const { message, error } = entry.log
  const fields: Record<string, unknown> = { kafkajs: entry.namespace, says: message }
  for (const name of LOGGED) if (entry.log[name] !== undefined) fields[name] = entry.log[name]
  if (typeof error === 'string') fields['error'] = error
  return Effect.annotateLogs(Effect.logDebug('kafka client'), fields)
}

/** What kafkajs threw, in the port's words. */
export interface FailureReason {
  readonly reason: KafkaUnavailable['reason']
  /** Names of errors only, never a record's content. */
  readonly detail: string
  /** The same request would get the same answer. */
  readonly fatal: boolean
}

const TIMEOUTS: ReadonlySet<string> = new Set([
  'KafkaJSRequestTimeoutError',
  'KafkaJSTimeout',
  'KafkaJSLockTimeout',
])
const CONNECTIONS: ReadonlySet<string> = new Set([
  'KafkaJSConnectionError',
  'KafkaJSConnectionClosedError',
  'KafkaJSBrokerNotFound',
  'KafkaJSNoBrokerAvailableError',
  'KafkaJSGroupCoordinatorNotFound',
  'KafkaJSMetadataNotLoaded',
])
const FATAL: ReadonlySet<string> = new Set([
  'INVALID_PARTITIONS',
  'INVALID_CONFIG',
  'INVALID_TOPIC_EXCEPTION',
  'POLICY_VIOLATION',
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'UNSUPPORTED_VERSION',
])

interface KafkaFailure {
  readonly name?: string
  readonly type?: string
  readonly code?: string
  readonly message?: string
  readonly cause?: unknown
  readonly errors?: ReadonlyArray<unknown>
}

/** Reads an error of kafkajs: the innermost cause says what happened. */
export const reasonOf = (thrown: unknown): FailureReason => {
  let error = thrown as KafkaFailure | null | undefined
  for (let depth = 0; depth < 8; depth++) {
    const inner = (error?.errors?.[0] ?? error?.cause) as KafkaFailure | null | undefined
    if (inner === undefined || inner === null || inner === error) break
    error = inner
  }
  const name = error?.name ?? 'Error'
  const detail = [name, error?.type ?? error?.code].filter((word) => word !== undefined).join(' ')
  const timedOut =
    TIMEOUTS.has(name) || (name === 'KafkaJSConnectionError' && /timeout/i.test(error?.message ?? ''))
  if (timedOut) return { reason: 'timeout', detail, fatal: false }
  if (CONNECTIONS.has(name)) return { reason: 'refused', detail, fatal: false }
  return { reason: 'rejected', detail, fatal: error?.type !== undefined && FATAL.has(error.type) }
}
