/**
 * An operator that is reached over HTTP with JSON: batches out, ids back, signed callbacks later (`callback.ts`).
 * The interface is described in infra/local/operator-simulator/README.md.
 */
import type { Readable } from 'node:stream'
import { REJECTED_REASONS } from '@hub/domain'
import { Effect, Redacted, Result, Schema, Semaphore, type Scope } from 'effect'
import type { Operator, Submission, SubmitOutcome } from '../port.ts'

export const HTTP = 'http'

export interface HttpOperatorOptions {
  /** Base URL; `/submissions` is added. */
  readonly url: URL
  /** Bearer secret. */
  readonly secret: Redacted.Redacted<string>
  /** Until the answer has been read, ms; after it the outcome is unknown. */
  readonly deadlineMs: number
  /** Connections, each with one request at a time. */
  readonly connections: number
  /** Messages at once, over all requests. */
  readonly window: number
}

/**
 * Ten seconds is what a busy operator may take and still be waited for; eight requests of a few dozen messages each keep
 * one busy over any usual distance.
 */
export const HTTP_DEFAULTS = { deadlineMs: 10_000, connections: 8, window: 1000 } as const

/** The operator takes 500; smaller requests spread over the connections, and a lost answer leaves fewer in doubt. */
const MAX_BATCH = 200
/** An answer of a full batch is about 40 kB. More than this is not such an answer. */
const MAX_ANSWER_BYTES = 1024 * 1024
/** When the operator did not say how long: it is asked again about once a second. */
const RETRY_MS = 1000
/** A secret that is refused needs a person; asking often helps nobody. */
const RETRY_UNAUTHORIZED_MS = 10_000
const CONNECT_TIMEOUT_MS = 2000

const Answer = Schema.Array(
  Schema.Struct({
    reference: Schema.String,
    operator_ids: Schema.Array(Schema.String),
    status: Schema.Literals(['accepted', 'rejected', 'throttled']),
    reason: Schema.optionalKey(Schema.NullOr(Schema.String)),
  }),
)
const decodeAnswer = Schema.decodeUnknownResult(Schema.fromJsonString(Answer))

/** Thrown inside the request body, before its first byte, when the lease does not hold any more. */
class NotWritten extends Error {}

type Exchange =
  | {
      readonly type: 'answered'
      readonly status: number
      readonly retryAfterMs: number | null
      readonly body: string
    }
  | { readonly type: 'notWritten' }
  | { readonly type: 'unreachable' }
  | { readonly type: 'lost' }

const retryAfter = (header: string | Array<string> | undefined): number | null => {
  const seconds = typeof header === 'string' ? Number(header) : Number.NaN
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, 60) * 1000 : null
}

