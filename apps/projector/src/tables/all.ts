/**
 * The SQL of the projector, that of the sums (`sums/sql.ts`) apart. Rows go in and out in bulk, one statement a table, as arrays that `unnest` takes apart:
 * moments as ISO text and bytes as hexadecimal text, because the driver cannot tell an array of them from one. Names that clients or operators have
 * chosen are left to the driver to quote; all else goes as `array`.
 */
import {
  encodeId,
  type MessageAccepted,
  type MessageClass,
  type Mode,
  type ReasonCode,
  type Status,
  toTimestamp,
} from '@hub/domain'
import { type Queries, sqlArray, sqlBytesArray, uuidOf } from '@hub/store'
import { type HistoryLine, type OperatorId, shown } from '../messages/fold.ts'
import type { PersonalBox } from '../messages/personal-data.ts'
import type { MessageRow } from '../messages/row.ts'

const msg = (id: string) => uuidOf('msg', id)
export const flag = (value: boolean) => (value ? 't' : 'f')

/**
 * Where the tables are: the live ones, or those that a rebuild makes beside them (docs/decisions/0020). Statements of a message's row and of the
 * sums serve both.
 */
export type ReadSchema = 'read' | 'rebuild'

/** The name of a table, for a statement. */
export const tableIn = (q: Queries, schema: ReadSchema, table: string) => q(`${schema}.${table}`)

// Checkpoints

/** A partition by its topic's name without the deployment's prefix, so that a name outlives a prefix. */
export interface TopicPartition {
  readonly topic: string
  readonly partition: number
}
export interface Checkpoint extends TopicPartition {
  /** The next offset to apply. */
  readonly position: number
  readonly epoch: number
  /** Highest epoch of a `ShardOpened` before `position`; 0 where there is none. */
  readonly fence: number
}

interface CheckpointRecord {
  readonly topic: string
  readonly partition: number
  readonly position: string
  readonly epoch: string
  readonly fence: string
}
const checkpointOf = (row: CheckpointRecord): Checkpoint => ({
  topic: row.topic,
  partition: row.partition,
  position: Number(row.position),
  epoch: Number(row.epoch),
  fence: Number(row.fence),
})

/**
 * Takes partitions over: raises their epoch, so that whoever held them before changes nothing any more, and answers
 * where to go on. It waits for a transaction that is under way on them.
 */
export const claimCheckpoints = async (
  q: Queries,
  projection: string,
  partitions: ReadonlyArray<TopicPartition>,
  schema: ReadSchema = 'read',
): Promise<ReadonlyArray<Checkpoint>> => {
  const rows = await q<CheckpointRecord[]>`
    INSERT INTO ${tableIn(q, schema, 'checkpoints')} AS stored (projection, topic, partition, position, epoch)
    SELECT ${projection}, c.topic, c.partition, 0, 1
      FROM unnest(${partitions.map((p) => p.topic)}::text[], ${partitions.map((p) => p.partition)}::integer[])
        AS c (topic, partition)
     ORDER BY c.topic, c.partition
    ON CONFLICT (projection, topic, partition)
      DO UPDATE SET epoch = stored.epoch + 1, updated_at = now()
    RETURNING topic, partition, position, epoch, fence`
  return rows.map(checkpointOf)
}

/** Locks checkpoints in one order for everybody, and answers what they say. */
export const lockCheckpoints = async (
  q: Queries,
  projection: string,
  partitions: ReadonlyArray<TopicPartition>,
  schema: ReadSchema = 'read',
): Promise<ReadonlyArray<Checkpoint>> => {
  const rows = await q<CheckpointRecord[]>`
    SELECT c.topic, c.partition, c.position, c.epoch, c.fence
      FROM ${tableIn(q, schema, 'checkpoints')} c
      JOIN unnest(${partitions.map((p) => p.topic)}::text[], ${partitions.map((p) => p.partition)}::integer[])
        AS w (topic, partition) USING (topic, partition)
     WHERE c.projection = ${projection}
     ORDER BY c.topic, c.partition
       FOR UPDATE OF c`
  return rows.map(checkpointOf)
}

/** Moves locked checkpoints. */
export const moveCheckpoints = (
  q: Queries,
  projection: string,
  to: ReadonlyArray<Omit<Checkpoint, 'epoch'>>,
  schema: ReadSchema = 'read',
) => q`
  UPDATE ${tableIn(q, schema, 'checkpoints')} c SET position = w.position, fence = w.fence, updated_at = now()
    FROM unnest(${to.map((c) => c.topic)}::text[], ${to.map((c) => c.partition)}::integer[],
                ${to.map((c) => c.position)}::bigint[], ${to.map((c) => c.fence)}::bigint[])
      AS w (topic, partition, position, fence)
   WHERE c.projection = ${projection} AND c.topic = w.topic AND c.partition = w.partition`

