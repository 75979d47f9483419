/**
 * Signs a webhook batch, sends it, and decides by the status alone about success. Source: DEL-6 to DEL-14,
 * DEL-25, DEL-26, DEL-28, DEL-29.
 */
import { settings } from '@hub/config'
import { signatureHeader, standardKey, standardSignature } from '@hub/domain'
import { Clock, type Config, Context, Data, Effect, FileSystem, Layer, Redacted } from 'effect'
import { createHash, createSecretKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import type { Dispatcher } from 'undici'
import packageJson from '../package.json' with { type: 'json' }
import { type ClientCertificate, PEM_CERTIFICATE } from './client-certificate.ts'
import { type Connection, ConnectionPool, type Opening } from './connection-pool.ts'
import { makeSafeConnectors } from './connector.ts'
import { type DeadlineEntry, DeadlineQueue } from './deadline-queue.ts'
import { type FailureReason, reasonOf } from './failure-reason.ts'
import { AddressPolicy } from './address-policy.ts'
import { type EgressProxy, egressProxyConfig } from './egress-proxy.ts'
import { readWebhookUrl, UrlRefused, type WebhookUrl } from './url.ts'

/** For connecting, sending and the status line together. Source: DEL-11. */
export const RECEIVER_DEADLINE_MS = 10_000

/**
 * A response body is discarded, but it must leave the socket before the connection can serve the
 * next request. A body above these limits is not waited for: its connection is closed.
 */
const DISCARDED_BODY_BYTES = 16_384
const DISCARDED_BODY_MS = 1000

/**
 * With so many open sockets, each delivery closes its own afterwards. Otherwise idle sockets could
 * reach the limit of file descriptors (1024), of which Kafka and PostgreSQL need some.
 */
const KEEP_ALIVE_SOCKETS = 512

/** Parsed URLs in memory: about as many as a process has subscriptions. */
const PARSED_URLS = 10_000

const USER_AGENT = `SMS-Delivery-Hub/${packageJson.version}`

/** Idle timeout, ms. Common servers close after 5 s, and this side must close first. */
const KEEP_ALIVE_MS = 4000

export interface Delivery {
  readonly url: string
  /** `evb_…`, stable across retries. */
  readonly eventBatch: string
  /** The exact bytes that are signed and sent: a JSON array of events. */
  readonly body: Uint8Array
  /** The valid secrets, the current one first. */
  readonly secrets: readonly [Redacted.Redacted<string>, ...ReadonlyArray<Redacted.Redacted<string>>]
  /** Static headers of the subscription: names and values in turn. `null`: none. */
  readonly headers?: Redacted.Redacted<ReadonlyArray<string>> | null
  /** Presented to a receiver that asks for one. `null`: none. */
  readonly clientCertificate?: Redacted.Redacted<ClientCertificate> | null
  /** W3C trace context, if the delivery is traced. */
  readonly traceparent?: string
  /** Beside `traceparent` only. */
  readonly tracestate?: string
}

/** The result of an attempt. `durationMs` ends with the status line, or with the failure. */
export type DeliveryResult =
  | {
      readonly succeeded: true
      readonly responseCode: number
      readonly durationMs: number
      readonly reason: null
    }
  | {
      readonly succeeded: false
      readonly responseCode: number | null
      readonly durationMs: number
      readonly reason: FailureReason
    }

/** This process lacks sockets or shuts down. The attempt does not count; retry it. */
export class AttemptNotMade extends Data.TaggedError('AttemptNotMade')<{ readonly detail: string }> {}

/** The file of `HUB_WEBHOOK_CA_FILE` is unreadable or has no certificate. Do not retry. */
export class CaFileUnusable extends Data.TaggedError('CaFileUnusable')<{ readonly detail: string }> {}

export interface WebhookClientShape {
  /**
   * Begins a delivery without a fiber, because there are thousands per second. `done` is called
   * once, within `deadlineMs` and possibly before this returns. Every fault of the receiver is a
   * result; redirects are not followed. Returns a function that aborts the delivery: it closes the
   * connection, and `done` is not called any more.
   */
  readonly begin: (
    delivery: Delivery,
    deadlineMs: number,
    done: (result: DeliveryResult | AttemptNotMade) => void,
  ) => () => void
  /** The same as an effect; the default deadline is 10 s. An interruption aborts it. */
  readonly deliver: (
    delivery: Delivery,
    options?: { readonly deadlineMs?: number },
  ) => Effect.Effect<DeliveryResult, AttemptNotMade>
  readonly openSockets: () => number
}

/** The keys of one secret for the two signatures. */
interface SigningKeys {
  readonly hub: KeyObject
  readonly standard: KeyObject
}

/** How connections with a client certificate are opened, until it expires. */
interface CertificateOpening extends Opening {
  /** Milliseconds since the epoch. */
  readonly notAfter: number
}

/** The deadlines of attempts: for the status and for the discarded body. */
interface AttemptDeadlines {
  readonly status: DeadlineQueue<Attempt>
  readonly body: DeadlineQueue<Attempt>
}

/** An attempt in flight: the handler that undici calls, and its deadlines. */
class Attempt implements Dispatcher.DispatchHandler {
  readonly #pool: ConnectionPool
  readonly #connection: Connection
  readonly #deadlines: AttemptDeadlines
  readonly #done: (result: DeliveryResult | AttemptNotMade) => void
  readonly #startedAt = performance.now()
  readonly #statusDeadline: DeadlineEntry<Attempt>
  #bodyDeadline: DeadlineEntry<Attempt> | null = null
  #state: 'waiting' | 'answered' | 'failed' = 'waiting'
  #discardedBytes = 0

  constructor(
    pool: ConnectionPool,
    connection: Connection,
    deadlines: AttemptDeadlines,
    done: (result: DeliveryResult | AttemptNotMade) => void,
  ) {
    this.#pool = pool
    this.#connection = connection
    this.#deadlines = deadlines
    this.#done = done
    this.#statusDeadline = deadlines.status.add(this)
  }

  /** There was no status within the deadline. */
  expire(): void {
    if (!this.#settle('failed')) return
    this.#pool.drop(this.#connection)
    this.#done(failed('timeout', this.#elapsed()))
  }

  /** The body of the response is too long or too slow. */
  closeConnection(): void {
    this.#pool.drop(this.#connection)
  }

  /** The caller does not need the result any more. */
  abort(): void {
    if (this.#settle('failed')) this.#pool.drop(this.#connection)
  }

  onRequestStart(): void {}

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    if (!this.#settle('answered')) return
    this.#bodyDeadline = this.#deadlines.body.add(this)
    this.#done(resultOf(status, this.#elapsed()))
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#discardedBytes += chunk.length
    if (this.#discardedBytes > DISCARDED_BODY_BYTES) this.closeConnection()
  }

  onResponseEnd(): void {
    this.#endBody()
    this.#pool.release(this.#connection)
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: unknown): void {
    this.#endBody()
    this.#pool.drop(this.#connection)
    if (!this.#settle('failed')) return
    const reason = reasonOf(error)
    this.#done(
      reason === null
        ? new AttemptNotMade({ detail: error instanceof Error ? error.name : 'unknown' })
        : failed(reason, this.#elapsed()),
    )
  }

  #elapsed(): number {
    return Math.round(performance.now() - this.#startedAt)
  }

  #endBody(): void {
    if (this.#bodyDeadline !== null) this.#deadlines.body.remove(this.#bodyDeadline)
  }

  /** False: the attempt has a result already, or was aborted. */
  #settle(state: 'answered' | 'failed'): boolean {
    if (this.#state !== 'waiting') return false
    this.#state = state
    this.#deadlines.status.remove(this.#statusDeadline)
    return true
  }
}

const resultOf = (status: number, durationMs: number): DeliveryResult =>
  status >= 200 && status < 300
    ? { succeeded: true, responseCode: status, durationMs, reason: null }
    : {
        succeeded: false,
        responseCode: status,
        durationMs,
        reason: status >= 300 && status < 400 ? 'redirect' : 'http_status',
      }

const failed = (reason: FailureReason, durationMs: number): DeliveryResult => ({
  succeeded: false,
  responseCode: null,
  durationMs,
  reason,
})

/**
 * `extraCa`: PEM certificates to trust besides the default ones. `proxy`: the proxy through which
 * all connections go; `null`: they are direct.
 */
export const makeWebhookClient = Effect.fnUntraced(function* (
  extraCa: string | null,
  proxy: EgressProxy | null = null,
) {
  const policy = yield* AddressPolicy
  const clock = yield* Clock.Clock
  // `undefined`: the default ones.
  const authorities = yield* Effect.try({
    try: () => {
      if (extraCa === null) return undefined
      const certificates = extraCa.match(PEM_CERTIFICATE) ?? []
      if (certificates.length === 0) throw new Error('no certificate')
      // Parsed only to detect errors: a secure context ignores certificates that it cannot read.
      for (const certificate of certificates) new X509Certificate(certificate)
      return [...getCACertificates('default'), ...certificates]
    },
    catch: () => new CaFileUnusable({ detail: 'the file contains no valid PEM certificates' }),
  })
  const secureContextWith = (own: { readonly cert?: string; readonly key?: string }): SecureContext =>
    createSecureContext({
      minVersion: 'TLSv1.2',
      ...(authorities === undefined ? {} : { ca: authorities }),
      ...own,
    })
  const connectors = makeSafeConnectors(
    { policy, proxy, connectTimeoutMs: RECEIVER_DEADLINE_MS },
    yield* Effect.context<never>(),
  )
  // Shared by all connections without a client certificate: building a secure context reads the authorities.
  const withoutCertificate: Opening = { id: '', connect: connectors.connectorOf(secureContextWith({})) }
  const pool = yield* Effect.acquireRelease(
    Effect.sync(
      () =>
        new ConnectionPool({
          pipelining: 1,
          keepAliveTimeout: KEEP_ALIVE_MS,
          // A receiver may ask for a longer idle timeout, but gets at most a minute.
          keepAliveMaxTimeout: 60_000,
          // `AttemptDeadlines` cost less than undici's timers.
          headersTimeout: 0,
          bodyTimeout: 0,
        }),
    ),
    (open) => Effect.promise(() => open.close()),
  )

  // Each URL is parsed once for many deliveries.
  const parsedUrls = new Map<string, WebhookUrl | UrlRefused>()
  const parsedUrlOf = (text: string): WebhookUrl | UrlRefused => {
    let url = parsedUrls.get(text)
    if (url === undefined) {
      if (parsedUrls.size >= PARSED_URLS) parsedUrls.clear()
      url = readWebhookUrl(text)
      parsedUrls.set(text, url)
    }
    return url
  }

  // The keys are made once for many deliveries, and are collected with their secret.
  const keys = new WeakMap<Redacted.Redacted<string>, SigningKeys>()
  const keysOf = (secret: Redacted.Redacted<string>): SigningKeys => {
    let ofSecret = keys.get(secret)
    if (ofSecret === undefined) {
      const text = Redacted.value(secret)
      ofSecret = { hub: createSecretKey(text, 'utf8'), standard: createSecretKey(standardKey(text)) }
      keys.set(secret, ofSecret)
    }
    return ofSecret
  }

  // Made once for many deliveries, and collected with the certificate.
  const openings = new WeakMap<Redacted.Redacted<ClientCertificate>, CertificateOpening>()
  const openingWith = (clientCertificate: Redacted.Redacted<ClientCertificate>): CertificateOpening => {
    let opening = openings.get(clientCertificate)
    if (opening === undefined) {
      const { certificate, privateKey } = Redacted.value(clientCertificate)
      opening = {
        // The same certificate and key again, for example of a test delivery, use the same connections.
        id: createHash('sha256').update(certificate).update('\0').update(privateKey).digest('hex'),
        connect: connectors.connectorOf(secureContextWith({ cert: certificate, key: privateKey })),
        notAfter: new X509Certificate(certificate).validToDate.getTime(),
      }
      openings.set(clientCertificate, opening)
    }
    return opening
  }

  /** How its connection is opened, or why it cannot be. */
  const openingOf = ({ clientCertificate }: Delivery): Opening | FailureReason => {
    if (clientCertificate == null) return withoutCertificate
    try {
      const opening = openingWith(clientCertificate)
      return opening.notAfter > clock.currentTimeMillisUnsafe() ? opening : 'client_certificate_expired'
    } catch {
      // TLS accepted it when the subscription got it; the rules of OpenSSL may be stricter now.
      return 'tls_error'
    }
  }

  const body = new DeadlineQueue<Attempt>(DISCARDED_BODY_MS, (attempt) => attempt.closeConnection())
  // Nearly all attempts have the same deadline.
  const deadlinesByMs = new Map<number, AttemptDeadlines>()
  const deadlinesOf = (ms: number): AttemptDeadlines => {
    let deadlines = deadlinesByMs.get(ms)
    if (deadlines === undefined) {
      deadlines = { status: new DeadlineQueue(ms, (attempt) => attempt.expire()), body }
      deadlinesByMs.set(ms, deadlines)
    }
    return deadlines
  }

  const begin: WebhookClientShape['begin'] = (delivery, deadlineMs, done) => {
    const url = parsedUrlOf(delivery.url)
    // It was valid when the subscription was created; a rule may have been added since.
    if (url instanceof UrlRefused) {
      done(failed('address_not_public', 0))
      return () => {}
    }
    const opening = openingOf(delivery)
    if (typeof opening === 'string') {
      done(failed(opening, 0))
      return () => {}
    }
    const connection = pool.take(url.origin, opening)
    const attempt = new Attempt(pool, connection, deadlinesOf(deadlineMs), done)
    try {
      const signing = delivery.secrets.map(keysOf)
      const timestamp = Math.floor(clock.currentTimeMillisUnsafe() / 1000)
      connection.client.dispatch(
        {
          path: url.path,
          method: 'POST',
          // Names and values alternate, so undici copies no object.
          headers: [
            'Content-Type',
            'application/json',
            'User-Agent',
            USER_AGENT,
            'Hub-Event-Id',
            delivery.eventBatch,
            'Hub-Signature',
            signatureHeader(
              signing.map(({ hub }) => hub),
              timestamp,
              delivery.body,
            ),
            'webhook-id',
            delivery.eventBatch,
            'webhook-timestamp',
            String(timestamp),
            'webhook-signature',
            standardSignature(
              signing.map(({ standard }) => standard),
              delivery.eventBatch,
              timestamp,
              delivery.body,
            ),
            ...(delivery.traceparent === undefined ? [] : ['traceparent', delivery.traceparent]),
            ...(delivery.tracestate === undefined ? [] : ['tracestate', delivery.tracestate]),
            ...(delivery.headers == null ? [] : Redacted.value(delivery.headers)),
          ],
          body: delivery.body,
          reset: connectors.openSockets() >= KEEP_ALIVE_SOCKETS,
        },
        attempt,
      )
    } catch (error) {
      // An error here is a defect of this program, which must not stop all other deliveries.
      attempt.onResponseError(null, error)
    }
    return () => attempt.abort()
  }

  const deliver: WebhookClientShape['deliver'] = (delivery, { deadlineMs = RECEIVER_DEADLINE_MS } = {}) =>
    Effect.callback((resume) => {
      const abort = begin(delivery, deadlineMs, (result) =>
        resume(result instanceof AttemptNotMade ? Effect.fail(result) : Effect.succeed(result)),
      )
      return Effect.sync(abort)
    })

  return { begin, deliver, openSockets: connectors.openSockets } satisfies WebhookClientShape
})

export class WebhookClient extends Context.Service<WebhookClient, WebhookClientShape>()(
  '@hub/webhooks/WebhookClient',
) {
  /**
   * Settings: `HUB_WEBHOOK_PROXY_URL`, and `HUB_WEBHOOK_CA_FILE`. A warning at startup shows that
   * the file is set.
   */
  static readonly layer: Layer.Layer<
    WebhookClient,
    Config.ConfigError | CaFileUnusable,
    AddressPolicy | FileSystem.FileSystem
  > = Layer.effect(
    WebhookClient,
    Effect.gen(function* () {
      const file = yield* settings.webhookCaFile.config
      const proxy = yield* egressProxyConfig
      if (file === null) return yield* makeWebhookClient(null, proxy)
      const files = yield* FileSystem.FileSystem
      const pem = yield* files
        .readFileString(file)
        .pipe(Effect.mapError(() => new CaFileUnusable({ detail: 'HUB_WEBHOOK_CA_FILE cannot be read' })))
      const client = yield* makeWebhookClient(pem, proxy)
      yield* Effect.logWarning(
        'webhook client: HUB_WEBHOOK_CA_FILE is set; receivers may present certificates of that authority',
      )
      return client
    }),
  )
}
