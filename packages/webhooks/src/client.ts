/**
 * One attempt to deliver a batch: signed, sent, and judged by the status alone. Source: specification, Delivery of
 * events (2, 5), Signature; contract, Webhook subscription.
 */
import { signatureHeader } from '@hub/domain'
import { Clock, Config, Context, Data, Effect, FileSystem, Layer, Redacted } from 'effect'
import { X509Certificate } from 'node:crypto'
import { createSecureContext, getCACertificates } from 'node:tls'
import { Agent, type Dispatcher } from 'undici'
import packageJson from '../package.json' with { type: 'json' }
import { makeSafeConnector } from './connector.ts'
import { type FailureReason, reasonOf } from './failure.ts'
import { AddressPolicy } from './policy.ts'
import { readWebhookUrl, UrlRefused } from './url.ts'

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
   * Delivers once. Every fault of the receiver is a result, not an error; redirects are not followed. Ends within
   * `deadlineMs` (default 10 s). Interrupting it closes the connection.
   */
  readonly deliver: (
    delivery: Delivery,
    options?: { readonly deadlineMs?: number },
  ) => Effect.Effect<DeliveryResult, AttemptNotMade>
  readonly openSockets: () => number
}

/** The part of an attempt that lives in undici's callbacks. */
class Attempt implements Dispatcher.DispatchHandler {
  readonly #onStatus: (status: number) => void
  readonly #onError: (error: unknown) => void
  #controller: Dispatcher.DispatchController | null = null
  #state: 'waiting' | 'answered' | 'given up' = 'waiting'
  #discarded = 0
  #discarding: NodeJS.Timeout | null = null

  constructor(onStatus: (status: number) => void, onError: (error: unknown) => void) {
    this.#onStatus = onStatus
    this.#onError = onError
  }

  /** Nobody waits any more. A request that is still queued behind its connection is dropped when its turn comes. */
  giveUp(): void {
    if (this.#state !== 'waiting') return
    this.#state = 'given up'
    this.#controller?.abort(new Error('given up'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#state === 'given up') controller.abort(new Error('given up'))
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    // 1xx: not the answer yet.
    if (status < 200 || this.#state !== 'waiting') return
    this.#state = 'answered'
    this.#discarding = setTimeout(() => controller.abort(new Error('body not wanted')), DISCARDED_BODY_MS)
    this.#discarding.unref()
    this.#onStatus(status)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#discarded += chunk.length
    if (this.#discarded > DISCARDED_BODY_BYTES) controller.abort(new Error('body not wanted'))
  }

  onResponseEnd(): void {
    this.#stopDiscarding()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#stopDiscarding()
    if (this.#state !== 'waiting') return
    this.#state = 'given up'
    this.#onError(error)
  }

  #stopDiscarding(): void {
    if (this.#discarding !== null) clearTimeout(this.#discarding)
    this.#discarding = null
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
  const agent = yield* Effect.acquireRelease(
    Effect.sync(
      () =>
        new Agent({
          connect: connector.connect,
          pipelining: 1,
          keepAliveTimeout: KEEP_ALIVE_MS,
          // A receiver may ask for longer; a minute of idling is enough for anybody.
          keepAliveMaxTimeout: 60_000,
          // The deadline of the attempt rules; this one is behind it for what was given up.
          headersTimeout: RECEIVER_DEADLINE_MS,
          bodyTimeout: RECEIVER_DEADLINE_MS,
        }),
    ),
    (agent) => Effect.promise(() => agent.destroy()),
  )

  const deliver: WebhookClientShape['deliver'] = Effect.fnUntraced(function* (delivery, options = {}) {
    const url = readWebhookUrl(delivery.url)
    // It was checked when the subscription was created; a rule may have been added since.
    if (url instanceof UrlRefused) return failed('address_not_public', 0)
    const startedAt = clock.monotonicTimeNanosUnsafe()
    const elapsed = () => Math.round(Number(clock.monotonicTimeNanosUnsafe() - startedAt) / 1e6)
    const [current, ...others] = delivery.secrets
    const signature = signatureHeader(
      [Redacted.value(current), ...others.map(Redacted.value)],
      Math.floor(clock.currentTimeMillisUnsafe() / 1000),
      delivery.body,
    )
    const request: Dispatcher.DispatchOptions = {
      origin: url.origin,
      path: url.path,
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'User-Agent': `SMS-Delivery-Hub/${packageJson.version}`,
        'Hub-Event-Id': delivery.eventBatch,
        'Hub-Signature': signature,
      },
      body: delivery.body,
      reset: connector.openSockets() >= SOCKETS_KEPT,
    }
    return yield* Effect.callback<DeliveryResult, AttemptNotMade>((resume) => {
      const attempt = new Attempt(
        (status) => resume(Effect.succeed(judge(status, elapsed()))),
        (error) => {
          const reason = reasonOf(error)
          resume(
            reason === null
              ? Effect.fail(new AttemptNotMade({ detail: error instanceof Error ? error.name : 'unknown' }))
              : Effect.succeed(failed(reason, elapsed())),
          )
        },
      )
      agent.dispatch(request, attempt)
      return Effect.sync(() => attempt.giveUp())
    }).pipe(
      Effect.timeoutOrElse({
        duration: options.deadlineMs ?? RECEIVER_DEADLINE_MS,
        orElse: () => Effect.sync(() => failed('timeout', elapsed())),
      }),
    )
  })

  return { deliver, openSockets: connector.openSockets } satisfies WebhookClientShape
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
      const file = yield* Config.String('HUB_WEBHOOK_CA_FILE').pipe(Config.withDefault(''))
      if (file === '') return yield* makeWebhookClient(null)
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
