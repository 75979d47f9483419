/**
 * `read.messages`: the read model of messages, one row for each message, in monthly partitions. Its
 * rows are read together with their history (the view `read.message_history`) and `read.personal_data`.
 *
 * Owner of all three: projector. A row without `account` is incomplete: the projector has applied a
 * fact of the message, but not its `MessageAccepted` yet.
 */
import {
  MESSAGE_CLASSES,
  type MessageClass,
  type Mode,
  type ReasonCode,
  type Status,
  STATUSES,
} from '@hub/domain'
import type { Queries } from '../../pool.ts'
import { firstRow, selectList, type SqlFragment } from '../../sql.ts'
import { NIL_UUID } from '../../uuid.ts'
import { mayShow } from '../command/erasures.ts'

/**
 * A condition: the acceptance is projected. `messageId`: a column of UUIDs such as `a.message_id`.
 */
export const isProjected = (q: Queries, messageId: string): SqlFragment =>
  q`coalesce((SELECT m.account IS NOT NULL FROM read.messages m WHERE m.id = ${q(messageId)}), false)`

/** The columns that `read.messages` and `command.acceptances` share. */
export interface MessageColumns {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  /** The recipient hash. */
  readonly recipient: Buffer
  readonly template: string
  readonly sender: string
  readonly client_ref: string | null
  readonly batch_id: string | null
  readonly parts: number
  readonly price: string
  readonly currency: string
  readonly variables: ReadonlyArray<string>
  readonly created_at: Date
}

export interface ProjectedMessage extends MessageColumns {
  readonly updated_at: Date
  readonly status: Status
  readonly reason_code: ReasonCode | null
  readonly attempts: number
  /** In no particular order; `at` in milliseconds since the epoch. */
  readonly history: ReadonlyArray<{
    readonly status: Status
    readonly reason: ReasonCode | null
    readonly at: number
  }> | null
  /** False after a year. Names of variables are shown until then, also after an erasure. */
  readonly in_first_year: boolean
  /** False after a year or an erasure: then no number or text of the message must be shown. */
  readonly may_show: boolean
  /** False after three years: then the message must not be shown. */
  readonly is_shown: boolean
  /** The key that encrypts `personal`; `null` for the master key. */
  readonly personal_key: string | null
  /** Encrypted number, text and variables; `null` if they are deleted, or must not be shown. */
  readonly personal: Buffer | null
}

/**
 * Reads the messages with these UUIDs, whoever owns them. Incomplete rows are left out.
 *
 * The range of the ids lets PostgreSQL open only the months that contain them
 * (docs/decisions/retention.md). The lateral join makes each message one index probe of its month in every
 * plan (docs/decisions/queries.md#plans). Source of the periods: RET-1, RET-3.
 */
export const readAll = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<ProjectedMessage>> => {
  // PostgreSQL sorts UUIDs like their texts.
  const sorted = ids.toSorted()
  const first = sorted[0] ?? NIL_UUID
  const last = sorted.at(-1) ?? NIL_UUID
  return q<ProjectedMessage[]>`
  SELECT ${selectList<ProjectedMessage>(q, {
    id: 'm.id',
    account: 'm.account',
    mode: 'm.mode',
    class: 'm.class',
    recipient: 'm.recipient',
    template: 'm.template',
    sender: 'm.sender',
    client_ref: 'm.client_ref',
    batch_id: 'm.batch_id',
    parts: 'm.parts',
    price: 'm.price',
    currency: 'm.currency',
    variables: 'm.variables',
    created_at: 'm.created_at',
    updated_at: 'm.updated_at',
    status: 'm.status',
    reason_code: 'm.reason_code',
    attempts: 'm.attempts',
    history: q`(
         SELECT json_agg(json_build_object('status', h.status, 'reason', h.reason_code,
                                           'at', floor(extract(epoch FROM h.at) * 1000)))
           FROM read.message_history h
          WHERE h.message_id = m.id AND h.message_id BETWEEN ${first} AND ${last})`,
    in_first_year: q`m.created_at > now() - interval '1 year'`,
    may_show: 'shown.may_show',
    is_shown: q`m.created_at > now() - interval '3 years'`,
    personal_key: 'p.sealing_key',
    personal: 'p.sealed',
  })}
    FROM unnest(${[...ids]}::uuid[]) AS asked (id)
   CROSS JOIN LATERAL (
         SELECT * FROM read.messages WHERE id = asked.id AND id BETWEEN ${first} AND ${last} LIMIT 1) AS m
   CROSS JOIN LATERAL (SELECT ${mayShow(q, 'm.recipient', 'm.created_at')} AS may_show) AS shown
    LEFT JOIN LATERAL (
         SELECT sealing_key, sealed FROM read.personal_data
          WHERE message_id = asked.id AND message_id BETWEEN ${first} AND ${last} LIMIT 1) AS p
      ON shown.may_show
   WHERE m.account IS NOT NULL`
}

