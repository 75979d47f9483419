/** `read.messages`: one row for each message, with its current status. */
import {
  encodeId,
  type MessageAccepted,
  type MessageClass,
  type Mode,
  type ReasonCode,
  type Status,
  toTimestamp,
} from '@hub/domain'
import { type Queries, selectList, sqlArray } from '@hub/store'
import { derivedColumns } from '../messages/fold.ts'
import type { MessageRow } from '../messages/row.ts'
import { type Column, insertRows, replace } from './bulk-rows.ts'
import { accountUuid, batchUuid, messageUuid, type ReadSchema, tableIn } from './read-schema.ts'

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
  readonly number_range: string | null
  readonly updated_at: Date
  readonly status: Status
  readonly reason_code: ReasonCode | null
  readonly attempts: number
  /** `null` if it equals `attempts`. */
  readonly claims: number | null
  /** `null`: false. */
  readonly claim_open: boolean | null
  readonly handed_over: boolean
  readonly seen: boolean
  readonly sent_at: Date | null
  readonly timed_out_at: Date | null
  readonly final_at: Date | null
}

/**
 * The stored rows of messages, by id (`msg_…`). The statement finds each row by one index probe in
 * its monthly partition, and opens no partition outside the range of the ids (docs/decisions/queries.md#plans
 * and 0018).
 */
