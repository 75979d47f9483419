/** Where idempotency keys live: the port, and its adapter for PostgreSQL. */
import { randomUUID } from 'node:crypto'
import { decodeId, encodeId } from '@hub/domain'
import { Sql, type StorageError, StorageUnavailable, MasterKeyEncryption } from '@hub/store'
import { Context, Duration, Effect, Layer } from 'effect'
import type { Owner } from '../accounts/account.ts'
import {
  answerAad,
  KEPT_HOURS,
  type IdempotencyLock,
  LOCK_SECONDS,
  type StoredAnswer,
  writeAnswers,
} from './idempotency-lock.ts'

/** What a claim came to. */
export type LockResult =
  /** The request runs. `messageId`: what a send without a reference is to be recorded under, again if it is a repeat. */
  | { readonly type: 'first'; readonly lock: IdempotencyLock; readonly messageId: string }
  | { readonly type: 'replay'; readonly answer: StoredAnswer }
  /** The first one is still running. */
  | { readonly type: 'running'; readonly retryAfterSeconds: number }
  /** The key belongs to another request. */
  | { readonly type: 'reused' }

export interface LockRequest {
  readonly owner: Owner
  readonly key: string
  /** 32 bytes. */
  readonly fingerprint: Buffer
  /** `msg_…`: taken, unless an earlier try of the same request has left one. */
  readonly messageId: string
}

export class IdempotencyKeys extends Context.Service<
  IdempotencyKeys,
  {
    /** Takes the key in one statement. After `StorageUnavailable` it may be taken all the same, even later. */
    readonly acquire: (wanted: LockRequest, token: string) => Effect.Effect<LockResult, StorageError>
    /** Stores the answer, if the lock is still held. Idempotent. */
    readonly store: (lock: IdempotencyLock, answer: StoredAnswer) => Effect.Effect<void, StorageError>
    /**
     * Frees the key, if it is still held and no answer is stored; says whether it was. Idempotent. Its message id is
     * remembered.
     */
    readonly release: (lock: IdempotencyLock) => Effect.Effect<boolean, StorageError>
  }
>()('@hub/command-api/IdempotencyKeys') {}

/** A new token. */
export const newToken = (): string => randomUUID()

const DEADLINE = { deadline: Duration.millis(1000) }
/** By then a request has ended one way or the other: from here on only its lock stands between it and its repeat. */
const REQUEST_SECONDS = 20

interface Row {
  readonly acquired: boolean
  readonly message_ids: ReadonlyArray<string> | null
  readonly fingerprint: Buffer
  readonly status: number | null
  readonly headers: Readonly<Record<string, string>> | null
  readonly answer: Buffer | null
  readonly lease_left: number | null
}

/**
 * When a repeat of a running request is worth while: at once again while the request can still be running, which takes
 * milliseconds as a rule; else when its lock ends.
 */
export const retryAfterOf = (leaseLeft: number): number =>
  leaseLeft > LOCK_SECONDS - REQUEST_SECONDS ? 1 : Math.max(1, Math.ceil(leaseLeft))

export const idempotencyKeysLayer: Layer.Layer<IdempotencyKeys, never, Sql | MasterKeyEncryption> =
  Layer.effect(
    IdempotencyKeys,
    Effect.gen(function* () {
      const sql = yield* Sql
      const masterKey = yield* MasterKeyEncryption

      // It looks before it takes: an insertion that finds the key would wait for its row, which a flush may hold for as long as it hangs.
      const acquireRow = ({ fingerprint, key, messageId, owner }: LockRequest, token: string) =>
        sql.run(async (q) => {
          const [row] = await q<Row[]>`
          WITH acquired AS (
            INSERT INTO command.idempotency_keys AS k
              (account, mode, key, fingerprint, lease_token, lease_until, message_ids, expires_at)
            SELECT ${owner.accountUuid}::uuid, ${owner.mode}::command.mode, ${key}, ${fingerprint}::bytea, ${token}::uuid,
                   now() + make_interval(secs => ${LOCK_SECONDS}), ARRAY[${decodeId('msg', messageId)}::uuid],
                   now() + make_interval(hours => ${KEPT_HOURS})
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
        }, DEADLINE)

      return {
        acquire: Effect.fnUntraced(function* (wanted, token) {
          const row = yield* acquireRow(wanted, token)
          // Taken by another request between the statement's snapshot and its insertion.
          if (row === undefined) return { type: 'running', retryAfterSeconds: 1 }
          const lock: IdempotencyLock = {
            accountUuid: wanted.owner.accountUuid,
            mode: wanted.owner.mode,
            key: wanted.key,
            token,
          }
          if (row.acquired) {
            const [remembered] = row.message_ids ?? []
            const messageId = remembered === undefined ? wanted.messageId : encodeId('msg', remembered)
            return { type: 'first', lock, messageId }
          }
          if (!row.fingerprint.equals(wanted.fingerprint)) return { type: 'reused' }
          if (row.status === null || row.answer === null) {
            return { type: 'running', retryAfterSeconds: retryAfterOf(row.lease_left ?? 0) }
          }
          const body = yield* masterKey
            .decrypt('idempotent-answer', answerAad(lock), row.answer)
            // A wrong master key: a fault of the deployment, which its repair ends.
            .pipe(
              Effect.mapError(
                () => new StorageUnavailable({ reason: 'failed', detail: 'unreadable answer' }),
              ),
            )
          const { 'content-type': contentType = 'application/json', ...headers } = row.headers ?? {}
          return { type: 'replay', answer: { status: row.status, contentType, headers, body } }
        }),

        store: (lock, answer) =>
          Effect.asVoid(sql.run((q) => writeAnswers(q, masterKey, [{ lock, answer }]), DEADLINE)),

        release: ({ accountUuid, key, mode, token }) =>
          sql.run(async (q) => {
            const freed = await q`
            UPDATE command.idempotency_keys SET lease_token = NULL, lease_until = NULL
             WHERE account = ${accountUuid} AND mode = ${mode} AND key = ${key} AND lease_token = ${token}
               AND status IS NULL`
            return freed.count > 0
          }, DEADLINE),
      }
    }),
  )
