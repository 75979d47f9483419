/**
 * After a change of the master key: what is encrypted at rest is opened with the key it is under and sealed with the current
 * one, in small steps, while everything else goes on. Source: specification, Webhook endpoint (secret).
 */
import { Effect } from 'effect'
import { Sql, type StorageError } from './sql.ts'
import { type Purpose, Vault } from './vault.ts'

/** A column of boxes. */
export interface BoxColumn {
  readonly table: string
  readonly column: string
  /** The one column that names a row, and its type. */
  readonly key: string
  readonly keyType: 'uuid' | 'text'
  readonly purpose: Purpose
  /** What a box is bound to, by the key of its row as text. */
  readonly aad: (key: string) => string
  /** A column that is set where the box is under a key of its own, not under the master key. */
  readonly unless?: string
}

export interface Resealed {
  /** Boxes that are under the current key now and were not before. */
  readonly resealed: number
  /** Boxes that no key opens. */
  readonly unreadable: number
}

/** Rows looked at in one step: some milliseconds. */
const ROWS_A_STEP = 1000
/** Between two steps, so that the work of the hub goes first. */
const STEP_PAUSE = '20 millis'
const DEADLINE = { deadline: '8 seconds' } as const

interface BoxRow {
  readonly key: string
  /** `null`: it is under the current key, or there is none. */
  readonly box: Buffer | null
}

/** Goes through a column once. Safe to repeat, to interrupt, and to run in several processes at once. */
export const resealBoxes = Effect.fnUntraced(function* ({
  aad,
  column,
  key,
  keyType,
  purpose,
  table,
  unless,
}: BoxColumn): Effect.fn.Return<Resealed, StorageError, Sql | Vault> {
  const sql = yield* Sql
  const vault = yield* Vault
  let resealed = 0
  let unreadable = 0
  let after: string | null = null
  for (;;) {
    const rows: ReadonlyArray<BoxRow> = yield* sql.run((q) => {
      const behind = after === null ? q`` : q`WHERE ${q(key)} > ${after}::${q.unsafe(keyType)}`
      const ours = unless === undefined ? q`` : q`${q(unless)} IS NULL AND`
      return q<BoxRow[]>`
        SELECT ${q(key)}::text AS key,
               CASE WHEN ${ours} octet_length(${q(column)}) > 0 AND substring(${q(column)} FROM 1 FOR ${vault.prefix.length})
                         <> ${Buffer.from(vault.prefix)}::bytea THEN ${q(column)} END AS box
          FROM ${q(table)} ${behind} ORDER BY ${q(key)} LIMIT ${ROWS_A_STEP}`
    }, DEADLINE)
    const renewed: Array<{ readonly key: string; readonly old: string; readonly box: string }> = []
    for (const row of rows) {
      if (row.box === null) continue
      const plain = yield* Effect.orElseSucceed(vault.open(purpose, aad(row.key), row.box), () => null)
      if (plain === null) unreadable++
      else {
        renewed.push({
          key: row.key,
          old: row.box.toString('hex'),
          box: vault.seal(purpose, aad(row.key), plain).toString('hex'),
        })
      }
    }
    if (renewed.length > 0) {
      // Only over what was read: a box that somebody has replaced meanwhile is under the current key already.
      resealed += yield* sql.run(async (q) => {
        const done = await q`
          UPDATE ${q(table)} AS t SET ${q(column)} = decode(n.box, 'hex')
            FROM unnest(${renewed.map((one) => one.key)}::text[], ${renewed.map((one) => one.old)}::text[],
                        ${renewed.map((one) => one.box)}::text[]) AS n (key, old, box)
           WHERE t.${q(key)} = n.key::${q.unsafe(keyType)} AND t.${q(column)} = decode(n.old, 'hex')`
        return done.count
      }, DEADLINE)
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < ROWS_A_STEP) return { resealed, unreadable }
    after = last.key
    yield* Effect.sleep(STEP_PAUSE)
  }
})
