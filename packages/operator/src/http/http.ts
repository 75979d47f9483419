/**
 * The HTTP adapter of the operator port: it posts batches as JSON and gets operator ids. Reports
 * come later as signed callbacks (`callback.ts`). Interface:
 * infra/local/operator-simulator/README.md.
 */
import type { Readable } from 'node:stream'
import { REJECTED_REASONS } from '@hub/domain'
import { skippingInformational } from '@hub/http-client'
import { Effect, Redacted, Result, Schema, Semaphore, type Scope } from 'effect'
import { parseForeignJson } from '../foreign.ts'
import {
  type Operator,
  type OperatorAnswer,
  ReportSink,
  stopAtFirstRefusal,
  type Submission,
  type SubmitOutcome,
  THROTTLED_RETRY_MS,
} from '../port.ts'
import { makeUnusable } from '../unusable.ts'

export const HTTP = 'http'

interface HttpOperatorOptions {
  /** The base URL, without `/submissions`. */
  readonly url: URL
  readonly secret: Redacted.Redacted<string>
  /** Time limit for the complete answer, ms. After it the outcome is unknown. */
  readonly deadlineMs: number
  /** The number of connections. Each carries one request at a time. */
  readonly connections: number
  readonly window: number
}

/** Ten seconds for a busy operator. Eight requests use an operator fully. */
export const HTTP_DEFAULTS = { deadlineMs: 10_000, connections: 8, window: 1000 } as const

/** The operator accepts 500, but a lost answer then affects more messages. */
const MAX_BATCH = 200
/** The answer to a full batch has about 40 kB. A much longer body is no valid answer. */
const MAX_ANSWER_BYTES = 1024 * 1024
/** The retry time if the operator gives none. */
const RETRY_MS = 1000
/** A refused secret needs a person, so frequent retries are useless. */
const RETRY_UNAUTHORIZED_MS = 10_000
const CONNECT_TIMEOUT_MS = 2000

/** One element of an answer. The boundary of the port checks the ids. */
const Answer = Schema.Struct({
  reference: Schema.String,
  operator_ids: Schema.Array(Schema.String),
  status: Schema.Literals(['accepted', 'rejected', 'throttled']),
  reason: Schema.optionalKey(Schema.NullOr(Schema.String)),
})
const decodeAnswer = Schema.decodeUnknownResult(Answer)

/** Thrown by the request body before its first byte if the lease has ended. */
class NotWritten extends Error {}

type Exchange =
  | {
      readonly type: 'answered'
      readonly status: number
      readonly retryAfterMs: number | null
      readonly body: Buffer
    }
  | { readonly type: 'notWritten' }
  | { readonly type: 'unreachable' }
  | { readonly type: 'lost' }

const retryAfter = (header: string | Array<string> | undefined): number | null => {
  const seconds = typeof header === 'string' ? Number(header) : Number.NaN
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, 60) * 1000 : null
}

const readBounded = async (body: AsyncIterable<Uint8Array>): Promise<Buffer> => {
  const chunks: Array<Uint8Array> = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > MAX_ANSWER_BYTES) throw new Error('answer too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const toWire = (submission: Submission) => ({
  reference: submission.reference,
  to: submission.to,
  text: submission.text,
  sender: submission.sender,
  parts: submission.parts,
  encoding: submission.encoding,
  validity_seconds: submission.validitySeconds,
})

/** The elements of an answer, one for each message, or `null` if it has others or cannot be read. */
const elementsOf = (count: number, body: Buffer): ReadonlyArray<unknown> | null => {
  const parsed = parseForeignJson(body)?.value
  return Array.isArray(parsed) && parsed.length === count ? parsed : null
}