// Messages

interface MessageRecord {
  readonly id: string
  readonly account: string | null
  readonly mode: Mode
  readonly class: MessageClass
  readonly template: string
  readonly client_ref: string | null
  readonly batch_id: string | null
  readonly parts: number
  readonly price: string
  readonly currency: string
  readonly created_at: Date
  readonly updated_at: Date
  readonly status: Status
  readonly reason_code: ReasonCode | null
  readonly attempts: number
  readonly handed_over: boolean
  readonly seen: boolean
  readonly waiting: ReadonlyArray<{
    readonly status: Status
    readonly reason: ReasonCode | null
    readonly at: number
  }> | null
}

/**
 * What is stored of messages, by id (`msg_…`). Each is one probe of the month it is in, whatever the plan was made for: see
 * docs/decisions/0009 and 0018. Months outside the range of the ids are not opened at all.
 */
export const readMessages = async (
  q: Queries,
  messageIds: ReadonlyArray<string>,
  schema: ReadSchema = 'read',
): Promise<ReadonlyMap<string, MessageRow>> => {
  const ids = messageIds.map(msg).toSorted()
  const [first, last] = [ids[0] ?? null, ids.at(-1) ?? null]
  const rows = await q<MessageRecord[]>`
    SELECT m.id, m.account, m.mode, m.class, m.template, m.client_ref, m.batch_id, m.parts, m.price, m.currency,
           m.created_at, m.updated_at, m.status, m.reason_code, m.attempts, m.handed_over, m.seen,
           CASE WHEN m.account IS NULL THEN (
             SELECT json_agg(json_build_object('status', h.status, 'reason', h.reason_code,
                                               'at', (extract(epoch FROM h.at) * 1000)::bigint))
               FROM ${tableIn(q, schema, 'message_history')} h
              WHERE h.message_id = m.id AND h.message_id BETWEEN ${first} AND ${last}) END AS waiting
      FROM unnest(${sqlArray(ids)}::uuid[]) AS w (id)
     CROSS JOIN LATERAL (
           SELECT * FROM ${tableIn(q, schema, 'messages')} WHERE id = w.id AND id BETWEEN ${first} AND ${last} LIMIT 1) AS m`
  return new Map(
    rows.map((row): [string, MessageRow] => {
      const messageId = encodeId('msg', row.id)
      return [
        messageId,
        {
          messageId,
          subject:
            row.account === null
              ? null
              : {
                  messageId,
                  account: encodeId('acc', row.account),
                  mode: row.mode,
                  class: row.class,
                  template: row.template,
                  clientRef: row.client_ref,
                  batch: row.batch_id === null ? null : encodeId('bat', row.batch_id),
                  parts: row.parts,
                  price: { amount: row.price, currency: row.currency },
                  at: row.created_at.getTime(),
                },
          status: row.status,
          reason: row.reason_code,
          attempts: row.attempts,
          handedOver: row.handed_over,
          seen: row.seen,
          updatedAt: row.updated_at.getTime(),
          waiting: row.waiting ?? [],
        },
      ]
    }),
  )
}

const batchOf = ({ subject }: MessageRow): string | null =>
  subject === null || subject.batch === null ? null : uuidOf('bat', subject.batch)