/** The waiting messages of an account in a mode and class: accepted, and not submitted yet. */
export interface WaitingRow {
  readonly account: string
  readonly name: string
  readonly mode: Mode
  readonly class: MessageClass
  /** `null`: the default. */
  readonly weight: number | null
  readonly messages: number
  readonly oldest_at: Date
}

/**
 * The waiting messages of all accounts, or of one (UUID), the longest wait first, at most `limit` rows
 * (`null`: all). No message waits longer than `lifetimeSeconds`. The rows of an account, mode and class are a range of an index.
 */
export const readWaiting = async (
  q: Queries,
  {
    account,
    lifetimeSeconds,
    limit,
  }: {
    readonly account: string | null
    readonly lifetimeSeconds: number
    readonly limit: number | null
  },
): Promise<ReadonlyArray<WaitingRow>> => q<WaitingRow[]>`
  WITH oldest AS (SELECT now() - make_interval(secs => ${lifetimeSeconds}) AS at)
  SELECT a.id AS account, a.name, m.mode, c.class, s.weight, w.messages, w.oldest_at
    FROM command.accounts a
   CROSS JOIN unnest(enum_range(NULL::command.mode)) AS m (mode)
   CROSS JOIN unnest(enum_range(NULL::command.class)) AS c (class)
   CROSS JOIN LATERAL (
         SELECT count(*)::integer AS messages, min(created_at) AS oldest_at FROM read.messages r
          WHERE r.account = a.id AND r.mode = m.mode AND r.class = c.class AND r.status = 'accepted'
            AND r.created_at > (SELECT at FROM oldest)
            AND r.id >= (SELECT command.uuid_floor(at) FROM oldest)) AS w
    LEFT JOIN command.account_settings s ON s.account = a.id AND s.mode = m.mode
   WHERE w.messages > 0 AND (${account}::uuid IS NULL OR a.id = ${account})
   ORDER BY w.oldest_at, a.id, m.mode, c.class LIMIT ${limit}`

/** Messages that count as sent although no answer of the operator arrived. */
export interface Unanswered {
  /** They wait for a report or for their deadline. */
  readonly sent: number
  /** No report arrived before the deadline. */
  readonly expired: number
  /** The acceptance of the oldest one; `null` without any. */
  readonly oldest_at: Date | null
}

/**
 * Counts the messages of all accounts, accepted in the last `withinSeconds`, whose handover claim has no
 * answer of the operator: without an answer, a message has no operator id. Messages with a later report are
 * final, and do not count. The rows of an account, mode and class are a range of an index.
 */
export const countUnanswered = async (q: Queries, withinSeconds: number): Promise<Unanswered> => {
  const [row] = await q<Unanswered[]>`
    WITH since AS (SELECT at, command.uuid_floor(at) AS id
                     FROM (SELECT now() - make_interval(secs => ${withinSeconds}) AS at) AS t)
    SELECT count(*) FILTER (WHERE r.status = 'sent')::integer AS sent,
           count(*) FILTER (WHERE r.status = 'expired')::integer AS expired, min(r.created_at) AS oldest_at
      FROM command.accounts a
     CROSS JOIN unnest(enum_range(NULL::command.mode)) AS m (mode)
     CROSS JOIN unnest(enum_range(NULL::command.class)) AS c (class)
     CROSS JOIN LATERAL (
           SELECT id, status, created_at FROM read.messages
            WHERE account = a.id AND mode = m.mode AND class = c.class AND status IN ('sent', 'expired')
              AND created_at > (SELECT at FROM since) AND id >= (SELECT id FROM since)
              AND (status = 'sent' OR reason_code = 'dlr_timeout_local')) AS r
     WHERE NOT EXISTS (SELECT 1 FROM read.operator_ids o
                        WHERE o.message_id = r.id AND o.message_id >= (SELECT id FROM since))`
  return row ?? { sent: 0, expired: 0, oldest_at: null }
}

