/** Creates all kafkajs clients of the hub from the settings of the environment. */
import {
  caFileConfig,
  clientCertificateConfig,
  type KeyPair,
  type KeyPairFiles,
  KeyPairUnusable,
  readKeyPair,
  settings,
} from '@hub/config'
import * as Config from 'effect/Config'
import * as Effect from 'effect/Effect'
import * as Redacted from 'effect/Redacted'
import * as Result from 'effect/Result'
import net from 'node:net'
import tls from 'node:tls'
import kafkajs, {
  type ISocketFactory,
  type Kafka,
  type LogEntry,
  type Mechanism,
  type RetryOptions,
  type SASLOptions,
} from 'kafkajs'
import { trackConnections } from '../kafkajs-patches/destroy-connections.ts'
import '../kafkajs-patches/failed-metadata.ts'
import '../kafkajs-patches/request-queue-timer.ts'
import { ignoreUnrefOfClosed } from '../kafkajs-patches/unref-closed-sockets.ts'
import { oauthBearer, type TokenCredentials } from './oauthbearer.ts'
import { destroySilent } from './silent-connections.ts'

// kafkajs is a CommonJS module: Node finds its values only through the default export.
const { logLevel } = kafkajs

export interface PasswordCredentials {
  readonly mechanism: 'scram-sha-512' | 'scram-sha-256' | 'plain'
  readonly username: string
  readonly password: Redacted.Redacted<string>
}

export type KafkaCredentials = PasswordCredentials | TokenCredentials

export interface KafkaTls {
  /** In PEM; `null`: Node's certificate authorities. */
  readonly ca: string | null
  /** The files of the certificate of the hub. `null`: brokers ask for none. */
  readonly client: KeyPairFiles | null
}

export interface KafkaConnection {
  /** `host:port` of some brokers. The client finds the other brokers through one of them. */
  readonly brokers: ReadonlyArray<string>
  /** The broker shows it in its logs and quotas. */
  readonly clientId: string
  /** Absent: connections without TLS. */
  readonly tls?: KafkaTls
  /** SASL credentials. Absent: connections without authentication. */
  readonly credentials?: KafkaCredentials
  /** For tests that put a proxy between client and broker. */
  readonly socketFactory?: ISocketFactory
}

/** What connections with TLS use. Apps check it with their settings: it reads files. */
export const kafkaTlsConfig: Config.Config<KafkaTls> = Config.all({
  ca: caFileConfig(settings.kafkaCaFile),
  client: clientCertificateConfig(settings.kafkaCertFile, settings.kafkaKeyFile),
})

/** `null`: connections without authentication. The rules between the settings refuse what contradicts itself. */
const credentialsConfig: Config.Config<KafkaCredentials | null> = Config.all({
  mechanism: settings.kafkaMechanism.config,
  username: settings.kafkaUsername.config,
  password: settings.kafkaPassword.config,
  url: settings.kafkaTokenUrl.config,
  scopes: settings.kafkaTokenScopes.config,
  parameters: settings.kafkaTokenParameters.config,
  extensions: settings.kafkaExtensions.config,
}).pipe(
  Config.map(({ extensions, mechanism, parameters, password, scopes, url, username }) => {
    if (username === null || password === null) return null
    if (mechanism !== 'oauthbearer') return { mechanism, username, password }
    if (url === null) return null
    const client = { url, id: username, secret: password, scopes, parameters: parameters ?? {} }
    return { mechanism, client, extensions: extensions ?? {} }
  }),
)

/** The connection that the environment configures. `clientId` is the name of the app. */
export const kafkaConnectionConfig = (clientId: string): Config.Config<KafkaConnection> =>
  Config.all({
    brokers: settings.kafkaBrokers.config,
    isTls: settings.kafkaTls.config,
    tls: kafkaTlsConfig,
    credentials: credentialsConfig,
  }).pipe(
    Config.map(({ brokers, credentials, isTls, tls }) => ({
      clientId,
      brokers,
      ...(isTls === 'on' ? { tls } : {}),
      ...(credentials === null ? {} : { credentials }),
    })),
  )

const passwordSasl = ({ mechanism, password, username }: PasswordCredentials): SASLOptions => ({
  mechanism,
  username,
  password: Redacted.value(password),
})

const saslOf = (credentials: KafkaCredentials, fork: Fork): SASLOptions | Mechanism =>
  credentials.mechanism === 'oauthbearer'
    ? oauthBearer(credentials, (code) => {
        fork(
          Effect.logWarning(
            'kafka: the token endpoint gives no new token; the current one is still valid',
          ).pipe(Effect.annotateLogs({ code })),
        )
      })
    : passwordSasl(credentials)

/**
 * Of opening and encrypting a socket: up to three round trips, over a slow network. While a machine has
 * vanished, the client tries the next broker after this time.
 */
const CONNECTION_TIMEOUT_MS = 1500

/** An idle connection whose peer is gone then ends after about 15 s. */
const KEEP_ALIVE_MS = 5000