/** Rows whose acceptance has come: the whole row, whether or not something of it was there already. */
export const writeAccepted = (
  q: Queries,
  accepted: ReadonlyArray<{ readonly row: MessageRow; readonly fact: MessageAccepted }>,
  schema: ReadSchema = 'read',
) => {
  const facts = accepted.map(({ fact }) => fact)
  const rows = accepted.map(({ row }) => ({ ...row, ...shown(row) }))
  return q`
    INSERT INTO ${tableIn(q, schema, 'messages')} (id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price,
                               currency, variables, created_at, updated_at, status, rank, final, reason_code, attempts,
                               handed_over, seen)
    SELECT id, account, mode::command.mode, class::command.class, recipient::bytea, template, sender, client_ref, batch_id,
           parts, price, currency, ARRAY(SELECT json_array_elements_text(variables::json)), created_at, updated_at,
           status, rank, final::boolean, reason_code, attempts, handed_over::boolean, seen::boolean
      FROM unnest(${sqlArray(facts.map((f) => msg(f.messageId)))}::uuid[], ${sqlArray(facts.map((f) => uuidOf('acc', f.account)))}::uuid[],
                  ${sqlArray(facts.map((f) => f.mode))}::text[], ${sqlArray(facts.map((f) => f.class))}::text[],
                  ${sqlBytesArray(facts.map((f) => f.recipient))}::text[], ${facts.map((f) => f.template)}::text[],
                  ${facts.map((f) => f.sender)}::text[], ${facts.map((f) => f.clientRef)}::text[],
                  ${sqlArray(rows.map(batchOf))}::uuid[],
                  ${sqlArray(facts.map((f) => f.parts))}::smallint[], ${sqlArray(rows.map((r) => r.price?.amount ?? null))}::numeric[],
                  ${sqlArray(facts.map((f) => f.price.currency))}::text[],
                  ${facts.map((f) => JSON.stringify(f.variables))}::text[],
                  ${sqlArray(facts.map((f) => toTimestamp(f.at)))}::timestamptz[],
                  ${sqlArray(rows.map((r) => toTimestamp(r.updatedAt)))}::timestamptz[], ${sqlArray(rows.map((r) => r.status))}::text[],
                  ${sqlArray(rows.map((r) => r.rank))}::smallint[], ${sqlArray(rows.map((r) => flag(r.final)))}::text[],
                  ${sqlArray(rows.map((r) => r.reason))}::text[], ${sqlArray(rows.map((r) => r.attempts))}::smallint[],
                  ${sqlArray(rows.map((r) => flag(r.handedOver)))}::text[], ${sqlArray(rows.map((r) => flag(r.seen)))}::text[])
        AS m (id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price, currency, variables,
              created_at, updated_at, status, rank, final, reason_code, attempts, handed_over, seen)
    ON CONFLICT (id) DO UPDATE SET
      account = excluded.account, mode = excluded.mode, class = excluded.class, recipient = excluded.recipient,
      template = excluded.template, sender = excluded.sender, client_ref = excluded.client_ref,
      batch_id = excluded.batch_id, parts = excluded.parts, price = excluded.price, currency = excluded.currency,
      variables = excluded.variables, created_at = excluded.created_at, updated_at = excluded.updated_at,
      status = excluded.status, rank = excluded.rank, final = excluded.final, reason_code = excluded.reason_code,
      attempts = excluded.attempts, handed_over = excluded.handed_over, seen = excluded.seen`
}

const state = (rows: ReadonlyArray<MessageRow>) => {
  const all = rows.map((row) => ({ ...row, ...shown(row) }))
  return {
    ids: sqlArray(all.map((r) => msg(r.messageId))),
    updated: sqlArray(all.map((r) => toTimestamp(r.updatedAt))),
    status: sqlArray(all.map((r) => r.status)),
    rank: sqlArray(all.map((r) => r.rank)),
    final: sqlArray(all.map((r) => flag(r.final))),
    reason: sqlArray(all.map((r) => r.reason)),
    attempts: sqlArray(all.map((r) => r.attempts)),
    handedOver: sqlArray(all.map((r) => flag(r.handedOver))),
    seen: sqlArray(all.map((r) => flag(r.seen))),
    price: sqlArray(all.map((r) => r.price?.amount ?? null)),
  }
}

/**
 * Rows accepted before: only what facts of the log change. They are there, so each is a conflict: written in this way it is found by its
 * id in its month, where a join would be planned over all months.
 */
export const writeUpdated = (q: Queries, rows: ReadonlyArray<MessageRow>, schema: ReadSchema = 'read') => {
  const s = state(rows)
  return q`
    INSERT INTO ${tableIn(q, schema, 'messages')} (id, updated_at, status, rank, final, reason_code, attempts, handed_over, seen, price, batch_id)
    SELECT id, updated_at, status, rank, final::boolean, reason_code, attempts, handed_over::boolean, seen::boolean, price,
           batch_id
      FROM unnest(${s.ids}::uuid[], ${s.updated}::timestamptz[], ${s.status}::text[], ${s.rank}::smallint[],
                  ${s.final}::text[], ${s.reason}::text[], ${s.attempts}::smallint[],
                  ${s.handedOver}::text[], ${s.seen}::text[], ${s.price}::numeric[],
                  ${sqlArray(rows.map(batchOf))}::uuid[])
        AS w (id, updated_at, status, rank, final, reason_code, attempts, handed_over, seen, price, batch_id)
    ON CONFLICT (id) DO UPDATE SET
      updated_at = excluded.updated_at, status = excluded.status, rank = excluded.rank, final = excluded.final,
      reason_code = excluded.reason_code, attempts = excluded.attempts, handed_over = excluded.handed_over,
      seen = excluded.seen, price = excluded.price, batch_id = excluded.batch_id`
}

