/**
 * Re-encryption after a change of the master key, or of its version: puts the values of a column under the
 * current key. It works in small steps while the hub runs. Source: SUB-3, IDEM-9.
 */
import { encodeId } from '@hub/domain'
import { Effect } from 'effect'
import type { EncryptionPurpose } from './key-providers/key-provider.port.ts'
import { MasterKeyEncryption } from './master-key-encryption.ts'
import { Sql, type StorageError } from './sql.ts'

/** A column that contains ciphertexts. */
export interface EncryptedColumn {
  readonly table: string
  readonly column: string
  /** The column that identifies a row, and its type. */
  readonly key: string
  readonly keyType: 'uuid' | 'text'
  readonly purpose: EncryptionPurpose
  /** The additional data of a ciphertext, from the key of its row as text. */
  readonly aad: (key: string) => string
  /** A column that is not null where the value is under a payload key. */
  readonly payloadKeyColumn?: string
}

const uuidKey = { key: 'id', keyType: 'uuid' } as const
const ofSubscription = {
  ...uuidKey,
  table: 'webhooks.endpoints',
  aad: (uuid: string) => encodeId('we', uuid),
} as const

/**
 * All columns that the master key encrypts, except the stored responses of idempotent requests. They
 * expire after a day, and new ones use the current key.
 */
export const ENCRYPTED_COLUMNS: ReadonlyArray<EncryptedColumn> = [
  { ...ofSubscription, column: 'secret', purpose: 'webhook-secret' },
  { ...ofSubscription, column: 'previous_secret', purpose: 'webhook-secret' },
  { ...ofSubscription, column: 'older_secret', purpose: 'webhook-secret' },
  { ...ofSubscription, column: 'headers', purpose: 'webhook-headers' },
  { ...ofSubscription, column: 'client_certificate', purpose: 'webhook-client-certificate' },
  {
    table: 'command.sealing_keys',
    column: 'wrapped',
    key: 'id',
    keyType: 'text',
    purpose: 'sealing-key',
    aad: (id) => id,
  },
  {
    table: 'read.personal_data',
    column: 'sealed',
    key: 'message_id',
    keyType: 'uuid',
    purpose: 'personal-data',
    aad: (uuid) => encodeId('msg', uuid),
    payloadKeyColumn: 'sealing_key',
  },
]

export interface Reencrypted {
  /** Values that this pass re-encrypted under the current key. */
  readonly reencrypted: number
  /** Values that no configured key decrypts. */
  readonly unreadable: number
}

/** Rows of one step. A step takes some milliseconds. */
const ROWS_PER_STEP = 1000
/** The pause after a step, so that requests have priority. */
const STEP_PAUSE = '20 millis'
const DEADLINE = { deadline: '8 seconds' } as const

interface Row {
  readonly key: string
  /** `null` where the row has no value, or one under the current key. */
  readonly ciphertext: Buffer | null
}

/** Passes through a column once. Safe to repeat, to interrupt and to run concurrently. */
export const reencryptColumn = Effect.fnUntraced(function* ({
  aad,
  column,
  key,
  keyType,
  payloadKeyColumn,
  purpose,
  table,
}: EncryptedColumn): Effect.fn.Return<Reencrypted, StorageError, Sql | MasterKeyEncryption> {
  const sql = yield* Sql
  const masterKey = yield* MasterKeyEncryption
  const prefix = yield* masterKey.currentPrefix
  let reencrypted = 0
  let unreadable = 0
  let after: string | null = null
  for (;;) {
    const rows: ReadonlyArray<Row> = yield* sql.run((q) => {
      const range = after === null ? q`` : q`WHERE ${q(key)} > ${after}::${q.unsafe(keyType)}`
      const underMasterKey = payloadKeyColumn === undefined ? q`` : q`${q(payloadKeyColumn)} IS NULL AND`
      return q<Row[]>`
        SELECT ${q(key)}::text AS key,
               CASE WHEN ${underMasterKey} octet_length(${q(column)}) > 0
                         AND substring(${q(column)} FROM 1 FOR ${prefix.length}) <> ${prefix}::bytea
                    THEN ${q(column)} END AS ciphertext
          FROM ${q(table)} ${range} ORDER BY ${q(key)} LIMIT ${ROWS_PER_STEP}`
    }, DEADLINE)
    const changes: Array<{ readonly key: string; readonly before: string; readonly after: string }> = []
    const old = rows.flatMap((row) =>
      row.ciphertext === null ? [] : [{ key: row.key, aad: aad(row.key), bytes: row.ciphertext }],
    )
    const renewed = yield* masterKey.reencrypt(purpose, old)
    for (const [index, { bytes, key: rowKey }] of old.entries()) {
      const ciphertext = renewed[index] ?? null
      if (ciphertext === null) unreadable++
      else changes.push({ key: rowKey, before: bytes.toString('hex'), after: ciphertext.toString('hex') })
    }
    if (changes.length > 0) {
      // Only values that are still as read: a newer one is under the current key.
      reencrypted += yield* sql.run(async (q) => {
        const updated = await q`
          UPDATE ${q(table)} AS t SET ${q(column)} = decode(n.after, 'hex')
            FROM unnest(${changes.map((change) => change.key)}::text[],
                        ${changes.map((change) => change.before)}::text[],
                        ${changes.map((change) => change.after)}::text[]) AS n (key, before, after)
           WHERE t.${q(key)} = n.key::${q.unsafe(keyType)} AND t.${q(column)} = decode(n.before, 'hex')`
        return updated.count
      }, DEADLINE)
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < ROWS_PER_STEP) return { reencrypted, unreadable }
    after = last.key
    yield* Effect.sleep(STEP_PAUSE)
  }
})