/** Delivered messages whose times `readLatencies` reads. */
export const MEASURED = 1000

/** Times from the acceptance, milliseconds; `null`: no message has the status. */
export interface Latencies {
  readonly measured: number
  readonly sent_p50_ms: number | null
  readonly sent_p99_ms: number | null
  readonly delivered_p50_ms: number | null
  readonly delivered_p99_ms: number | null
}

/**
 * The latencies of the newest delivered messages of a template that were accepted on these days
 * (`2026-11-21`, UTC, both included).
 */
export const readLatencies = async (
  q: Queries,
  { account, mode }: MessageOwner,
  template: string,
  from: string,
  to: string,
): Promise<Latencies> => {
  const percentile = (share: number, status: 'sent' | 'delivered') => q`
    round(percentile_cont(${share}::float8) WITHIN GROUP (ORDER BY h.ms) FILTER (WHERE h.status = ${status}))::integer`
  const [row] = await q<Latencies[]>`
    WITH newest AS MATERIALIZED (
      SELECT id, created_at FROM read.messages
       WHERE account = ${account} AND mode = ${mode} AND template = ${template} AND status = 'delivered'
         AND created_at >= ${from}::date::timestamp AT TIME ZONE 'UTC'
         AND created_at < (${to}::date + 1)::timestamp AT TIME ZONE 'UTC'
       ORDER BY created_at DESC, id DESC LIMIT ${MEASURED})
    SELECT count(*) FILTER (WHERE h.status = 'delivered')::integer AS measured,
           ${percentile(0.5, 'sent')} AS sent_p50_ms, ${percentile(0.99, 'sent')} AS sent_p99_ms,
           ${percentile(0.5, 'delivered')} AS delivered_p50_ms, ${percentile(0.99, 'delivered')} AS delivered_p99_ms
      FROM newest
     CROSS JOIN LATERAL (
           -- The clocks of two processes may differ.
           SELECT status, greatest(extract(epoch FROM at - newest.created_at) * 1000, 0) AS ms
             FROM read.message_history WHERE message_id = newest.id
           -- Without this, PostgreSQL reads the whole view for the join.
           OFFSET 0) AS h`
  return (
    row ?? {
      measured: 0,
      sent_p50_ms: null,
      sent_p99_ms: null,
      delivered_p50_ms: null,
      delivered_p99_ms: null,
    }
  )
}

/** An expression: the number of projected codes of a batch. `batchId`: the column with its UUID. */
export const countCodesOfBatch = (q: Queries, batchId: string): SqlFragment =>
  q`(SELECT count(*) FROM read.messages m
      WHERE m.batch_id = ${q(batchId)} AND m.class = 'otp' AND m.account IS NOT NULL)`

/** A query: the first UUIDs of projected messages of a batch in a range, in order. */
export const selectIdsOfBatch = (
  q: Queries,
  batch: string,
  range: { readonly after: string; readonly before: string; readonly limit: number },
): SqlFragment => q`
  SELECT id FROM read.messages
   WHERE batch_id = ${batch} AND account IS NOT NULL AND id > ${range.after} AND id < ${range.before}
   ORDER BY id LIMIT ${range.limit}`

/** The messages of a batch of an owner (UUIDs): at most as many as a batch has. */
export const readIdsOfBatch = async (
  q: Queries,
  owner: { readonly accountUuid: string; readonly mode: Mode },
  batch: string,
): Promise<ReadonlyArray<string>> => {
  const rows = await q<{ id: string }[]>`
    SELECT id FROM read.messages
     WHERE batch_id = ${batch} AND account = ${owner.accountUuid} AND mode = ${owner.mode}`
  return rows.map(({ id }) => id)
}

/** A query: one row if the message belongs to the batch. Both ids are UUIDs. */
export const selectMembership = (q: Queries, batch: string, message: string): SqlFragment =>
  q`SELECT 1 FROM read.messages WHERE id = ${message} AND batch_id = ${batch}`