/** Rows that wait for their acceptance. */
export const writeUnaccepted = (q: Queries, rows: ReadonlyArray<MessageRow>, schema: ReadSchema = 'read') => {
  const s = state(rows)
  return q`
    INSERT INTO ${tableIn(q, schema, 'messages')} (id, updated_at, status, rank, final, reason_code, attempts, handed_over, seen)
    SELECT id, updated_at, status, rank, final::boolean, reason_code, attempts, handed_over::boolean, seen::boolean
      FROM unnest(${s.ids}::uuid[], ${s.updated}::timestamptz[], ${s.status}::text[], ${s.rank}::smallint[],
                  ${s.final}::text[], ${s.reason}::text[], ${s.attempts}::smallint[],
                  ${s.handedOver}::text[], ${s.seen}::text[])
        AS w (id, updated_at, status, rank, final, reason_code, attempts, handed_over, seen)
    ON CONFLICT (id) DO UPDATE SET
      updated_at = excluded.updated_at, status = excluded.status, rank = excluded.rank, final = excluded.final,
      reason_code = excluded.reason_code, attempts = excluded.attempts, handed_over = excluded.handed_over,
      seen = excluded.seen`
}

export const writeHistory = (q: Queries, lines: ReadonlyArray<HistoryLine>, schema: ReadSchema = 'read') => q`
  INSERT INTO ${tableIn(q, schema, 'message_history')} (message_id, fact_id, status, reason_code, at)
  SELECT * FROM unnest(${sqlArray(lines.map((l) => msg(l.messageId)))}::uuid[], ${sqlArray(lines.map((l) => l.factId))}::uuid[],
                       ${sqlArray(lines.map((l) => l.status))}::text[], ${sqlArray(lines.map((l) => l.reason))}::text[],
                       ${sqlArray(lines.map((l) => toTimestamp(l.at)))}::timestamptz[])
  ON CONFLICT DO NOTHING`

export const writeOperatorIds = (
  q: Queries,
  ids: ReadonlyArray<OperatorId>,
  schema: ReadSchema = 'read',
) => q`
  INSERT INTO ${tableIn(q, schema, 'operator_ids')} (operator, operator_id, message_id, sent_at)
  SELECT * FROM unnest(${ids.map((i) => i.operator)}::text[], ${ids.map((i) => i.operatorId)}::text[],
                       ${sqlArray(ids.map((i) => msg(i.messageId)))}::uuid[], ${sqlArray(ids.map((i) => toTimestamp(i.sentAt)))}::timestamptz[])
  ON CONFLICT DO NOTHING`

/** The encrypted number (and text) of a message newly accepted. */
export interface PersonalRow {
  readonly fact: MessageAccepted
  readonly box: PersonalBox
}
/** What a person's erasure was asked for is not stored again, whoever reads its acceptance once more: docs/decisions/0019. */
export const writePersonalData = (q: Queries, rows: ReadonlyArray<PersonalRow>) => q`
  INSERT INTO read.personal_data (message_id, recipient, created_at, sealing_key, sealed)
  SELECT id, recipient::bytea, created_at, sealing_key, sealed::bytea
    FROM unnest(${sqlArray(rows.map(({ fact }) => msg(fact.messageId)))}::uuid[],
                ${sqlBytesArray(rows.map(({ fact }) => fact.recipient))}::text[],
                ${sqlArray(rows.map(({ fact }) => toTimestamp(fact.at)))}::timestamptz[],
                ${rows.map(({ box }) => box.sealingKey)}::text[],
                ${sqlBytesArray(rows.map(({ box }) => box.sealed.toString('hex')))}::text[])
      AS p (id, recipient, created_at, sealing_key, sealed)
   WHERE NOT EXISTS (SELECT 1 FROM command.erasures e WHERE e.recipient = p.recipient::bytea AND e.before > p.created_at)
  ON CONFLICT DO NOTHING`

// Event journal

export interface JournalKey {
  readonly account: string
  readonly mode: Mode
}
/** Where a journal ends. */
export interface Head extends JournalKey {
  /** Of the last event; 0 before the first. */
  readonly sequence: number
  /** The moment of recording for what is added now: never before that of the last event. */
  readonly recordedAt: number
}

/**
 * Takes the ends of journals, in one order for everybody, and holds them until the transaction ends: so what is
 * added behind them becomes visible in the order of its sequence numbers, and a reader that follows them skips nothing.
 */
