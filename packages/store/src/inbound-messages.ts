/**
 * What hub staff may read of inbound messages. Number and text are stored for a year and shown for
 * 90 days. Afterwards they are masked. Source: docs/security.md, Retention.
 */
import { maskNumber } from '@hub/domain'
import { Clock, Effect } from 'effect'
import type { DecryptionFailed, PayloadKeyUnusable } from './key-providers/key-provider.port.ts'
import { decodePayload } from './message-payload.ts'
import { PayloadEncryption } from './payload-encryption.ts'
import { rawInboundCutoff } from './retention/periods.ts'
import { Sql, type StorageError } from './sql.ts'
import { readNewest } from './tables/command/inbound-messages.ts'

/** The additional data of the encrypted content of a message. */
export const storedInboundContext = (id: string): string => `stored-inbound:${id}`

/** A text that is no longer shown. */
const MASKED_TEXT = '***'

export interface InboundMessage {
  readonly id: string
  /** Recipient hash. */
  readonly recipient: string
  readonly operator: string
  readonly serviceAddress: string
  readonly receivedAt: number
  /** Empty when it is no longer stored. */
  readonly number: string
  /** `null` when it is no longer stored. */
  readonly text: string | null
  readonly isMasked: boolean
}

/** The newest inbound messages, of one recipient hash or of all (`null`). */
export const readInboundMessages = Effect.fn('readInboundMessages')(function* (
  recipient: string | null,
  limit: number,
): Effect.fn.Return<
  ReadonlyArray<InboundMessage>,
  StorageError | PayloadKeyUnusable | DecryptionFailed,
  Sql | PayloadEncryption
> {
  const sql = yield* Sql
  const encryption = yield* PayloadEncryption
  const now = yield* Clock.currentTimeMillis
  const rows = yield* sql.run((q) => readNewest(q, recipient, limit))
  return yield* Effect.forEach(
    rows,
    Effect.fnUntraced(function* (row) {
      const { id, operator } = row
      const receivedAt = row.received_at.getTime()
      const plain =
        row.sealed === null || row.sealing_key === null
          ? null
          : yield* encryption.decrypt(row.sealing_key, storedInboundContext(id), row.sealed)
      const content = plain === null ? null : decodePayload(plain)
      const isMasked = content !== null && receivedAt < rawInboundCutoff(now)
      return {
        id,
        recipient: row.recipient,
        operator,
        serviceAddress: row.service_address,
        receivedAt,
        number: content === null ? '' : isMasked ? maskNumber(content.to) : content.to,
        text: content?.text === undefined ? null : isMasked ? MASKED_TEXT : content.text,
        isMasked,
      }
    }),
  )
})
