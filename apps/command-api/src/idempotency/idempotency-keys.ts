/** `command.idempotency_keys`: the adapter of the port, and statements for the ledger. */
import { decodeId, encodeId } from '@hub/domain'
import { MasterKeyEncryption, type Queries, Sql, storageCrashPoint, StorageUnavailable } from '@hub/store'
import { Effect, Layer } from 'effect'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import {
  IdempotencyKeys,
  type IdempotencyLock,
  LOCK_SECONDS,
  type LockRequest,
  type StoredResponse,
} from './idempotency-keys.port.ts'
import { decryptAnswer, encryptAnswer } from './stored-answer.ts'

/** How long a response is kept, and the message id of a request that may be repeated. */
const RETENTION_HOURS = 24
/** After this time a request has ended. If its lock is held, its process has crashed. */
const REQUEST_SECONDS = 20

const atKeyAcquired = storageCrashPoint(
  'command-api.key-acquired',
  (row: KeyRow | undefined) => row?.acquired === true,
)

/** A query: locks the rows of locks that are still held, in key order. */
export const selectKeysInUse = (q: Queries, locks: ReadonlyArray<IdempotencyLock>) => q<
  { lease_token: string }[]
>`
  SELECT k.lease_token FROM command.idempotency_keys k
    JOIN unnest(${locks.map(({ accountUuid }) => accountUuid)}::uuid[], ${locks.map(({ mode }) => mode)}::text[],
                ${locks.map(({ key }) => key)}::text[], ${locks.map(({ token }) => token)}::uuid[])
           AS held (account, mode, key, token)
      ON k.account = held.account AND k.mode = held.mode::command.mode AND k.key = held.key AND k.lease_token = held.token
   WHERE k.status IS NULL AND k.lease_until > now()
   ORDER BY k.account, k.mode, k.key FOR UPDATE OF k`

/** Locks the rows of locks that are still held, and returns their tokens. */
export const lockKeysInUse = async (
  q: Queries,
  locks: ReadonlyArray<IdempotencyLock>,
): Promise<ReadonlySet<string>> => {
  const rows = await selectKeysInUse(q, locks).execute()
  return new Set(rows.map((row) => row.lease_token))
}

/** Stores responses under locks that are still held, and releases the locks. */
export const writeResponses = (
  q: Queries,
  encryption: MasterKeyEncryption['Service'],
  responses: ReadonlyArray<{ readonly lock: IdempotencyLock; readonly response: StoredResponse }>,
) => {
  const encrypted = responses.map(({ lock, response }) =>
    encryptAnswer(encryption, lock, response.body).toString('hex'),
  )
  const headers = responses.map(({ response }) =>
    JSON.stringify({ ...response.headers, 'content-type': response.contentType }),
  )
  const locks = responses.map(({ lock }) => lock)
  return q`
    UPDATE command.idempotency_keys k
       SET status = new.status, headers = new.headers::jsonb, answer = decode(new.answer, 'hex'), message_ids = NULL,
           lease_token = NULL, lease_until = NULL, expires_at = now() + make_interval(hours => ${RETENTION_HOURS})
      FROM unnest(${locks.map(({ accountUuid }) => accountUuid)}::uuid[], ${locks.map(({ mode }) => mode)}::text[],
                  ${locks.map(({ key }) => key)}::text[], ${locks.map(({ token }) => token)}::uuid[],
                  ${responses.map(({ response }) => String(response.status))}::smallint[], ${headers}::text[],
                  ${encrypted}::text[])
           AS new (account, mode, key, token, status, headers, answer)
     WHERE k.account = new.account AND k.mode = new.mode::command.mode AND k.key = new.key AND k.lease_token = new.token`
}

interface KeyRow {
  readonly acquired: boolean
  readonly message_ids: ReadonlyArray<string> | null
  readonly fingerprint: Buffer
  readonly status: number | null
  readonly headers: Readonly<Record<string, string>> | null
  readonly answer: Buffer | null
  /** Seconds until the lock expires. */
  readonly lease_left: number | null
}

/**
 * Acquires the lock of a key, or returns the row as it is. The statement reads before it inserts:
 * an insert that meets the key would wait for its row, which a commit may lock for as long as it
 * hangs. No row: another request inserted the key meanwhile.
 */