/** The account (UUID) and mode that own messages. */
interface MessageOwner {
  readonly account: string
  readonly mode: Mode
}

/** A position in the messages of an owner, newest first. */
export interface ListPosition {
  /** UUID. */
  readonly id: string
  readonly created_at: Date
}

/** Which messages a list contains; `null`: any. Times are exclusive. */
export interface ListFilter {
  readonly status: Status | null
  readonly class: MessageClass | null
  readonly template: string | null
  readonly createdAfter: Date | null
  readonly createdBefore: Date | null
  /** The list goes on after this message. */
  readonly before: ListPosition | null
}

/**
 * The conditions of a filter on messages or acceptances, except for the fields that the query itself compares.
 * `id`: the name of the column with the id.
 */
export const isListed = (
  q: Queries,
  id: string,
  filter: ListFilter,
  compared: ReadonlyArray<keyof ListFilter>,
): SqlFragment => {
  const { before, createdAfter, createdBefore, status, template } = filter
  const conditions: Readonly<Record<keyof ListFilter, SqlFragment>> = {
    status: q`AND status = ${status}`,
    class: q`AND class = ${filter.class}`,
    template: q`AND template = ${template}`,
    createdAfter: q`AND created_at > ${createdAfter}`,
    createdBefore: q`AND created_at < ${createdBefore}`,
    before: before === null ? q`` : q`AND (created_at, ${q(id)}) < (${before.created_at}, ${before.id})`,
  }
  return (Object.keys(conditions) as ReadonlyArray<keyof ListFilter>)
    .filter((field) => filter[field] !== null && !compared.includes(field))
    .reduce<SqlFragment>(
      (all, field) => q`${all} ${conditions[field]}`,
      q`created_at > now() - interval '3 years'`,
    )
}

/**
 * A query: the newest `limit` messages of an owner that pass a filter.
 *
 * Each part reads its page from the end of one range of an index, in every month. So a list reads a
 * few rows beside its own, however many messages the owner has (docs/decisions/search.md#lists-of-a-client).
 * A part therefore names a status, and a class or a template. The class of a template is not in the index;
 * the cast keeps PostgreSQL from using the other index for it.
 */
export const selectNewest = (
  q: Queries,
  { account, mode }: MessageOwner,
  filter: ListFilter,
  limit: number,
): SqlFragment => {
  const classes = filter.class === null ? MESSAGE_CLASSES : [filter.class]
  const ranges =
    filter.template === null
      ? classes.map((one) => q`class = ${one}`)
      : [
          q`template = ${filter.template} ${filter.class === null ? q`` : q`AND class::text = ${filter.class}`}`,
        ]
  const statuses = filter.status === null ? STATUSES : [filter.status]
  return ranges
    .flatMap((range) =>
      statuses.map(
        (status): SqlFragment => q`
          (SELECT id, created_at FROM read.messages
            WHERE account = ${account} AND mode = ${mode} AND ${range} AND status = ${status}
              AND ${isListed(q, 'id', filter, ['status', 'class', 'template'])}
            ORDER BY created_at DESC, id DESC LIMIT ${limit})`,
      ),
    )
    .reduce((all, next) => q`${all} UNION ALL ${next}`)
}

/** The position of a message (UUID) in the list of its owner; `null` without such a message. */
export const listPositionOf = (
  q: Queries,
  { account, mode }: MessageOwner,
  message: string,
): Promise<ListPosition | null> =>
  firstRow(q<ListPosition[]>`
    SELECT id, created_at FROM read.messages
     WHERE id = ${message} AND account = ${account} AND mode = ${mode}
       AND created_at > now() - interval '3 years'`)

/** Which of these UUIDs belong to messages that are sent or have a final status. */
export const readSentOrFinal = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlySet<string>> => {
  const rows = await q<{ id: string }[]>`
    SELECT m.id FROM unnest(${[...ids]}::uuid[]) AS asked (id)
    CROSS JOIN LATERAL (SELECT id, status FROM read.messages WHERE id = asked.id LIMIT 1) AS m
    WHERE m.status <> 'accepted'`
  return new Set(rows.map(({ id }) => id))
}

