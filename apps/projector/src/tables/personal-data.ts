/** `read.personal_data`: the encrypted number and text of each message, for one year. */
import { type MessageAccepted, toTimestamp } from '@hub/domain'
import { CommandErasures, type Queries, sqlArray, sqlBytesArray } from '@hub/store'
import type { EncryptedPersonalData } from '../messages/personal-data.ts'
import { messageUuid } from './read-schema.ts'

interface PersonalDataRow {
  readonly fact: MessageAccepted
  readonly data: EncryptedPersonalData
}

/** The rows of the messages that have data. `encrypted`: by message id. */
export const personalDataRows = (
  facts: ReadonlyArray<MessageAccepted>,
  encrypted: ReadonlyMap<string, EncryptedPersonalData>,
): ReadonlyArray<PersonalDataRow> =>
  facts.flatMap((fact) => {
    const data = encrypted.get(fact.messageId)
    return data === undefined ? [] : [{ fact, data }]
  })

/** Writes new rows, except those that an erasure includes (docs/decisions/erasure.md). */
export const writePersonalData = (q: Queries, rows: ReadonlyArray<PersonalDataRow>) => q`
  INSERT INTO read.personal_data (message_id, recipient, created_at, sealing_key, sealed)
  SELECT id, recipient::bytea, created_at, sealing_key, sealed::bytea
    FROM unnest(${sqlArray(rows.map(({ fact }) => messageUuid(fact.messageId)))}::uuid[],
                ${sqlBytesArray(rows.map(({ fact }) => fact.recipient))}::text[],
                ${sqlArray(rows.map(({ fact }) => toTimestamp(fact.at)))}::timestamptz[],
                ${rows.map(({ data }) => data.keyId)}::text[],
                ${sqlBytesArray(rows.map(({ data }) => data.ciphertext.toString('hex')))}::text[])
      AS p (id, recipient, created_at, sealing_key, sealed)
   WHERE NOT ${CommandErasures.isErased(q, 'p.recipient', 'p.created_at')}
  ON CONFLICT DO NOTHING`

/** The messages that have no row. */
export const withoutPersonalData = async (
  q: Queries,
  facts: ReadonlyArray<MessageAccepted>,
): Promise<ReadonlyArray<MessageAccepted>> => {
  const ids = facts.map(({ messageId }) => messageUuid(messageId))
  const rows = await q<{ id: string }[]>`
    SELECT w.id FROM unnest(${ids}::uuid[]) AS w (id)
      LEFT JOIN LATERAL (SELECT 1 AS one FROM read.personal_data WHERE message_id = w.id LIMIT 1) AS p ON true
     WHERE p.one IS NULL`
  const missing = new Set(rows.map(({ id }) => id))
  return facts.filter((_, index) => missing.has(ids[index] ?? ''))
}