const connectDirectly: ISocketFactory = ({ host, port, ssl, onConnect }) => {
  const socket = ssl
    ? tls.connect({ host, port, ...(net.isIP(host) ? {} : { servername: host }), ...ssl }, onConnect)
    : net.connect({ host, port }, onConnect)
  socket.setKeepAlive(true, KEEP_ALIVE_MS)
  return socket
}

interface LastRead {
  /** The last pair that could be used; `null`: none yet. */
  readonly usable: KeyPair | null
  /** Why the files cannot be used now; empty: they can. */
  readonly detail: string
}

/** For all clients of the process: a new one follows each that has lost its connection. */
const lastReads = new WeakMap<KeyPairFiles, LastRead>()

/**
 * Opens sockets with the certificate that is in the files now. While the files cannot be used, for example because
 * only one of them is replaced yet, it uses the previous one. It throws a `KeyPairUnusable` if there is none.
 */
const withClientCertificate =
  (files: KeyPairFiles, open: ISocketFactory, fork: Fork): ISocketFactory =>
  ({ ssl, ...socket }) => {
    const last = lastReads.get(files) ?? { usable: null, detail: '' }
    const now = Result.match(readKeyPair(files), {
      onSuccess: (usable): LastRead => ({ usable, detail: '' }),
      onFailure: ({ detail }): LastRead => ({ ...last, detail }),
    })
    lastReads.set(files, now)
    // Once: while a broker is away, there are many attempts to connect.
    if (now.detail !== '' && now.detail !== last.detail) fork(logUnusable(now))
    if (now.usable === null) throw new KeyPairUnusable({ detail: now.detail })
    return open({ ...socket, ssl: { ...ssl, ...now.usable } })
  }

const logUnusable = ({ detail, usable }: LastRead): Effect.Effect<void> =>
  Effect.annotateLogs(
    Effect.logWarning(
      usable === null
        ? 'kafka: the client certificate cannot be used'
        : 'kafka: the replaced client certificate cannot be used; keeping the previous one',
    ),
    { detail },
  )

export interface KafkaClient {
  readonly kafka: Kafka
  /** Closes every connection at once. Requests in progress fail (see `destroy-connections.ts`). */
  readonly destroy: () => void
}

export interface ClientOptions {
  /** Time limit of one request, milliseconds. */
  readonly requestTimeoutMs: number
  /** kafkajs' retries of connecting and of loading metadata. Default: none. */
  readonly retry?: RetryOptions
  /** Index of the broker to connect to first. */
  readonly firstBrokerIndex?: number
}

/** Runs an effect from a callback, in a context that was captured before. */
export type Fork = (effect: Effect.Effect<void>) => unknown

/** Creates a client that logs through Effect's logger (`fork`). It does not connect yet. */
export const makeKafka = (connection: KafkaConnection, options: ClientOptions, fork: Fork): KafkaClient => {
  const { brokers, tls: secured } = connection
  const files = secured?.client ?? null
  const open = connection.socketFactory ?? connectDirectly
  const { destroy, isDestroyed, socketFactory } = trackConnections(
    destroySilent(ignoreUnrefOfClosed(files === null ? open : withClientCertificate(files, open, fork))),
  )
  const first = brokers.length === 0 ? 0 : (options.firstBrokerIndex ?? 0) % brokers.length
  const kafka = new kafkajs.Kafka({
    clientId: connection.clientId,
    brokers: [...brokers.slice(first), ...brokers.slice(0, first)],
    connectionTimeout: CONNECTION_TIMEOUT_MS,
    requestTimeout: options.requestTimeoutMs,
    ...(secured === undefined ? {} : { ssl: secured.ca === null ? {} : { ca: [secured.ca] } }),
    ...(connection.credentials === undefined ? {} : { sasl: saslOf(connection.credentials, fork) }),
    enforceRequestTimeout: true,
    retry: options.retry ?? { retries: 0 },
    socketFactory,
    logLevel: logLevel.WARN,
    logCreator: () => (entry) => {
      // The errors that follow from `destroy` are expected.
      if (!isDestroyed()) fork(logEntry(entry))
    },
  })
  return { kafka, destroy }
}

/** The fields of kafkajs' log entries that the hub logs. None can contain a record's content. */
const LOGGED_FIELDS = [
  'broker',
  'clientId',
  'groupId',
  'memberId',
  'topic',
  'partition',
  'retryCount',
  'errorCode',
] as const

/**
 * Logs at level debug: callers log failures themselves, and kafkajs would log thousands of lines
 * each second while a broker is unavailable.
 */
const logEntry = (entry: LogEntry): Effect.Effect<void> => {
  const { message, error } = entry.log
  const fields: Record<string, unknown> = { kafkajs: entry.namespace, says: message }
  for (const name of LOGGED_FIELDS) if (entry.log[name] !== undefined) fields[name] = entry.log[name]
  if (typeof error === 'string') fields['error'] = error
  return Effect.annotateLogs(Effect.logDebug('kafka client'), fields)
}