export const readMessages = async (
  q: Queries,
  messageIds: ReadonlyArray<string>,
  schema: ReadSchema = 'read',
): Promise<ReadonlyMap<string, MessageRow>> => {
  const ids = messageIds.map(messageUuid).toSorted()
  const [first, last] = [ids[0] ?? null, ids.at(-1) ?? null]
  const rows = await q<MessageRecord[]>`
    SELECT ${selectList<MessageRecord>(q, {
      id: 'm.id',
      account: 'm.account',
      mode: 'm.mode',
      class: 'm.class',
      template: 'm.template',
      client_ref: 'm.client_ref',
      batch_id: 'm.batch_id',
      parts: 'm.parts',
      price: 'm.price',
      currency: 'm.currency',
      created_at: 'm.created_at',
      number_range: 'm.number_range',
      updated_at: 'm.updated_at',
      status: 'm.status',
      reason_code: 'm.reason_code',
      attempts: 'm.attempts',
      claims: 'm.claims',
      claim_open: 'm.claim_open',
      handed_over: 'm.handed_over',
      seen: 'm.seen',
      sent_at: 'm.sent_at',
      timed_out_at: 'm.timed_out_at',
      final_at: 'm.final_at',
    })}
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
                  numberRange: row.number_range,
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
          // A projector of an older version changes `attempts` alone.
          claims: Math.max(row.claims ?? 0, row.attempts),
          claimOpen: row.claim_open ?? false,
          acceptedByOperator: row.handed_over,
          seen: row.seen,
          updatedAt: row.updated_at.getTime(),
          sentAt: row.sent_at?.getTime() ?? null,
          timedOutAt: row.timed_out_at?.getTime() ?? null,
          finalAt: row.final_at?.getTime() ?? null,
        },
      ]
    }),
  )
}

interface Written {
  readonly row: MessageRow & ReturnType<typeof derivedColumns>
}
interface WrittenAcceptance extends Written {
  readonly fact: MessageAccepted
}

const ID: Column<Written> = { name: 'id', type: 'uuid', value: ({ row }) => messageUuid(row.messageId) }

type Columns<Name extends string, Row> = Readonly<Record<Name, Omit<Column<Row>, 'name'>>>

const columnsOf = <Row>(columns: Columns<string, Row>): ReadonlyArray<Column<Row>> =>
  Object.entries(columns).map(([name, column]) => ({ name, ...column }))

type AcceptanceColumn =
  | 'account'
  | 'mode'
  | 'class'
  | 'recipient'
  | 'template'
  | 'sender'
  | 'client_ref'
  | 'parts'
  | 'currency'
  | 'variables'
  | 'created_at'
  | 'number_range'

/** Each column that is read must be written, too. */
type StatusColumn = Exclude<keyof MessageRecord, AcceptanceColumn | 'id'> | 'rank' | 'final'

const timeOrNull = (at: number | null) => (at === null ? null : toTimestamp(at))

/** The columns that facts of the log change. */
const STATUS_COLUMNS = columnsOf<Written>({
  updated_at: { type: 'timestamptz', value: ({ row }) => toTimestamp(row.updatedAt) },
  status: { type: 'text', value: ({ row }) => row.status },
  rank: { type: 'smallint', value: ({ row }) => row.rank },
  final: { type: 'boolean', value: ({ row }) => row.final },
  reason_code: { type: 'text', value: ({ row }) => row.reason },
  attempts: { type: 'smallint', value: ({ row }) => row.attempts },
  claims: { type: 'smallint', value: ({ row }) => (row.claims === row.attempts ? null : row.claims) },
  claim_open: { type: 'boolean', value: ({ row }) => (row.claimOpen ? true : null) },
  handed_over: { type: 'boolean', value: ({ row }) => row.acceptedByOperator },
  seen: { type: 'boolean', value: ({ row }) => row.seen },
  sent_at: { type: 'timestamptz', value: ({ row }) => timeOrNull(row.sentAt) },
  timed_out_at: { type: 'timestamptz', value: ({ row }) => timeOrNull(row.timedOutAt) },
  final_at: { type: 'timestamptz', value: ({ row }) => timeOrNull(row.finalAt) },
  price: { type: 'numeric', value: ({ row }) => row.price?.amount ?? null },
  batch_id: {
    type: 'uuid',
    value: ({ row: { subject } }) =>
      subject === null || subject.batch === null ? null : batchUuid(subject.batch),
  },
} satisfies Columns<StatusColumn, Written>)

/** The columns that only the acceptance defines. */
const ACCEPTANCE_COLUMNS = columnsOf<WrittenAcceptance>({
  account: { type: 'uuid', value: ({ fact }) => accountUuid(fact.account) },
  mode: { type: 'command.mode', value: ({ fact }) => fact.mode },
  class: { type: 'command.class', value: ({ fact }) => fact.class },
  recipient: { type: 'bytea', value: ({ fact }) => fact.recipient },
  template: { type: 'text', isFree: true, value: ({ fact }) => fact.template },
  sender: { type: 'text', isFree: true, value: ({ fact }) => fact.sender },
  client_ref: { type: 'text', isFree: true, value: ({ fact }) => fact.clientRef },
  parts: { type: 'smallint', value: ({ fact }) => fact.parts },
  currency: { type: 'text', value: ({ fact }) => fact.price.currency },
  variables: {
    type: 'text',
    isFree: true,
    value: ({ fact }) => JSON.stringify(fact.variables),
    stored: 'ARRAY(SELECT json_array_elements_text(variables::json))',
  },
  created_at: { type: 'timestamptz', value: ({ fact }) => toTimestamp(fact.at) },
  number_range: { type: 'text', value: ({ fact }) => fact.numberRange },
} satisfies Columns<AcceptanceColumn, WrittenAcceptance>)

const upsert = <Row extends Written>(
  q: Queries,
  schema: ReadSchema,
  columns: ReadonlyArray<Column<Row>>,
  rows: ReadonlyArray<Row>,
) => q`
  ${insertRows(q, `${schema}.messages`, [ID, ...columns], rows)}
  ON CONFLICT (id) DO UPDATE SET ${replace(q, columns)}`

const written = (row: MessageRow): Written['row'] => ({ ...row, ...derivedColumns(row) })

/** Writes all columns of messages that are accepted in this transaction. */
export const writeAccepted = (
  q: Queries,
  accepted: ReadonlyArray<{ readonly row: MessageRow; readonly fact: MessageAccepted }>,
  schema: ReadSchema = 'read',
) =>
  upsert<WrittenAcceptance>(
    q,
    schema,
    [...ACCEPTANCE_COLUMNS, ...STATUS_COLUMNS],
    accepted.map(({ fact, row }) => ({ fact, row: written(row) })),
  )

/**
 * Writes the columns that facts of the log change, for rows with and without an acceptance. A row
 * that exists is a conflict on its id. So PostgreSQL finds it in its monthly partition, where the
 * plan of a join would read all partitions.
 */
export const writeStatuses = (q: Queries, changed: ReadonlyArray<MessageRow>, schema: ReadSchema = 'read') =>
  upsert(
    q,
    schema,
    STATUS_COLUMNS,
    changed.map((row) => ({ row: written(row) })),
  )