/** A message and the operator ids of its parts. Incomplete rows have `null` columns. */
export interface MessageWithOperatorIds {
  readonly id: string
  readonly recipient: Buffer | null
  readonly class: MessageClass | null
  readonly status: Status
  readonly reason_code: ReasonCode | null
  readonly attempts: number
  readonly seen: boolean
  readonly operator: string | null
  readonly operator_ids: ReadonlyArray<string> | null
}

/** Reads the messages with these UUIDs together with their rows of `read.operator_ids`. */
export const readWithOperatorIds = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<MessageWithOperatorIds>> =>
  q<MessageWithOperatorIds[]>`
    SELECT ${selectList<MessageWithOperatorIds>(q, {
      id: 'm.id',
      recipient: 'm.recipient',
      class: 'm.class',
      status: 'm.status',
      reason_code: 'm.reason_code',
      attempts: 'm.attempts',
      seen: 'm.seen',
      operator: 'o.operator',
      operator_ids: 'o.operator_ids',
    })}
    FROM unnest(${[...ids]}::uuid[]) AS asked (id)
    CROSS JOIN LATERAL (SELECT * FROM read.messages WHERE id = asked.id LIMIT 1) AS m
    CROSS JOIN LATERAL (
      SELECT max(operator) AS operator, array_agg(operator_id) AS operator_ids
      FROM read.operator_ids WHERE message_id = asked.id) AS o`

/** The recipients of messages with these UUIDs. Unknown and incomplete messages are left out. */
export const readRecipients = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<{ readonly id: string; readonly recipient: Buffer }>> =>
  q<{ id: string; recipient: Buffer }[]>`
    SELECT m.id, m.recipient FROM unnest(${[...ids]}::uuid[]) AS asked (id)
    CROSS JOIN LATERAL (SELECT id, recipient FROM read.messages WHERE id = asked.id LIMIT 1) AS m
    WHERE m.recipient IS NOT NULL`

/**
 * The newest messages (UUIDs) to a recipient (hash, hexadecimal) of the last year, of one account
 * (UUID) or of all, before the message `below`. Earlier messages have no index by recipient.
 */
export const findOfRecipient = async (
  q: Queries,
  recipient: string,
  account: string | null,
  limit: number,
  below: string | null = null,
): Promise<ReadonlyArray<string>> => {
  const rows = await q<{ id: string }[]>`
    SELECT m.id FROM read.personal_data p
     CROSS JOIN LATERAL (SELECT id, account FROM read.messages WHERE id = p.message_id LIMIT 1) AS m
     WHERE p.recipient = decode(${recipient}, 'hex') AND p.created_at > now() - interval '1 year'
       ${below === null ? q`` : q`AND p.message_id < ${below}`}
       AND m.account IS NOT NULL AND (${account}::uuid IS NULL OR m.account = ${account})
     ORDER BY p.message_id DESC LIMIT ${limit}`
  return rows.map(({ id }) => id)
}

/** The oldest open message of a class in one status. */
export interface OldestOpen {
  readonly class: MessageClass
  readonly mode: Mode
  readonly status: 'accepted' | 'sent'
  /** UUIDs. */
  readonly id: string
  readonly account: string
  readonly created_at: Date
}

/** The oldest open message of each class, mode and status: the first row of a range of an index. */
export const readOldestOpen = async (q: Queries): Promise<ReadonlyArray<OldestOpen>> =>
  q<OldestOpen[]>`
    SELECT DISTINCT ON (c.class, m.mode, s.status) c.class, m.mode, s.status, o.id, a.id AS account, o.created_at
      FROM command.accounts a
     CROSS JOIN unnest(enum_range(NULL::command.mode)) AS m (mode)
     CROSS JOIN unnest(enum_range(NULL::command.class)) AS c (class)
     CROSS JOIN unnest('{accepted,sent}'::text[]) AS s (status)
     CROSS JOIN LATERAL (
           SELECT r.id, r.created_at FROM read.messages r
            WHERE r.account = a.id AND r.mode = m.mode AND r.class = c.class AND r.status = s.status
            ORDER BY r.created_at, r.id LIMIT 1) AS o
     ORDER BY c.class, m.mode, s.status, o.created_at, o.id`
