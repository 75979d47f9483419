/**
 * One attempt to deliver a batch: signed, sent, and judged by the status alone. Source: specification, Delivery of
 * events (2, 5), Signature; contract, Webhook subscription.
 */
import { settings } from '@hub/config'
import { signatureHeader } from '@hub/domain'
import { Clock, type Config, Context, Data, Effect, FileSystem, Layer, Redacted } from 'effect'
import { createSecretKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext, getCACertificates } from 'node:tls'
import type { Dispatcher } from 'undici'
import packageJson from '../package.json' with { type: 'json' }
import { type Connection, Connections } from './connections.ts'
import { makeSafeConnector } from './connector.ts'
import { Deadlines, type Waiting } from './deadlines.ts'
import { type FailureReason, reasonOf } from './failure.ts'
import { AddressPolicy } from './policy.ts'
import { readWebhookUrl, UrlRefused, type WebhookUrl } from './url.ts'

/** For connecting, sending and the status line together. Source: specification, Other limits. */
export const RECEIVER_DEADLINE_MS = 10_000

/**
 * A response body is not read, but what is left of a short one must leave the socket before that can serve again.
 * A body that is longer, bytes, or not there in time, ms, costs its connection.
 */
const DISCARDED_BODY_BYTES = 16_384
const DISCARDED_BODY_MS = 1000

/**
 * Above so many open sockets each delivery closes its own when it is done, so that idle ones of many receivers do
 * not add up to the limit of file descriptors (1024 where nobody raised it, and Kafka and PostgreSQL need some).
 */
const SOCKETS_KEPT = 512

/** URLs that are kept as they were read: those of the subscriptions of a process, give or take. */
const TARGETS_KEPT = 10_000

const USER_AGENT = `SMS-Delivery-Hub/${packageJson.version}`

/** How long an idle connection is kept, ms. Common servers close after 5 s or more: this side must be the first. */
const KEEP_ALIVE_MS = 4000

/** What is to be delivered. */
export interface Delivery {
  readonly url: string
  /** `evb_…`, stable across retries. */
  readonly eventBatch: string
  /** The exact bytes that are signed and sent: a JSON array of events. */
  readonly body: Uint8Array
  /** The secrets in force, the current one first. */
  readonly secrets: readonly [Redacted.Redacted<string>, ...ReadonlyArray<Redacted.Redacted<string>>]
  /** W3C trace context, where the delivery is traced. */
  readonly traceparent?: string
}

/** How an attempt ended. `responseCode` is there when a status was received; `durationMs` is until then. */
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

/**
 * This process could not make the attempt (out of sockets, shutting down). It does not count; to be tried again
 * shortly.
 */
export class AttemptNotMade extends Data.TaggedError('AttemptNotMade')<{ readonly detail: string }> {}

/** The file of `HUB_WEBHOOK_CA_FILE` cannot be read or holds no certificate. */
export class CaFileUnusable extends Data.TaggedError('CaFileUnusable')<{ readonly detail: string }> {}

export interface WebhookClientShape {
  /**
   * Begins a delivery, without a fiber: thousands a second are made. `done` is called once, within `deadlineMs`, perhaps before this
   * returns. Every fault of the receiver is a result; redirects are not followed. The answer gives the delivery up: then the connection
   * is closed, and `done` is not called any more.
   */
  readonly begin: (
    delivery: Delivery,
    deadlineMs: number,
    done: (result: DeliveryResult | AttemptNotMade) => void,
  ) => () => void
  /** The same as an effect; the deadline is 10 s unless said otherwise. Interrupting it closes the connection. */
  readonly deliver: (
    delivery: Delivery,
    options?: { readonly deadlineMs?: number },
  ) => Effect.Effect<DeliveryResult, AttemptNotMade>
  readonly openSockets: () => number
}

/** Where attempts wait for their answers, and for the end of what is left of those. */
interface Waits {
  readonly answers: Deadlines<Attempt>
  readonly discards: Deadlines<Attempt>
}

