/**
 * The port of idempotency keys: the lock, the stored response, and the message id for a repeat.
 * Source: IDEM-3 to IDEM-16.
 */
import { createHash, randomUUID } from 'node:crypto'
import type { Mode } from '@hub/domain'
import type { StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'

/** A lock on an idempotency key. Only the holder of the token may store the response. */
export interface IdempotencyLock {
  readonly accountUuid: string
  readonly mode: Mode
  readonly key: string
  /** UUID, new for each acquisition. */
  readonly token: string
}

export interface StoredResponse {
  readonly status: number
  readonly contentType: string
  /** Headers of the response itself, such as `Retry-After`. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/** How long a request may hold the lock. Source: IDEM-14. */
export const LOCK_SECONDS = 60

/** Identifies a request: SHA-256 of method, path with query, and body. 32 bytes. */
export const fingerprintOf = (method: string, url: string, body: Uint8Array): Buffer =>
  createHash('sha256')
    .update(`${method} ${url}\n`)
    .update(createHash('sha256').update(body).digest())
    .digest()

export const newToken = (): string => randomUUID()

export type LockResult =
  /** The request must run. `messageId`: see `LockRequest`; a repeat gets that of its first try. */
  | { readonly type: 'first'; readonly lock: IdempotencyLock; readonly messageId: string }
  /** The response of the first request. */
  | { readonly type: 'replay'; readonly response: StoredResponse }
  /** The first request is still running. */
  | { readonly type: 'running'; readonly retryAfterSeconds: number }
  /** The key belongs to another request. */
  | { readonly type: 'reused' }

export interface LockRequest {
  readonly owner: Owner
  readonly key: string
  /** 32 bytes. */
  readonly fingerprint: Buffer
  /** `msg_…`: used unless an earlier try of the same request has left an id. */
  readonly messageId: string
}

export class IdempotencyKeys extends Context.Service<
  IdempotencyKeys,
  {
    /** Acquires the lock. After `StorageUnavailable` this may still succeed, even later. */
    readonly acquire: (wanted: LockRequest, token: string) => Effect.Effect<LockResult, StorageError>
    /** Stores the response if the lock is still held. Idempotent. */
    readonly store: (lock: IdempotencyLock, response: StoredResponse) => Effect.Effect<void, StorageError>
    /**
     * Releases the lock if it is still held and no response is stored. Returns whether it was.
     * Idempotent. The key still remembers its message id.
     */
    readonly release: (lock: IdempotencyLock) => Effect.Effect<boolean, StorageError>
  }
>()('@hub/command-api/IdempotencyKeys') {}