const acquireRow = async (
  q: Queries,
  { fingerprint, key, messageId, owner }: LockRequest,
  token: string,
): Promise<KeyRow | undefined> => {
  const [row] = await q<KeyRow[]>`
    WITH acquired AS (
      INSERT INTO command.idempotency_keys AS k
        (account, mode, key, fingerprint, lease_token, lease_until, message_ids, expires_at)
      SELECT ${owner.accountUuid}::uuid, ${owner.mode}::command.mode, ${key}, ${fingerprint}::bytea, ${token}::uuid,
             now() + make_interval(secs => ${LOCK_SECONDS}), ARRAY[${decodeId('msg', messageId)}::uuid],
             now() + make_interval(hours => ${RETENTION_HOURS})
       WHERE NOT EXISTS (
             SELECT 1 FROM command.idempotency_keys
              WHERE account = ${owner.accountUuid} AND mode = ${owner.mode} AND key = ${key}
                AND expires_at > now() AND (status IS NOT NULL OR lease_until > now()))
      ON CONFLICT (account, mode, key) DO UPDATE
         SET lease_token = excluded.lease_token, lease_until = excluded.lease_until, fingerprint = excluded.fingerprint,
             message_ids = CASE WHEN k.fingerprint = excluded.fingerprint AND k.expires_at > now()
                                THEN coalesce(k.message_ids, excluded.message_ids) ELSE excluded.message_ids END,
             status = NULL, headers = NULL, answer = NULL, created_at = now(), expires_at = excluded.expires_at
       WHERE k.expires_at <= now() OR (k.status IS NULL AND (k.lease_until IS NULL OR k.lease_until <= now()))
      RETURNING k.message_ids)
    SELECT true AS acquired, message_ids, ${fingerprint}::bytea AS fingerprint, NULL::smallint AS status,
           NULL::jsonb AS headers, NULL::bytea AS answer, NULL::float8 AS lease_left
      FROM acquired
    UNION ALL
    SELECT false, NULL, fingerprint, status, headers, answer, extract(epoch FROM lease_until - now())::float8
      FROM command.idempotency_keys
     WHERE account = ${owner.accountUuid} AND mode = ${owner.mode} AND key = ${key}
       AND NOT EXISTS (SELECT 1 FROM acquired)`
  return row
}

/**
 * Seconds after which a repeat is useful: 1 while the first request can still be running, else the
 * time until its lock expires.
 */
export const retryAfterOf = (secondsLeft: number): number =>
  secondsLeft > LOCK_SECONDS - REQUEST_SECONDS ? 1 : Math.max(1, Math.ceil(secondsLeft))

export const idempotencyKeysLayer: Layer.Layer<IdempotencyKeys, never, Sql | MasterKeyEncryption> =
  Layer.effect(
    IdempotencyKeys,
    Effect.gen(function* () {
      const sql = yield* Sql
      const encryption = yield* MasterKeyEncryption

      return {
        acquire: Effect.fnUntraced(function* (wanted, token) {
          const row = yield* sql
            .run((q) => acquireRow(q, wanted, token), STATEMENT_DEADLINE)
            .pipe(atKeyAcquired)
          if (row === undefined) return { type: 'running', retryAfterSeconds: 1 }
          const { accountUuid, mode } = wanted.owner
          const lock: IdempotencyLock = { accountUuid, mode, key: wanted.key, token }
          if (row.acquired) {
            const [remembered] = row.message_ids ?? []
            const messageId = remembered === undefined ? wanted.messageId : encodeId('msg', remembered)
            return { type: 'first', lock, messageId }
          }
          if (!row.fingerprint.equals(wanted.fingerprint)) return { type: 'reused' }
          if (row.status === null || row.answer === null) {
            return { type: 'running', retryAfterSeconds: retryAfterOf(row.lease_left ?? 0) }
          }
          const body = yield* decryptAnswer(encryption, lock, row.answer).pipe(
            // The master key of the deployment is wrong. A repeat succeeds after it is corrected.
            Effect.catchTag('DecryptionFailed', () =>
              Effect.fail(
                new StorageUnavailable({ reason: 'failed', detail: 'stored response not decryptable' }),
              ),
            ),
          )
          const { 'content-type': contentType = 'application/json', ...headers } = row.headers ?? {}
          return { type: 'replay', response: { status: row.status, contentType, headers, body } }
        }),

        store: (lock, response) =>
          Effect.asVoid(
            sql.run((q) => writeResponses(q, encryption, [{ lock, response }]), STATEMENT_DEADLINE),
          ),

        release: ({ accountUuid, key, mode, token }) =>
          sql.run(async (q) => {
            const released = await q`
              UPDATE command.idempotency_keys SET lease_token = NULL, lease_until = NULL
               WHERE account = ${accountUuid} AND mode = ${mode} AND key = ${key} AND lease_token = ${token}
                 AND status IS NULL`
            return released.count > 0
          }, STATEMENT_DEADLINE),
      }
    }),
  )