const readBounded = async (body: AsyncIterable<Uint8Array>): Promise<string> => {
  const chunks: Array<Uint8Array> = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > MAX_ANSWER_BYTES) throw new Error('answer too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
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

/** The outcomes in an answer, or `null` when it is not an answer to this batch. */
const outcomesOf = (batch: ReadonlyArray<Submission>, body: string): ReadonlyArray<SubmitOutcome> | null => {
  const answer = decodeAnswer(body)
  if (Result.isFailure(answer) || answer.success.length !== batch.length) return null
  const outcomes: Array<SubmitOutcome> = []
  for (const [i, { operator_ids, reason, reference, status }] of answer.success.entries()) {
    if (reference !== batch[i]!.reference) return null
    switch (status) {
      case 'accepted':
        outcomes.push({ type: 'accepted', operatorIds: operator_ids })
        break
      case 'throttled':
        outcomes.push({ type: 'refused', retryAfterMs: RETRY_MS })
        break
      case 'rejected':
        outcomes.push({
          type: 'rejected',
          reason: REJECTED_REASONS.find((known) => known === reason) ?? 'operator_rejected',
        })
    }
  }
  return outcomes
}

/** Makes the adapter. Connections are kept open, and closed with the scope. */
export const makeHttpOperator = (options: HttpOperatorOptions): Effect.Effect<Operator, never, Scope.Scope> =>
  Effect.gen(function* () {
    // Only where there is such an operator: the package is a sixth of what a dispatcher loads before it can begin.
    const { errors, Pool } = yield* Effect.promise(() => import('undici'))
    const pool = yield* Effect.acquireRelease(
      Effect.sync(
        () =>
          new Pool(options.url.origin, {
            connections: options.connections,
            pipelining: 1,
            connect: { timeout: CONNECT_TIMEOUT_MS },
            headersTimeout: options.deadlineMs,
            bodyTimeout: options.deadlineMs,
          }),
      ),
      (pool) => Effect.promise(() => pool.destroy()),
    )
    // A request never waits inside the pool: what waits here has not been asked for its lease yet.
    const turn = yield* Semaphore.make(options.connections)
    // A request of a campaign takes seconds at a slow operator: one connection is always left for codes.
    const turnOfOthers = yield* Semaphore.make(Math.max(1, options.connections - 1))
    const inTurn = (urgent: boolean) => (asking: Effect.Effect<Exchange>) => {
      const next = turn.withPermits(1)(asking)
      return urgent ? next : turnOfOthers.withPermits(1)(next)
    }
    const path = `${options.url.pathname.replace(/\/$/u, '')}/submissions`
    const authorization = `Bearer ${Redacted.value(options.secret)}`

    const exchange = (batch: ReadonlyArray<Submission>, mayWrite: () => boolean): Effect.Effect<Exchange> => {
      const body = Buffer.from(JSON.stringify(batch.map(toWire)))
      let written = false
      // The pool pulls the body when it has a socket to write to, and writes nothing, not even the headers, before
      // the first chunk: this is the last moment at which the lease can be looked at.
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
            // undici takes any async iterable; its types name the streams only.
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
          // Nothing has left the process: no connection was made.
          if (!written || error instanceof errors.ConnectTimeoutError) return { type: 'unreachable' }
          return { type: 'lost' }
        },
      }).pipe(
        Effect.timeoutOrElse({
          duration: options.deadlineMs,
          orElse: () => Effect.succeed<Exchange>(written ? { type: 'lost' } : { type: 'unreachable' }),
        }),
        Effect.catch((ended) => Effect.succeed(ended)),
      )
    }

    const all = (batch: ReadonlyArray<Submission>, outcome: SubmitOutcome) => batch.map(() => outcome)

    const submitBatch = (
      batch: ReadonlyArray<Submission>,
      mayWrite: () => boolean,
    ): Effect.Effect<ReadonlyArray<SubmitOutcome>> =>
      Effect.gen(function* () {
        const ended = yield* inTurn(batch[0]?.urgent === true)(exchange(batch, mayWrite))
        switch (ended.type) {
          case 'notWritten':
            return all(batch, { type: 'notWritten' })
          case 'unreachable':
            return all(batch, { type: 'refused', retryAfterMs: RETRY_MS })
          case 'lost':
            return all(batch, { type: 'unknown' })
          case 'answered':
        }
        switch (ended.status) {
          case 200: {
            const outcomes = outcomesOf(batch, ended.body)
            if (outcomes !== null) return outcomes
            yield* Effect.logError('the operator answered something else than an answer to a submission')
            return all(batch, { type: 'unknown' })
          }
          case 401:
          case 403:
            yield* Effect.logError('the operator refuses the secret').pipe(
              Effect.annotateLogs({ status: ended.status }),
            )
            return all(batch, { type: 'refused', retryAfterMs: RETRY_UNAUTHORIZED_MS })
          case 400:
          case 413:
          case 422: {
            // Nothing of it was taken, for the sake of one: halves find out which.
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
          case 429:
          case 503:
            return all(batch, { type: 'refused', retryAfterMs: ended.retryAfterMs ?? RETRY_MS })
          default:
            return all(batch, { type: 'unknown' })
        }
      })

    return {
      name: HTTP,
      capabilities: { dedupesByReference: true, window: options.window },
      submit: (batch, mayWrite) => {
        const chunks = [
          batch.filter(({ urgent }) => urgent === true),
          batch.filter(({ urgent }) => urgent !== true),
        ].flatMap((some) =>
          Array.from({ length: Math.ceil(some.length / MAX_BATCH) }, (_, i) =>
            some.slice(i * MAX_BATCH, (i + 1) * MAX_BATCH),
          ),
        )
        return Effect.map(
          Effect.forEach(chunks, (chunk) => submitBatch(chunk, mayWrite), { concurrency: 'unbounded' }),
          (outcomes) => {
            const answers = new Map<Submission, SubmitOutcome>()
            for (const [i, chunk] of chunks.entries()) {
              for (const [j, submission] of chunk.entries()) answers.set(submission, outcomes[i]![j]!)
            }
            return batch.map((submission): SubmitOutcome => answers.get(submission) ?? { type: 'unknown' })
          },
        )
      },
      // It remembers what it was given and reports in its own time.
      resume: () => Effect.void,
    }
  })
