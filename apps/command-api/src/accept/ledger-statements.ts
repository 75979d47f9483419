/**
 * The statements of a flush. Whatever several transactions write comes in one order within a statement, and the
 * statements in one order of tables: idempotency keys, months of accounts with a limit, references, the rest, months of accounts
 * without one. So transactions wait for each other in one direction only.
 */
import { addMoney, CURRENCY, encodeId, type Mode, type Money, spendPeriodOf } from '@hub/domain'
import { type Queries, uuidOf } from '@hub/store'
import { refKey } from './decide.ts'
import type { BatchRow, LedgerEntry, Reference, UnprovenCode } from './ledger.ts'
import { type Charge, periodKey } from './spend.ts'

/** PostgreSQL's clock, and those of the references that are used: one round trip, since each flush begins with it. */
export const selectClockAndUsed = (q: Queries, references: ReadonlyArray<Reference>) => q<
  {
    at: string
    used: ReadonlyArray<{ account: string; mode: Mode; client_ref: string; message_id: string }>
  }[]
>`
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at,
         (SELECT coalesce(json_agg(r), '[]')
            FROM unnest(${references.map(({ owner }) => owner.accountUuid)}::uuid[],
                        ${references.map(({ owner }) => owner.mode)}::text[],
                        ${references.map(({ clientRef }) => clientRef)}::text[]) AS asked (account, mode, client_ref)
           CROSS JOIN LATERAL (
                 SELECT c.account, c.mode, c.client_ref, c.message_id FROM command.client_refs c
                  WHERE c.account = asked.account AND c.mode = asked.mode::command.mode AND c.client_ref = asked.client_ref
                  LIMIT 1) AS r) AS used`

/**
 * Takes the references. Whoever finds one taken by a transaction that is still open waits for its end, so rows are sorted: two
 * flushes that meet on several references then wait for each other in one direction only.
 */
