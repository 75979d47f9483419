/**
 * The opt-outs that recipients change with stop and start words: `command.opt_outs`, its record in `command.opt_out_history`, and
 * `command.opt_out_words` with the position of the last applied words of each recipient.
 */
import { type AppliedWords, decideOptOut, type OptOut, type OptOutDecision } from '@hub/domain'
import { CommandOptOuts, type Queries } from '@hub/store'
import type { RecipientWord } from './store.port.ts'

/** The position in a new row, which is inserted only to lock it. */
const NOTHING_APPLIED = -1

/** What the record of an opt-out calls the effect of a word; `null`: it has none. */
const CHANGE_OF = { recorded: 'opted_out', lifted: 'opted_in', unchanged: null, repeated: null } as const

/** Call it in a transaction. */
export const applyWords = async (
  q: Queries,
  words: ReadonlyArray<RecipientWord>,
): Promise<ReadonlyArray<OptOutDecision['change']>> => {
  const recipients = [...new Set(words.map(({ recipient }) => recipient))].sort()
  // Two processes lock these rows in the same order, so one waits for the other.
  await q`
    INSERT INTO command.opt_out_words (recipient, position, received_at, recent)
    SELECT decode(r, 'hex'), ${NOTHING_APPLIED}::bigint, 'epoch'::timestamptz, '{}'::text[] FROM unnest(${recipients}::text[]) AS r
    ORDER BY r
    ON CONFLICT (recipient) DO NOTHING`
  const rows = await q<{ recipient: string; position: string; received_at: Date; recent: Array<string> }[]>`
    SELECT encode(recipient, 'hex') AS recipient, position, received_at, recent
    FROM command.opt_out_words
    WHERE recipient IN (SELECT decode(r, 'hex') FROM unnest(${recipients}::text[]) AS r)
    ORDER BY recipient
    FOR UPDATE`
  const recorded = await q<{ recipient: string; source: OptOut['source']; created_at: Date }[]>`
    SELECT encode(recipient, 'hex') AS recipient, source, created_at
    FROM command.opt_outs
    WHERE recipient IN (SELECT decode(r, 'hex') FROM unnest(${recipients}::text[]) AS r)
    ORDER BY recipient
    FOR UPDATE`

  const before = new Map<string, OptOut>(
    recorded.map(({ created_at, recipient, source }) => [
      recipient,
      { source, createdAt: created_at.getTime() },
    ]),
  )
  const optOuts = new Map(before)
  const applied = new Map<string, AppliedWords>()
  for (const { position, received_at, recent, recipient } of rows) {
    if (Number(position) === NOTHING_APPLIED) continue
    applied.set(recipient, {
      position: Number(position),
      receivedAt: received_at.getTime(),
      recent,
    })
  }
  const changes = words.map((word) => {
    const decision = decideOptOut(
      optOuts.get(word.recipient) ?? null,
      applied.get(word.recipient) ?? null,
      word,
    )
    applied.set(word.recipient, decision.applied)
    if (decision.change === 'recorded') {
      optOuts.set(word.recipient, { source: 'inbound', createdAt: word.receivedAt })
    } else if (decision.change === 'lifted') optOuts.delete(word.recipient)
    return decision.change
  })

  const changed = recipients.filter((recipient) => optOuts.get(recipient) !== before.get(recipient))
  const lifted = changed.filter((recipient) => before.has(recipient))
  if (lifted.length > 0) {
    await q`
      DELETE FROM command.opt_outs
      WHERE recipient IN (SELECT decode(r, 'hex') FROM unnest(${lifted}::text[]) AS r)`
  }
  const inserted = changed.filter((recipient) => optOuts.has(recipient))
  if (inserted.length > 0) {
    // A conflicting row of another process has the same meaning.
    await q`
      INSERT INTO command.opt_outs (recipient, source, created_at)
      SELECT decode(r, 'hex'), 'inbound', to_timestamp(at / 1000)
      FROM unnest(${inserted}::text[],
                  ${inserted.map((recipient) => optOuts.get(recipient)?.createdAt ?? 0)}::double precision[])
        AS recorded (r, at)
      ON CONFLICT (recipient) DO NOTHING`
  }
  const record = words.flatMap(({ keyword, receivedAt, recipient }, i) => {
    const change = CHANGE_OF[changes[i] ?? 'unchanged']
    return change === null ? [] : [{ recipient, change, at: receivedAt, word: keyword }]
  })
  if (record.length > 0) await CommandOptOuts.insertChanges(q, record)
  for (const recipient of recipients) {
    const newest = applied.get(recipient)
    if (newest === undefined) continue
    await q`
      UPDATE command.opt_out_words
      SET position = ${newest.position}, received_at = ${new Date(newest.receivedAt)}, recent = ${[...newest.recent]}
      WHERE recipient = decode(${recipient}, 'hex')`
  }
  return changes
}
