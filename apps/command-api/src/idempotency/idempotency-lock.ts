/**
 * Idempotency keys: the claim of the first request, the answer that repeats get, and the ids that a request was about to use.
 *
 * Source: specification, Idempotency and Idempotency key lifecycle; contract, General (idempotency).
 */
import { createHash } from 'node:crypto'
import type { Mode } from '@hub/domain'
import type { Queries, MasterKeyEncryption } from '@hub/store'

/** A claim in force. Whoever holds the token may store the answer. */
export interface IdempotencyLock {
  readonly accountUuid: string
  readonly mode: Mode
  readonly key: string
  /** UUID, new for each claim. */
  readonly token: string
}

/** An answer as a repeat gets it. */
export interface StoredAnswer {
  readonly status: number
  readonly contentType: string
  /** Those that belong to the answer itself, such as `Retry-After`. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/** How long a request may hold a key. Source: specification, Other limits. */
export const LOCK_SECONDS = 60
/** How long an answer is kept, and the ids of a request that is to be repeated. */
export const KEPT_HOURS = 24

/** What makes a request the same: method, path with query, and the bytes of its body. 32 bytes. */
export const fingerprintOf = (method: string, url: string, body: Uint8Array): Buffer =>
  createHash('sha256')
    .update(`${method} ${url}\n`)
    .update(createHash('sha256').update(body).digest())
    .digest()

/** What an answer in the database is bound to: moved to another key it does not open. */
export const answerAad = ({ accountUuid, key, mode }: Omit<IdempotencyLock, 'token'>): string =>
  `${accountUuid} ${mode} ${key}`

/** Locks the locks that are still in force, and names their tokens. Sorted, as everything that several transactions lock. */
export const lockHeldKeys = async (
  q: Queries,
  locks: ReadonlyArray<IdempotencyLock>,
): Promise<ReadonlySet<string>> => {
  const rows = await q<{ lease_token: string }[]>`
    SELECT k.lease_token FROM command.idempotency_keys k
      JOIN unnest(${locks.map(({ accountUuid }) => accountUuid)}::uuid[], ${locks.map(({ mode }) => mode)}::text[],
                  ${locks.map(({ key }) => key)}::text[], ${locks.map(({ token }) => token)}::uuid[])
             AS held (account, mode, key, token)
        ON k.account = held.account AND k.mode = held.mode::command.mode AND k.key = held.key AND k.lease_token = held.token
     WHERE k.status IS NULL AND k.lease_until > now()
     ORDER BY k.account, k.mode, k.key FOR UPDATE OF k`
  return new Set(rows.map((row) => row.lease_token))
}

/** Stores answers under locks that are still held; names the tokens of those that were. */
export const writeAnswers = async (
  q: Queries,
  masterKey: MasterKeyEncryption['Service'],
  answers: ReadonlyArray<{ readonly lock: IdempotencyLock; readonly answer: StoredAnswer }>,
): Promise<ReadonlySet<string>> => {
  const sealed = answers.map(({ answer, lock }) =>
    masterKey
      .encrypt(
        'idempotent-answer',
        answerAad(lock),
        typeof answer.body === 'string' ? Buffer.from(answer.body) : answer.body,
      )
      .toString('hex'),
  )
  const headers = answers.map(({ answer }) =>
    JSON.stringify({ ...answer.headers, 'content-type': answer.contentType }),
  )
  const rows = await q<{ token: string }[]>`
    UPDATE command.idempotency_keys k
       SET status = new.status, headers = new.headers::jsonb, answer = decode(new.answer, 'hex'), message_ids = NULL,
           lease_token = NULL, lease_until = NULL, expires_at = now() + make_interval(hours => ${KEPT_HOURS})
      FROM unnest(${answers.map(({ lock }) => lock.accountUuid)}::uuid[], ${answers.map(({ lock }) => lock.mode)}::text[],
                  ${answers.map(({ lock }) => lock.key)}::text[], ${answers.map(({ lock }) => lock.token)}::uuid[],
                  ${answers.map(({ answer }) => String(answer.status))}::smallint[], ${headers}::text[], ${sealed}::text[])
           AS new (account, mode, key, token, status, headers, answer)
     WHERE k.account = new.account AND k.mode = new.mode::command.mode AND k.key = new.key AND k.lease_token = new.token
    RETURNING new.token`
  return new Set(rows.map((row) => row.token))
}
