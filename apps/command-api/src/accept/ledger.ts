/**
 * The ledger: what was accepted, and the guard that makes a repeat a repeat. The port that a flush works on, and its
 * adapter for PostgreSQL.
 */
import { decodeId, encodeId, type MessageAccepted, type Mode } from '@hub/domain'
import { type Queries, Sql, type StorageError } from '@hub/store'
import { Context, Duration, Effect, Layer } from 'effect'
import type { Owner } from '../accounts/account.ts'
import { Messages } from '../messages/store.ts'
import { type KnownMessage, refKey } from './decide.ts'

/** A `client_ref` asked for. */
export interface Reference {
  readonly owner: Owner
  readonly clientRef: string
}

/** What a flush has to know before it decides. */
export interface Found {
  /** PostgreSQL's clock, milliseconds since the epoch: the flush's stamp. */
  readonly at: number
  /** Used references by `refKey`; unknown ones are absent. */
  readonly known: ReadonlyMap<string, KnownMessage | null>
  /** Those of the recipients asked for that have opted out. */
  readonly optedOut: ReadonlySet<string>
}

/** One row to be. */
export interface Entry {
  readonly owner: Owner
  readonly fact: MessageAccepted
  readonly toMasked: string
}

/** One transaction's worth. */
export interface Commit {
  readonly accepted: ReadonlyArray<Entry>
  /** Codes to be published again: their rows get the new stamp, lifetime and template. */
  readonly republished: ReadonlyArray<Entry>
  /**
   * The outbox row for the `service` messages among those that won their references; `null` when it would be empty. Called
   * within the transaction.
   */
  readonly outbox: (lost: ReadonlySet<string>) => Uint8Array | null
  /** Outbox rows that the bus has acknowledged. */
  readonly settled: ReadonlyArray<number>
}

export interface Committed {
  /** Message ids whose `client_ref` another process took between lookup and commit. Nothing was written for them. */
  readonly lost: ReadonlySet<string>
  /** Id of the outbox row. */
  readonly outboxRow: number | null
}

export class Ledger extends Context.Service<
  Ledger,
  {
    readonly lookup: (
      references: ReadonlyArray<Reference>,
      recipients: ReadonlyArray<string>,
    ) => Effect.Effect<Found, StorageError>
    /** All or nothing. After `StorageUnavailable` it may have happened all the same. */
    readonly commit: (commit: Commit) => Effect.Effect<Committed, StorageError>
    /** Removes acknowledged outbox rows. */
    readonly settle: (rows: ReadonlyArray<number>) => Effect.Effect<void, StorageError>
  }
>()('@hub/command-api/Ledger') {}

/**
 * What a flush may wait for PostgreSQL, a lookup and a commit each. A send that arrives just after a flush began meets a
 * hanging server twice at most, and is still answered within the 3 s that the contract gives.
 */
const DEADLINE = { deadline: Duration.millis(1200) }

const uuidOf = (prefix: 'msg' | 'bat', id: string): string => {
  const uuid = decodeId(prefix, id)
  if (uuid === null) throw new RangeError(`not an id of kind ${prefix}`)
  return uuid
}

const selectReferences = (q: Queries, references: ReadonlyArray<Reference>) => q<
  { account: string; mode: Mode; client_ref: string; message_id: string }[]
>`
  SELECT r.account, r.mode, r.client_ref, r.message_id
    FROM unnest(${references.map(({ owner }) => owner.accountUuid)}::uuid[],
                ${references.map(({ owner }) => owner.mode)}::text[],
                ${references.map(({ clientRef }) => clientRef)}::text[]) AS asked (account, mode, client_ref)
    JOIN command.client_refs r
      ON r.account = asked.account AND r.mode = asked.mode::command.mode AND r.client_ref = asked.client_ref`

/**
 * Takes the references. Whoever finds one taken by a transaction that is still open waits for its end, so rows are sorted: two
 * flushes that meet on several references then wait for each other in one direction only.
 */