export const takeHeads = async (
  q: Queries,
  keys: ReadonlyArray<JournalKey>,
): Promise<ReadonlyArray<Head>> => {
  const rows = await q<{ account: string; mode: Mode; sequence: string; last_at: Date }[]>`
    INSERT INTO read.event_heads (account, mode, sequence, last_at)
    SELECT k.account, k.mode::command.mode, 0, date_trunc('milliseconds', clock_timestamp())
      FROM unnest(${keys.map((k) => uuidOf('acc', k.account))}::uuid[], ${keys.map((k) => k.mode)}::text[])
        AS k (account, mode)
     ORDER BY k.account, k.mode
    ON CONFLICT (account, mode) DO UPDATE
      SET last_at = greatest(read.event_heads.last_at, date_trunc('milliseconds', clock_timestamp()))
    RETURNING account, mode, sequence, last_at`
  return rows.map((row) => ({
    account: encodeId('acc', row.account),
    mode: row.mode,
    sequence: Number(row.sequence),
    recordedAt: row.last_at.getTime(),
  }))
}

/**
 * Which of these events (`evt_…`) are recorded already. To be asked behind `takeHeads`. None of them can have been recorded before `since`
 * (milliseconds since the epoch): months before it are not looked into.
 */
export const recordedEvents = async (
  q: Queries,
  eventIds: ReadonlyArray<string>,
  since: number,
): Promise<ReadonlySet<string>> => {
  const rows = await q<{ id: string }[]>`
    SELECT e.id FROM unnest(${sqlArray(eventIds.map((id) => uuidOf('evt', id)))}::uuid[]) AS w (id)
     CROSS JOIN LATERAL (
           SELECT id FROM read.events WHERE id = w.id AND created_at >= ${new Date(since)} LIMIT 1) AS e`
  return new Set(rows.map((row) => encodeId('evt', row.id)))
}

/** An event with its place in the journal. */
export interface RecordedEvent extends JournalKey {
  readonly id: string
  readonly type: string
  readonly sequence: number
  readonly recordedAt: number
  /** The event's JSON text exactly as it is served. */
  readonly body: string
}

/** Never in JSON text, which escapes it: bodies joined by it need no quoting, of which an array of them would be full. */
const SEPARATOR = '\u001e'

export const writeEvents = (q: Queries, events: ReadonlyArray<RecordedEvent>) => q`
  INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
  SELECT account, mode::command.mode, sequence, id, type, created_at, body
    FROM unnest(${sqlArray(events.map((e) => uuidOf('acc', e.account)))}::uuid[], ${sqlArray(events.map((e) => e.mode))}::text[],
                ${sqlArray(events.map((e) => e.sequence))}::bigint[], ${sqlArray(events.map((e) => uuidOf('evt', e.id)))}::uuid[],
                ${sqlArray(events.map((e) => e.type))}::text[], ${sqlArray(events.map((e) => toTimestamp(e.recordedAt)))}::timestamptz[],
                string_to_array(${events.map((e) => e.body).join(SEPARATOR)}, ${SEPARATOR}))
      AS e (account, mode, sequence, id, type, created_at, body)`

export const moveHeads = (q: Queries, heads: ReadonlyArray<JournalKey & { readonly sequence: number }>) => q`
  UPDATE read.event_heads h SET sequence = w.sequence
    FROM unnest(${heads.map((h) => uuidOf('acc', h.account))}::uuid[], ${heads.map((h) => h.mode)}::text[],
                ${heads.map((h) => h.sequence)}::bigint[]) AS w (account, mode, sequence)
   WHERE h.account = w.account AND h.mode = w.mode::command.mode`

/** Answers the row's id. */
export const writeOutbox = async (q: Queries, records: Buffer): Promise<string> => {
  const [row] = await q<{ id: string }[]>`
    INSERT INTO read.event_outbox (records) VALUES (${records}) RETURNING id`
  return row?.id ?? ''
}

export const deleteOutbox = (q: Queries, ids: ReadonlyArray<string>) =>
  q`DELETE FROM read.event_outbox WHERE id = ANY (${ids as Array<string>}::bigint[])`

/** Outbox rows in all, and those at least so old. */
export const countOutbox = async (
  q: Queries,
  olderThanMs: number,
): Promise<{ readonly waiting: number; readonly left: number; readonly ageSeconds: number }> => {
  const [row] = await q<{ waiting: number; left: number; ageSeconds: number }[]>`
    SELECT count(*)::integer AS waiting,
           coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS "ageSeconds",
           (count(*) FILTER (WHERE created_at <= now() - make_interval(secs => ${olderThanMs / 1000})))::integer AS left
      FROM read.event_outbox`
  return row ?? { waiting: 0, left: 0, ageSeconds: 0 }
}

/** Fails when the database does not answer. */
export const ping = (q: Queries) => q`SELECT 1`