/** The raw answer for each message of a batch: the HTTP status and the element, or the whole body. */
const rawAnswersOf = (
  batch: ReadonlyArray<Submission>,
  elements: ReadonlyArray<unknown> | null,
  { body, status }: Extract<Exchange, { readonly type: 'answered' }>,
): ReadonlyArray<OperatorAnswer> => {
  const rawOf = (content: unknown) => Buffer.from(JSON.stringify({ status, body: content }))
  // Made once: a long body for each of two hundred messages would take all memory.
  const whole = elements === null ? rawOf(body.toString('utf8')) : null
  return batch.map(({ recipient, reference }, i) => ({
    operator: HTTP,
    reference,
    recipient,
    raw: whole ?? rawOf(elements?.[i]),
  }))
}

const throttled = ({ parts }: Submission, retryAfterMs: number): SubmitOutcome => ({
  type: 'refused',
  submitted: true,
  retryAfterMs,
  throttledParts: parts,
})

/** Returns the outcome of an element, or `null` if it is not about the message. */
const outcomeOf = (submission: Submission, element: unknown): SubmitOutcome | null => {
  const answer = decodeAnswer(element)
  if (Result.isFailure(answer) || answer.success.reference !== submission.reference) return null
  const { operator_ids, reason, status } = answer.success
  switch (status) {
    case 'accepted':
      return { type: 'accepted', operatorIds: operator_ids }
    case 'throttled':
      return throttled(submission, THROTTLED_RETRY_MS)
    case 'rejected':
      return {
        type: 'rejected',
        reason: REJECTED_REASONS.find((known) => known === reason) ?? 'operator_rejected',
      }
  }
}