const insertReferences = (q: Queries, entries: ReadonlyArray<Entry>) => {
  const sorted = entries.toSorted((a, b) => {
    const left = refKey(a.owner, a.fact.clientRef ?? '')
    const right = refKey(b.owner, b.fact.clientRef ?? '')
    return left < right ? -1 : left > right ? 1 : 0
  })
  return q<{ message_id: string }[]>`
    INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
    SELECT account, mode::command.mode, client_ref, message_id, timestamptz 'epoch' + at * interval '1 millisecond'
      FROM unnest(${sorted.map(({ owner }) => owner.accountUuid)}::uuid[],
                  ${sorted.map(({ owner }) => owner.mode)}::text[],
                  ${sorted.map(({ fact }) => fact.clientRef)}::text[],
                  ${sorted.map(({ fact }) => uuidOf('msg', fact.messageId))}::uuid[],
                  ${sorted.map(({ fact }) => String(fact.at))}::bigint[])
           AS new (account, mode, client_ref, message_id, at)
    ON CONFLICT DO NOTHING
    RETURNING message_id`
}

/** The columns of an acceptance as parallel arrays. Binary values go as hexadecimal text: the driver's arrays are of text. */
const columns = (entries: ReadonlyArray<Entry>) => ({
  ids: entries.map(({ fact }) => uuidOf('msg', fact.messageId)),
  accounts: entries.map(({ owner }) => owner.accountUuid),
  modes: entries.map(({ owner }) => owner.mode),
  classes: entries.map(({ fact }) => fact.class),
  recipients: entries.map(({ fact }) => fact.recipient),
  masks: entries.map(({ toMasked }) => toMasked),
  templates: entries.map(({ fact }) => fact.template),
  senders: entries.map(({ fact }) => fact.sender),
  references: entries.map(({ fact }) => fact.clientRef),
  batches: entries.map(({ fact }) => (fact.batch === null ? null : uuidOf('bat', fact.batch))),
  parts: entries.map(({ fact }) => String(fact.parts)),
  prices: entries.map(({ fact }) => fact.price.amount),
  currencies: entries.map(({ fact }) => fact.price.currency),
  // Names of placeholders hold no comma.
  variables: entries.map(({ fact }) => fact.variables.join(',')),
  ats: entries.map(({ fact }) => String(fact.at)),
  ends: entries.map(({ fact }) => String(fact.expiresAt)),
  // The text of a code is never stored, sealed or not.
  keys: entries.map(({ fact }) => (fact.class === 'service' ? fact.sealingKey : null)),
  payloads: entries.map(({ fact }) =>
    fact.class === 'service' ? Buffer.from(fact.sealed).toString('hex') : null,
  ),
})

const insertAcceptances = (q: Queries, entries: ReadonlyArray<Entry>) => {
  const c = columns(entries)
  return q`
    INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender, client_ref,
                                     batch_id, parts, price, currency, variables, created_at, expires_at, sealing_key, sealed)
    SELECT id, account, mode::command.mode, class::command.class, decode(recipient, 'hex'), mask, template, sender, reference,
           batch, parts, price, currency, string_to_array(variables, ','),
           timestamptz 'epoch' + at * interval '1 millisecond', timestamptz 'epoch' + ends * interval '1 millisecond',
           key, decode(payload, 'hex')
      FROM unnest(${c.ids}::uuid[], ${c.accounts}::uuid[], ${c.modes}::text[], ${c.classes}::text[], ${c.recipients}::text[],
                  ${c.masks}::text[], ${c.templates}::text[], ${c.senders}::text[], ${c.references}::text[],
                  ${c.batches}::uuid[], ${c.parts}::smallint[], ${c.prices}::numeric[], ${c.currencies}::text[],
                  ${c.variables}::text[], ${c.ats}::bigint[], ${c.ends}::bigint[], ${c.keys}::text[], ${c.payloads}::text[])
           AS new (id, account, mode, class, recipient, mask, template, sender, reference, batch, parts, price, currency,
                   variables, at, ends, key, payload)`
}

