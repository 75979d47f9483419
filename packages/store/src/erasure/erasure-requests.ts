/**
 * `command.erasure_requests`: erasures by two persons. One requests the erasure of a recipient, and
 * another one confirms it. The confirmation records the erasure in the same transaction. See
 * docs/decisions/persons.md#erasures-by-two-persons.
 */
import { randomUUID } from 'node:crypto'
import { Clock, Effect } from 'effect'
import { epochMs, type Queries, Sql, type StorageError } from '../sql.ts'
import {
  CONFIRMED_WITHIN_SECONDS,
  confirmationRefusal,
  type ConfirmationRefused,
  type Person,
} from '../second-person.ts'
import { continueErasure, type Erasure, readErasures, recordErasure } from './erasure.ts'

/** Times in milliseconds since the epoch. */
export interface ErasureRequest {
  /** UUID. */
  readonly id: string
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  readonly requestedBy: string
  /** `null`: an earlier version recorded the request. */
  readonly requestedById: string | null
  readonly reason: string | null
  readonly requestedAt: number
  readonly expiresAt: number
  readonly confirmedBy: string | null
  readonly confirmedAt: number | null
  /** The id of the receipt; `null`: not confirmed. */
  readonly erasure: string | null
}

const columns = (q: Queries) => q`
  id, encode(recipient, 'hex') AS recipient, requested_by AS "requestedBy", requested_by_id AS "requestedById", reason,
  ${epochMs(q, 'requested_at')} AS "requestedAt", ${epochMs(q, 'expires_at')} AS "expiresAt",
  confirmed_by AS "confirmedBy", ${epochMs(q, 'confirmed_at')} AS "confirmedAt", erasure`

/**
 * Requests an erasure by recipient hash. An open request for the recipient stays as it is, and is
 * returned, unless nobody can confirm it.
 */
export const requestErasure = Effect.fn('requestErasure')(function* (
  recipient: string,
  requestedBy: Person,
  reason: string | null,
): Effect.fn.Return<ErasureRequest, StorageError, Sql> {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  const hash = Buffer.from(recipient, 'hex')
  const found = yield* sql.transaction(async (q): Promise<ErasureRequest | undefined> => {
    await q`
      DELETE FROM command.erasure_requests
       WHERE recipient = ${hash} AND confirmed_at IS NULL
         AND (expires_at <= ${new Date(now)} OR requested_by_id IS NULL)`
    await q`
      INSERT INTO command.erasure_requests
        (id, recipient, requested_by, requested_by_id, reason, requested_at, expires_at)
      VALUES (${randomUUID()}, ${hash}, ${requestedBy.name}, ${requestedBy.id}, ${reason}, ${new Date(now)},
              ${new Date(now + 1000 * CONFIRMED_WITHIN_SECONDS)})
      ON CONFLICT (recipient) WHERE confirmed_at IS NULL DO NOTHING`
    const [row] = await q<ErasureRequest[]>`
      SELECT ${columns(q)} FROM command.erasure_requests WHERE recipient = ${hash} AND confirmed_at IS NULL`
    return row
  })
  return found ?? (yield* Effect.die('An erasure request has no row: was it confirmed meanwhile?'))
})

/** Why an erasure is not confirmed. `unknown`: there is no such request. */
export type ErasureConfirmationRefused = ConfirmationRefused | 'unknown'

interface Confirmed {
  readonly request: ErasureRequest
  readonly receipt: Erasure
}

/** Confirms a request as another person, and erases the recipient. */
export const confirmErasure = Effect.fn('confirmErasure')(function* (
  id: string,
  confirmedBy: Person,
): Effect.fn.Return<Confirmed | ErasureConfirmationRefused, StorageError, Sql> {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  const outcome = yield* sql.transaction(async (q): Promise<ErasureRequest | ErasureConfirmationRefused> => {
    const [row] = await q<ErasureRequest[]>`
      SELECT ${columns(q)} FROM command.erasure_requests WHERE id = ${id} FOR UPDATE`
    if (row === undefined) return 'unknown'
    const request = {
      isConfirmed: row.confirmedAt !== null,
      isExpired: row.expiresAt <= now,
      requestedBy: { id: row.requestedById, name: row.requestedBy },
    }
    const refusal = confirmationRefusal(request, confirmedBy)
    if (refusal !== null) return refusal
    const erasure = await recordErasure(q, row.recipient, now)
    const [confirmed] = await q<ErasureRequest[]>`
      UPDATE command.erasure_requests
         SET confirmed_by = ${confirmedBy.name}, confirmed_by_id = ${confirmedBy.id}, confirmed_at = ${new Date(now)},
             erasure = ${erasure}
       WHERE id = ${id} RETURNING ${columns(q)}`
    return confirmed ?? 'unknown'
  })
  if (typeof outcome === 'string') return outcome
  // After a crash here, the retention job continues the recorded erasure.
  yield* continueErasure(outcome.recipient)
  const receipt = (yield* readErasures(outcome.recipient)).find((one) => one.id === outcome.erasure)
  return receipt === undefined
    ? yield* Effect.die('A confirmed erasure has no row in command.erasures.')
    : { request: outcome, receipt }
})

/** The sort key of a page: time of the request, and UUID. */
interface PagePosition {
  readonly requestedAt: number
  readonly id: string
}

/** The newest requests, behind a position. `open`: only those that can be confirmed. */
export const readErasureRequests = Effect.fn('readErasureRequests')(function* (filter: {
  readonly open: boolean
  readonly after: PagePosition | null
  readonly limit: number
}): Effect.fn.Return<ReadonlyArray<ErasureRequest>, StorageError, Sql> {
  const sql = yield* Sql
  const { after, limit, open } = filter
  return yield* sql.run(
    (q) => q<ErasureRequest[]>`
      SELECT ${columns(q)} FROM command.erasure_requests
       WHERE true
         ${open ? q`AND confirmed_at IS NULL AND expires_at > now() AND requested_by_id IS NOT NULL` : q``}
         ${after === null ? q`` : q`AND (requested_at, id) < (${new Date(after.requestedAt)}, ${after.id})`}
       ORDER BY requested_at DESC, id DESC LIMIT ${limit}`,
  )
})