export const makeHttpOperator = (
  options: HttpOperatorOptions,
): Effect.Effect<Operator, never, ReportSink | Scope.Scope> =>
  Effect.gen(function* () {
    const sink = yield* ReportSink
    const unusable = yield* makeUnusable
    // Imported only on use: undici is a sixth of the modules that a dispatcher loads.
    const { buildConnector, errors, Pool } = yield* Effect.promise(() => import('undici'))
    const pool = yield* Effect.acquireRelease(
      Effect.sync(
        () =>
          new Pool(options.url.origin, {
            connections: options.connections,
            pipelining: 1,
            connect: skippingInformational(buildConnector({ timeout: CONNECT_TIMEOUT_MS })),
            headersTimeout: options.deadlineMs,
            bodyTimeout: options.deadlineMs,
          }),
      ),
      (pool) => Effect.promise(() => pool.destroy()),
    )
    // Requests wait here and not inside the pool, because the lease must be checked after the wait.
    const slots = yield* Semaphore.make(options.connections)
    // A bulk request can take seconds. One connection is always reserved for codes.
    const bulkSlots = yield* Semaphore.make(Math.max(1, options.connections - 1))
    const withSlot = (urgent: boolean) => (request: Effect.Effect<Exchange>) => {
      const next = slots.withPermits(1)(request)
      return urgent ? next : bulkSlots.withPermits(1)(next)
    }
    const path = `${options.url.pathname.replace(/\/$/u, '')}/submissions`
    const authorization = `Bearer ${Redacted.value(options.secret)}`

    const exchange = (batch: ReadonlyArray<Submission>, mayWrite: () => boolean): Effect.Effect<Exchange> => {
      const body = Buffer.from(JSON.stringify(batch.map(toWire)))
      let written = false
      // The pool reads the body when it has a socket, and writes nothing before, not even headers.
      // So this is the last moment to check the lease.
      const checked = async function* () {
        if (!mayWrite()) throw new NotWritten()
        written = true
        yield body
      }
      return Effect.tryPromise({
        try: async (signal): Promise<Exchange> => {
          const response = await pool.request({
            path,
            method: 'POST',
            headers: {
              authorization,
              'content-type': 'application/json',
              'content-length': String(body.length),
            },
            // undici accepts any async iterable, but its types only name streams.
            body: checked() as unknown as Readable,
            signal,
          })
          return {
            type: 'answered',
            status: response.statusCode,
            retryAfterMs: retryAfter(response.headers['retry-after']),
            body: await readBounded(response.body),
          }
        },
        catch: (error): Exchange => {
          if (error instanceof NotWritten) return { type: 'notWritten' }
          // No connection was made, so nothing has left the process.
          if (!written || error instanceof errors.ConnectTimeoutError) return { type: 'unreachable' }
          return { type: 'lost' }
        },
      }).pipe(
        Effect.timeoutOrElse({
          duration: options.deadlineMs,
          orElse: () => Effect.succeed<Exchange>(written ? { type: 'lost' } : { type: 'unreachable' }),
        }),
        Effect.catch((failed) => Effect.succeed(failed)),
      )
    }

    const all = (batch: ReadonlyArray<Submission>, outcome: SubmitOutcome) => batch.map(() => outcome)

    const submitBatch = (
      batch: ReadonlyArray<Submission>,
      mayWrite: () => boolean,
    ): Effect.Effect<ReadonlyArray<SubmitOutcome>> =>
      Effect.gen(function* () {
        const result = yield* withSlot(batch[0]?.urgent === true)(exchange(batch, mayWrite))
        switch (result.type) {
          case 'notWritten':
            return all(batch, { type: 'notWritten' })
          case 'unreachable':
            return all(batch, { type: 'refused', submitted: false, retryAfterMs: RETRY_MS })
          case 'lost':
            return all(batch, { type: 'unknown' })
          case 'answered':
        }
        const elements = elementsOf(batch.length, result.body)
        sink.keepAnswers(rawAnswersOf(batch, elements, result))
        switch (result.status) {
          case 200: {
            const outcomes = batch.map((submission, i) => outcomeOf(submission, elements?.[i]))
            const unfit = outcomes.filter((outcome) => outcome === null).length
            if (unfit > 0) yield* unusable.skipped(HTTP, 'answer', 'element', unfit)
            return outcomes.map((outcome) => outcome ?? { type: 'unknown' })
          }
          case 401:
          case 403:
            yield* Effect.logError('HTTP operator refused the secret: check the configured secret').pipe(
              Effect.annotateLogs({ status: result.status }),
            )
            return all(batch, { type: 'refused', submitted: true, retryAfterMs: RETRY_UNAUTHORIZED_MS })
          case 400:
          case 413:
          case 422: {
            // The operator refused the batch because of one message. Halving finds that message.
            if (batch.length === 1) return [{ type: 'rejected', reason: 'operator_rejected' }]
            const half = batch.length >>> 1
            const outcomes = yield* Effect.all(
              [submitBatch(batch.slice(0, half), mayWrite), submitBatch(batch.slice(half), mayWrite)],
              { concurrency: 2 },
            )
            return outcomes.flat()
          }
          case 404:
          case 405:
          case 503:
            return all(batch, {
              type: 'refused',
              submitted: true,
              retryAfterMs: result.retryAfterMs ?? RETRY_MS,
            })
          case 429:
            return batch.map((submission) => throttled(submission, result.retryAfterMs ?? THROTTLED_RETRY_MS))
          default:
            return all(batch, { type: 'unknown' })
        }
      })

    return {
      name: HTTP,
      capabilities: { dedupesByReference: true, isPaced: true, window: options.window },
      submit: (batch, mayWrite) => {
        const chunks = [
          batch.filter(({ urgent }) => urgent === true),
          batch.filter(({ urgent }) => urgent !== true),
        ].flatMap((group) =>
          Array.from({ length: Math.ceil(group.length / MAX_BATCH) }, (_, i) =>
            group.slice(i * MAX_BATCH, (i + 1) * MAX_BATCH),
          ),
        )
        const mayWriteBatch = stopAtFirstRefusal(mayWrite)
        return Effect.map(
          Effect.forEach(chunks, (chunk) => submitBatch(chunk, mayWriteBatch), { concurrency: 'unbounded' }),
          (outcomes) => {
            const inChunkOrder = outcomes.flat()
            const outcomeOf = new Map(chunks.flat().map((submission, i) => [submission, inChunkOrder[i]!]))
            return batch.map((submission) => outcomeOf.get(submission)!)
          },
        )
      },
      // The operator keeps submitted messages and reports on them itself.
      resume: () => Effect.void,
    }
  })