export const insertReferences = (q: Queries, entries: ReadonlyArray<LedgerEntry>) => {
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
const columns = (entries: ReadonlyArray<LedgerEntry>) => ({
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

export const insertAcceptances = (q: Queries, entries: ReadonlyArray<LedgerEntry>) => {
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

/** A code accepted anew under its old id: what was not accepted before has the stamps, and the batch, of now. */
export const updateAcceptances = (q: Queries, entries: ReadonlyArray<LedgerEntry>) => {
  const c = columns(entries)
  return q`
    UPDATE command.acceptances a
       SET given_back = false, batch_id = new.batch, template = new.template, sender = new.sender, parts = new.parts, price = new.price, currency = new.currency,
           variables = string_to_array(new.variables, ','),
           created_at = timestamptz 'epoch' + at * interval '1 millisecond',
           expires_at = timestamptz 'epoch' + ends * interval '1 millisecond'
      FROM unnest(${c.ids}::uuid[], ${c.templates}::text[], ${c.senders}::text[], ${c.parts}::smallint[], ${c.prices}::numeric[],
                  ${c.currencies}::text[], ${c.variables}::text[], ${c.ats}::bigint[], ${c.ends}::bigint[], ${c.batches}::uuid[])
           AS new (id, template, sender, parts, price, currency, variables, at, ends, batch)
     WHERE a.message_id = new.id`
}

export const deleteOutbox = (q: Queries, rows: ReadonlyArray<number>) =>
  q`DELETE FROM command.outbox WHERE id = ANY (${rows.map(String)}::bigint[])`

export const insertOutbox = (q: Queries, records: Uint8Array) =>
  q<{ id: string }[]>`INSERT INTO command.outbox (records) VALUES (${records}) RETURNING id`

/** What one statement records. The arrays may be empty. */
export interface OneStatement {
  readonly entries: ReadonlyArray<LedgerEntry>
  readonly outbox: Uint8Array | null
  readonly batches: ReadonlyArray<BatchRow>
  readonly settled: ReadonlyArray<number>
  readonly charges: ReadonlyArray<Charge>
}

/**
 * Records a flush by one statement, which is a transaction of its own: all references are taken, or everything is undone as a conflict.
 * The references come first, since the others wait for the condition that counts them.
 */
export const insertInOneStatement = (
  q: Queries,
  { batches, charges, entries, outbox, settled }: OneStatement,
) => {
  const nothing = q`SELECT WHERE false`
  const referring = entries.filter(({ fact }) => fact.clientRef !== null)
  return q<{ id: string | null }[]>`
    WITH taken AS (${referring.length > 0 ? insertReferences(q, referring) : nothing}),
         stored AS (${outbox === null ? q`SELECT NULL::bigint AS id` : insertOutbox(q, outbox)}),
         accepted AS (${entries.length > 0 ? insertAcceptances(q, entries) : nothing}),
         batched AS (${batches.length > 0 ? writeBatches(q, batches) : nothing}),
         settled AS (${settled.length > 0 ? deleteOutbox(q, settled) : nothing}),
         charged AS (${charges.length > 0 ? addSpent(q, charges) : nothing})
    SELECT id FROM stored WHERE command.require((SELECT count(*) FROM taken) = ${String(referring.length)}::bigint)`
}

// ---------------------------------------------------------------------------------------------------------
// Money
// ---------------------------------------------------------------------------------------------------------

/** What these acceptances charge. Test mode costs nothing. */
export const chargesOf = (entries: ReadonlyArray<LedgerEntry>): ReadonlyArray<Charge> =>
  entries
    .filter(({ owner }) => owner.mode === 'live')
    .map(({ fact, owner, spendLimit }) => ({
      messageId: fact.messageId,
      accountUuid: owner.accountUuid,
      period: spendPeriodOf(fact.at).day,
      price: fact.price,
      limit: spendLimit,
    }))

/** What the months of these charges have cost so far, by `periodKey`. The rows stay locked. */
export const lockSpent = async (
  q: Queries,
  charges: ReadonlyArray<Charge>,
): Promise<ReadonlyMap<string, Money>> => {
  const months = [...new Map(charges.map((charge) => [periodKey(charge), charge])).values()]
  const accounts = months.map(({ accountUuid }) => accountUuid)
  const periods = months.map(({ period }) => period)
  const [, rows] = await Promise.all([
    q`INSERT INTO command.spend_periods (account, period)
      SELECT * FROM unnest(${accounts}::uuid[], ${periods}::date[]) AS m (account, period) ORDER BY account, period
      ON CONFLICT DO NOTHING`,
    q<{ account: string; period: string; spent: string }[]>`
      SELECT account, period::text, spent::text FROM command.spend_periods
       WHERE (account, period) IN (SELECT * FROM unnest(${accounts}::uuid[], ${periods}::date[]))
       ORDER BY account, period FOR UPDATE`,
  ])
  return new Map(
    rows.map(({ account, period, spent }) => [
      periodKey({ accountUuid: account, period }),
      { amount: spent, currency: CURRENCY },
    ]),
  )
}

/** Adds charges to their months. */
export const addSpent = (q: Queries, charges: ReadonlyArray<Charge>) => {
  const sums = new Map<string, { readonly charge: Charge; readonly sum: Money }>()
  for (const charge of charges) {
    const key = periodKey(charge)
    const before = sums.get(key)
    sums.set(key, {
      charge,
      sum: before === undefined ? charge.price : addMoney(before.sum, charge.price),
    })
  }
  const months = [...sums.values()]
  return q`
    INSERT INTO command.spend_periods AS p (account, period, spent)
    SELECT account, period, amount
      FROM unnest(${months.map(({ charge }) => charge.accountUuid)}::uuid[],
                  ${months.map(({ charge }) => charge.period)}::date[],
                  ${months.map(({ sum }) => sum.amount)}::numeric[]) AS m (account, period, amount)
     ORDER BY account, period
    ON CONFLICT (account, period) DO UPDATE SET spent = p.spent + excluded.spent`
}

/**
 * Whether an acceptance `a` is of a code that Kafka has acknowledged, for its batch is sealed: a process seals a batch when all of its codes
 * are acknowledged or given back. The sweeper seals one also with codes that were never published, but only when their time is over.
 */
export const isAcknowledged = (q: Queries) => q`
  (a.class = 'otp' AND NOT a.given_back AND a.expires_at > now()
   AND EXISTS (SELECT 1 FROM command.batches b WHERE b.id = a.batch_id AND b.sealed_at IS NOT NULL))`

/** Holds the batches of messages as they are: whoever seals one of them waits, or is waited for. */
export const lockBatchesOf = (q: Queries, messageIds: ReadonlyArray<string>) => q`
  SELECT 1 FROM command.batches
   WHERE id IN (SELECT batch_id FROM command.acceptances WHERE message_id = ANY (${messageIds.map((id) => uuidOf('msg', id))}::uuid[]))
   ORDER BY id FOR SHARE`

/** Holds a batch (`bat_…`) that is to be sealed. */
export const lockBatch = (q: Queries, batch: string) =>
  q`SELECT 1 FROM command.batches WHERE id = ${uuidOf('bat', batch)} FOR UPDATE`

/** How many codes of a batch (`bat_…`) are accepted, as far as the ledger knows. */
export const countCodes = async (q: Queries, batch: string): Promise<number> => {
  const [row] = await q<[{ codes: number }]>`
    SELECT count(*)::integer AS codes FROM command.acceptances
     WHERE batch_id = ${uuidOf('bat', batch)} AND class = 'otp' AND NOT given_back`
  return row.codes
}

/**
 * Gives the price of unproven codes back, once each, and marks them as not accepted. With a stamp, only if the row still
 * has it: a repeat that has accepted the code anew meanwhile has charged anew. What is in the read model, or in a sealed batch, was
 * published after all.
 */
export const giveBack = (q: Queries, codes: ReadonlyArray<UnprovenCode>) => q`
  WITH undone AS (
    UPDATE command.acceptances a SET given_back = true
      FROM unnest(${codes.map(({ messageId }) => uuidOf('msg', messageId))}::uuid[],
                  ${codes.map(({ at }) => (at === null ? null : String(at)))}::bigint[]) AS code (id, at)
     WHERE a.message_id = code.id AND a.class = 'otp' AND NOT a.given_back
       AND (code.at IS NULL OR a.created_at = timestamptz 'epoch' + code.at * interval '1 millisecond')
       AND NOT coalesce((SELECT m.account IS NOT NULL FROM read.messages m WHERE m.id = a.message_id), false)
       AND NOT ${isAcknowledged(q)}
    RETURNING a.account, a.mode, a.created_at, a.price),
  months AS (
    SELECT account, date_trunc('month', created_at AT TIME ZONE 'UTC')::date AS period, sum(price) AS amount
      FROM undone WHERE mode = 'live' GROUP BY 1, 2)
  UPDATE command.spend_periods p SET spent = p.spent - months.amount
    FROM months WHERE p.account = months.account AND p.period = months.period`

/** Those of these messages whose price has been given back, by id. The others are paid for. */
export const selectGivenBack = async (
  q: Queries,
  messageIds: ReadonlyArray<string>,
): Promise<ReadonlySet<string>> => {
  const rows = await q<{ message_id: string }[]>`
    SELECT message_id FROM command.acceptances
     WHERE message_id = ANY (${messageIds.map((id) => uuidOf('msg', id))}::uuid[]) AND given_back`
  return new Set(rows.map((row) => encodeId('msg', row.message_id)))
}

// ---------------------------------------------------------------------------------------------------------
// Batches
// ---------------------------------------------------------------------------------------------------------

/**
 * Writes batches. A sealed one stays as it is. Answers the ids (UUIDs) that were written.
 */
export const writeBatches = (q: Queries, batches: ReadonlyArray<BatchRow>) => q<{ id: string }[]>`
  INSERT INTO command.batches AS b (id, account, mode, total, accepted, duplicate, rejected, created_at, sealed_at)
  SELECT id, account, mode::command.mode, total, accepted, duplicate, rejected,
         timestamptz 'epoch' + created * interval '1 millisecond', timestamptz 'epoch' + sealed * interval '1 millisecond'
    FROM unnest(${batches.map(({ id }) => uuidOf('bat', id))}::uuid[], ${batches.map(({ owner }) => owner.accountUuid)}::uuid[],
                ${batches.map(({ owner }) => owner.mode)}::text[], ${batches.map(({ total }) => String(total))}::integer[],
                ${batches.map(({ accepted }) => String(accepted))}::integer[],
                ${batches.map(({ duplicate }) => String(duplicate))}::integer[],
                ${batches.map(({ rejected }) => String(rejected))}::integer[],
                ${batches.map(({ createdAt }) => String(createdAt))}::bigint[],
                ${batches.map(({ sealedAt }) => (sealedAt === null ? null : String(sealedAt)))}::bigint[])
         AS new (id, account, mode, total, accepted, duplicate, rejected, created, sealed)
   ORDER BY id
  ON CONFLICT (id) DO UPDATE
     SET accepted = excluded.accepted, duplicate = excluded.duplicate, rejected = excluded.rejected,
         sealed_at = excluded.sealed_at
   WHERE b.sealed_at IS NULL
  RETURNING id`