/** An attempt under way: what undici tells of it, and its deadline. */
class Attempt implements Dispatcher.DispatchHandler {
  readonly #connections: Connections
  readonly #connection: Connection
  readonly #waits: Waits
  readonly #done: (result: DeliveryResult | AttemptNotMade) => void
  readonly #startedAt = performance.now()
  readonly #deadline: Waiting<Attempt>
  #discard: Waiting<Attempt> | null = null
  #state: 'waiting' | 'answered' | 'given up' = 'waiting'
  #discarded = 0

  constructor(
    connections: Connections,
    connection: Connection,
    waits: Waits,
    done: (result: DeliveryResult | AttemptNotMade) => void,
  ) {
    this.#connections = connections
    this.#connection = connection
    this.#waits = waits
    this.#done = done
    this.#deadline = waits.answers.add(this)
  }

  /** No answer in time. */
  expire(): void {
    if (!this.#leave('given up')) return
    this.#connections.drop(this.#connection)
    this.#done(failed('timeout', this.#elapsed()))
  }

  /** The answer is there, and something behind it has no end. */
  cutOff(): void {
    this.#connections.drop(this.#connection)
  }

  /** Nobody waits any more. */
  giveUp(): void {
    if (this.#leave('given up')) this.#connections.drop(this.#connection)
  }

  onRequestStart(): void {}

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    // 1xx: not the answer yet.
    if (status < 200 || !this.#leave('answered')) return
    this.#discard = this.#waits.discards.add(this)
    this.#done(judge(status, this.#elapsed()))
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#discarded += chunk.length
    if (this.#discarded > DISCARDED_BODY_BYTES) this.cutOff()
  }

  onResponseEnd(): void {
    this.#endDiscard()
    this.#connections.release(this.#connection)
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: unknown): void {
    this.#endDiscard()
    this.#connections.drop(this.#connection)
    if (!this.#leave('given up')) return
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

  /** Nothing is left of the answer. */
  #endDiscard(): void {
    if (this.#discard !== null) this.#waits.discards.remove(this.#discard)
  }

  /** False when somebody was told already, or nobody waits. */
  #leave(state: 'answered' | 'given up'): boolean {
    if (this.#state !== 'waiting') return false
    this.#state = state
    this.#waits.answers.remove(this.#deadline)
    return true
  }
}

const judge = (status: number, durationMs: number): DeliveryResult =>
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

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/gu

/** A client over the policy of its context. `extraCa`: PEM certificates to trust beside the usual ones. */
export const makeWebhookClient = Effect.fnUntraced(function* (extraCa: string | null) {
  const policy = yield* AddressPolicy
  const clock = yield* Clock.Clock
  // One for all connections; building it for each would read the certificates again each time.
  const secureContext = yield* Effect.try({
    try: () => {
      if (extraCa === null) return createSecureContext({ minVersion: 'TLSv1.2' })
      const certificates = extraCa.match(PEM_CERTIFICATE) ?? []
      if (certificates.length === 0) throw new Error('no certificate')
      // Read for their faults only: a secure context passes over what it cannot read.
      for (const certificate of certificates) new X509Certificate(certificate)
      return createSecureContext({
        minVersion: 'TLSv1.2',
        ca: [...getCACertificates('default'), ...certificates],
      })
    },
    catch: () => new CaFileUnusable({ detail: 'the extra authority is not in PEM certificates' }),
  })
  const connector = makeSafeConnector(
    { policy, secureContext, connectTimeoutMs: RECEIVER_DEADLINE_MS },
    yield* Effect.context<never>(),
  )
  const connections = yield* Effect.acquireRelease(
    Effect.sync(
      () =>
        new Connections({
          connect: connector.connect,
          pipelining: 1,
          keepAliveTimeout: KEEP_ALIVE_MS,
          // A receiver may ask for longer; a minute of idling is enough for anybody.
          keepAliveMaxTimeout: 60_000,
          // Each attempt has its deadline, and what is left of its answer has one: a second clock for each would be the larger cost.
          headersTimeout: 0,
          bodyTimeout: 0,
        }),
    ),
    (connections) => Effect.promise(() => connections.close()),
  )

  // Read once for many deliveries; forgotten when there are too many.
  const targets = new Map<string, WebhookUrl | UrlRefused>()
  const targetOf = (text: string): WebhookUrl | UrlRefused => {
    let target = targets.get(text)
    if (target === undefined) {
      if (targets.size >= TARGETS_KEPT) targets.clear()
      target = readWebhookUrl(text)
      targets.set(text, target)
    }
    return target
  }

  // Made once for the deliveries of a subscription; gone with it.
  const keys = new WeakMap<Redacted.Redacted<string>, KeyObject>()
  const keyOf = (secret: Redacted.Redacted<string>): KeyObject => {
    let key = keys.get(secret)
    if (key === undefined) {
      key = createSecretKey(Redacted.value(secret), 'utf8')
      keys.set(secret, key)
    }
    return key
  }

  const discards = new Deadlines<Attempt>(DISCARDED_BODY_MS, (attempt) => attempt.cutOff())
  // Nearly all attempts have as long as each other.
  const waits = new Map<number, Waits>()
  const waitsOf = (ms: number): Waits => {
    let those = waits.get(ms)
    if (those === undefined) {
      those = { answers: new Deadlines(ms, (attempt) => attempt.expire()), discards }
      waits.set(ms, those)
    }
    return those
  }

  const begin: WebhookClientShape['begin'] = (delivery, deadlineMs, done) => {
    const url = targetOf(delivery.url)
    // It was checked when the subscription was created; a rule may have been added since.
    if (url instanceof UrlRefused) {
      done(failed('address_not_public', 0))
      return () => {}
    }
    const connection = connections.take(url.origin)
    const attempt = new Attempt(connections, connection, waitsOf(deadlineMs), done)
    try {
      const [current, ...others] = delivery.secrets
      const signature = signatureHeader(
        [keyOf(current), ...others.map(keyOf)],
        Math.floor(clock.currentTimeMillisUnsafe() / 1000),
        delivery.body,
      )
      connection.client.dispatch(
        {
          path: url.path,
          method: 'POST',
          // Name and value in turn, which undici takes as they are.
          headers: [
            'Content-Type',
            'application/json',
            'User-Agent',
            USER_AGENT,
            'Hub-Event-Id',
            delivery.eventBatch,
            'Hub-Signature',
            signature,
            ...(delivery.traceparent === undefined ? [] : ['traceparent', delivery.traceparent]),
          ],
          body: delivery.body,
          reset: connector.openSockets() >= SOCKETS_KEPT,
        },
        attempt,
      )
    } catch (error) {
      // Whatever is thrown here is a fault of this program, and must not be the end of everybody's deliveries.
      attempt.onResponseError(null, error)
    }
    return () => attempt.giveUp()
  }

  const deliver: WebhookClientShape['deliver'] = (delivery, { deadlineMs = RECEIVER_DEADLINE_MS } = {}) =>
    Effect.callback((resume) => {
      const giveUp = begin(delivery, deadlineMs, (result) =>
        resume(result instanceof AttemptNotMade ? Effect.fail(result) : Effect.succeed(result)),
      )
      return Effect.sync(giveUp)
    })

  return { begin, deliver, openSockets: connector.openSockets } satisfies WebhookClientShape
})

export class WebhookClient extends Context.Service<WebhookClient, WebhookClientShape>()(
  '@hub/webhooks/WebhookClient',
) {
  /**
   * Configuration: `HUB_WEBHOOK_CA_FILE`, a PEM file of certificates to trust beside the usual ones; off by default,
   * with a warning at start-up when on.
   */
  static readonly layer: Layer.Layer<
    WebhookClient,
    Config.ConfigError | CaFileUnusable,
    AddressPolicy | FileSystem.FileSystem
  > = Layer.effect(
    WebhookClient,
    Effect.gen(function* () {
      const file = yield* settings.webhookCaFile.config
      if (file === null) return yield* makeWebhookClient(null)
      const files = yield* FileSystem.FileSystem
      const pem = yield* files
        .readFileString(file)
        .pipe(Effect.mapError(() => new CaFileUnusable({ detail: 'HUB_WEBHOOK_CA_FILE cannot be read' })))
      const client = yield* makeWebhookClient(pem)
      yield* Effect.logWarning(
        'HUB_WEBHOOK_CA_FILE is set: receivers may present certificates of that authority',
      )
      return client
    }),
  )
}
