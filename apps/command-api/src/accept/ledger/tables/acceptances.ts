/**
 * `command.acceptances`: the messages that the hub has accepted, in daily partitions. This file
 * contains the statements of acceptance batches. Other statements: `acceptances-counters.ts`,
 * `acceptances-reconciliation.ts` and `messages/acceptances.ts`.
 */
import { encodeId } from '@hub/domain'
import { type Queries, ReadMessages, uuidOf } from '@hub/store'
import { isAcknowledged } from '../../../messages/acceptances.ts'
import type { LedgerEntry, UnprovenCode } from '../ledger.port.ts'
import { subtractCharges } from './spend-periods.ts'

/** The columns as arrays. Binary values are hexadecimal, because the driver's arrays are text. */
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
  // Names of variables contain no comma.
  variables: entries.map(({ fact }) => fact.variables.join(',')),
  ats: entries.map(({ fact }) => String(fact.at)),
  ends: entries.map(({ fact }) => String(fact.expiresAt)),
  // The text of a code is never stored, not even encrypted.
  keys: entries.map(({ fact }) => (fact.class === 'service' ? fact.payloadKey : null)),
  payloads: entries.map(({ fact }) =>
    fact.class === 'service' ? Buffer.from(fact.ciphertext).toString('hex') : null,
  ),
})

export const insertAcceptances = (q: Queries, entries: ReadonlyArray<LedgerEntry>) => {
  const c = columns(entries)
  return q`
    INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender, client_ref,
                                     batch_id, parts, price, currency, variables, created_at, expires_at, sealing_key, sealed, unpublished)
    SELECT id, account, mode::command.mode, class::command.class, decode(recipient, 'hex'), mask, template, sender, reference,
           batch, parts, price, currency, string_to_array(variables, ','),
           timestamptz 'epoch' + at * interval '1 millisecond', timestamptz 'epoch' + ends * interval '1 millisecond',
           key, decode(payload, 'hex'), class = 'otp'
      FROM unnest(${c.ids}::uuid[], ${c.accounts}::uuid[], ${c.modes}::text[], ${c.classes}::text[], ${c.recipients}::text[],
                  ${c.masks}::text[], ${c.templates}::text[], ${c.senders}::text[], ${c.references}::text[],
                  ${c.batches}::uuid[], ${c.parts}::smallint[], ${c.prices}::numeric[], ${c.currencies}::text[],
                  ${c.variables}::text[], ${c.ats}::bigint[], ${c.ends}::bigint[], ${c.keys}::text[], ${c.payloads}::text[])
           AS new (id, account, mode, class, recipient, mask, template, sender, reference, batch, parts, price, currency,
                   variables, at, ends, key, payload)`
}

/**
 * Updates codes that are published again: only the id stays the same, and `unpublished`, which is
 * about their earlier tries.
 */
export const updateAcceptances = (q: Queries, entries: ReadonlyArray<LedgerEntry>) => {
  const c = columns(entries)
  return q`
    UPDATE command.acceptances a
       SET given_back = false, batch_id = new.batch, template = new.template, sender = new.sender, parts = new.parts,
           price = new.price, currency = new.currency,
           variables = string_to_array(new.variables, ','),
           created_at = timestamptz 'epoch' + at * interval '1 millisecond',
           expires_at = timestamptz 'epoch' + ends * interval '1 millisecond'
      FROM unnest(${c.ids}::uuid[], ${c.templates}::text[], ${c.senders}::text[], ${c.parts}::smallint[], ${c.prices}::numeric[],
                  ${c.currencies}::text[], ${c.variables}::text[], ${c.ats}::bigint[], ${c.ends}::bigint[], ${c.batches}::uuid[])
           AS new (id, template, sender, parts, price, currency, variables, at, ends, batch)
     WHERE a.message_id = new.id`
}

/** The number of accepted codes of a batch (`bat_…`). */
export const countCodes = async (q: Queries, batch: string): Promise<number> => {
  const [row] = await q<[{ codes: number }]>`
    SELECT count(*)::integer AS codes FROM command.acceptances
     WHERE batch_id = ${uuidOf('bat', batch)} AND class = 'otp' AND NOT given_back`
  return row.codes
}

/**
 * Refunds unproven codes, once each, and marks them as not accepted. A code with a time is refunded
 * only if its row still has that time: a repeat may have charged it again. A code in the read model
 * or in a sealed batch was published. `isUnpublished`: the process certainly did not give this try to
 * Kafka. The column `unpublished` is about all tries: it stays false after a try that Kafka may contain.
 */
export const refundCodes = (q: Queries, codes: ReadonlyArray<UnprovenCode>, isUnpublished: boolean) => q`
  WITH refunded AS (
    UPDATE command.acceptances a SET given_back = true, unpublished = a.unpublished AND ${isUnpublished}
      FROM unnest(${codes.map(({ messageId }) => uuidOf('msg', messageId))}::uuid[],
                  ${codes.map(({ at }) => (at === null ? null : String(at)))}::bigint[]) AS code (id, at)
     WHERE a.message_id = code.id AND a.class = 'otp' AND NOT a.given_back
       AND (code.at IS NULL OR a.created_at = timestamptz 'epoch' + code.at * interval '1 millisecond')
       AND NOT ${ReadMessages.isProjected(q, 'a.message_id')}
       AND NOT ${isAcknowledged(q)}
    RETURNING a.account, a.mode, a.created_at, a.price)
  ${subtractCharges(q, 'refunded')}`

/**
 * Locks the codes that may be published again as their entries say, and returns their ids: the
 * refunded ones that stay in their batch or that Kafka certainly does not contain. Of two processes that
 * publish a code again, the second one then finds it charged. A code whose batch was sealed since its send
 * was decided is left out, because the seal would prove it.
 */
export const lockRefunded = async (
  q: Queries,
  entries: ReadonlyArray<LedgerEntry>,
): Promise<ReadonlySet<string>> => {
  const { ats, batches, ids } = columns(entries)
  const rows = await q<{ message_id: string }[]>`
    SELECT a.message_id
      FROM command.acceptances a JOIN unnest(${ids}::uuid[], ${batches}::uuid[], ${ats}::bigint[]) AS new (id, batch, at)
        ON a.message_id = new.id
     WHERE a.given_back AND (a.unpublished OR a.batch_id IS NOT DISTINCT FROM new.batch)
       AND NOT EXISTS (SELECT 1 FROM command.batches b
                        WHERE b.id = new.batch AND b.sealed_at >= timestamptz 'epoch' + new.at * interval '1 millisecond')
     ORDER BY a.message_id FOR UPDATE OF a`
  return new Set(rows.map((row) => encodeId('msg', row.message_id)))
}