/** A code accepted anew under its old id: what was not accepted before has the stamps of now. */
const updateAcceptances = (q: Queries, entries: ReadonlyArray<Entry>) => {
  const c = columns(entries)
  return q`
    UPDATE command.acceptances a
       SET template = new.template, sender = new.sender, parts = new.parts, price = new.price, currency = new.currency,
           variables = string_to_array(new.variables, ','),
           created_at = timestamptz 'epoch' + at * interval '1 millisecond',
           expires_at = timestamptz 'epoch' + ends * interval '1 millisecond'
      FROM unnest(${c.ids}::uuid[], ${c.templates}::text[], ${c.senders}::text[], ${c.parts}::smallint[], ${c.prices}::numeric[],
                  ${c.currencies}::text[], ${c.variables}::text[], ${c.ats}::bigint[], ${c.ends}::bigint[])
           AS new (id, template, sender, parts, price, currency, variables, at, ends)
     WHERE a.message_id = new.id`
}

const deleteOutbox = (q: Queries, rows: ReadonlyArray<number>) =>
  q`DELETE FROM command.outbox WHERE id = ANY (${rows.map(String)}::bigint[])`

/** The ledger in PostgreSQL. */
export const ledgerLayer: Layer.Layer<Ledger, never, Sql | Messages> = Layer.effect(
  Ledger,
  Effect.gen(function* () {
    const sql = yield* Sql
    const messages = yield* Messages

    const clock = sql.run(async (q) => {
      const [row] = await q<{ at: string }[]>`
        SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at`
      return Number(row?.at)
    }, DEADLINE)

    const usedReferences = Effect.fnUntraced(function* (references: ReadonlyArray<Reference>) {
      const known = new Map<string, KnownMessage | null>()
      if (references.length === 0) return known
      const rows = yield* sql.run((q) => selectReferences(q, references), DEADLINE)
      const found = yield* messages.find(rows.map((row) => row.message_id))
      for (const row of rows) {
        const key = refKey({ account: encodeId('acc', row.account), mode: row.mode }, row.client_ref)
        known.set(key, found.get(encodeId('msg', row.message_id)) ?? null)
      }
      return known
    })

    const optedOut = Effect.fnUntraced(function* (recipients: ReadonlyArray<string>) {
      if (recipients.length === 0) return new Set<string>()
      const rows = yield* sql.run(
        (q) => q<{ recipient: string }[]>`
          SELECT encode(recipient, 'hex') AS recipient FROM command.opt_outs
           WHERE recipient IN (SELECT decode(r, 'hex') FROM unnest(${[...recipients]}::text[]) AS r)`,
        DEADLINE,
      )
      return new Set(rows.map((row) => row.recipient))
    })

    return {
      lookup: (references, recipients) =>
        Effect.map(
          Effect.all([clock, usedReferences(references), optedOut(recipients)], { concurrency: 'unbounded' }),
          ([at, known, out]) => ({ at, known, optedOut: out }),
        ),

      commit: ({ accepted, republished, outbox, settled }) =>
        sql.transaction(async (q) => {
          const referring = accepted.filter(({ fact }) => fact.clientRef !== null)
          const lost = new Set(referring.map(({ fact }) => fact.messageId))
          if (referring.length > 0) {
            for (const row of await insertReferences(q, referring))
              lost.delete(encodeId('msg', row.message_id))
          }
          const won = lost.size === 0 ? accepted : accepted.filter(({ fact }) => !lost.has(fact.messageId))
          const records = outbox(lost)
          // One round trip: the driver sends these one behind the other.
          const [row] = await Promise.all([
            records === null
              ? Promise.resolve(null)
              : q<{ id: string }[]>`INSERT INTO command.outbox (records) VALUES (${records}) RETURNING id`,
            won.length > 0 ? insertAcceptances(q, won) : null,
            republished.length > 0 ? updateAcceptances(q, republished) : null,
            settled.length > 0 ? deleteOutbox(q, settled) : null,
          ])
          const id = row?.[0]?.id
          return { lost, outboxRow: id === undefined ? null : Number(id) }
        }, DEADLINE),

      settle: (rows) => Effect.asVoid(sql.run((q) => deleteOutbox(q, rows))),
    }
  }),
)
