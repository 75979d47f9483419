/** The tables of the projectors' store as text, in the form of the checker of the read models. */
import { derivedColumns } from '@hub/projector'
import { type MemoryStore } from '@hub/projector/testing'
import { moneyOf } from '@hub/domain'
import { uuidOf } from '../../support/checker/ids.ts'
import type { LiveTables } from '../../support/checker/live-tables.ts'
import type {
  EachMessageColumn,
  Row,
  StatusColumns,
  Table,
  TableName,
} from '../../support/checker/reference-projection.ts'

const text = (value: unknown): string => String(value)
const orNull = (value: unknown): string | null => (value === null ? null : text(value))

type Counts = ReturnType<MemoryStore['tables']['dailyStats']['get']>

const countsOf = ({ units, ...counts }: NonNullable<Counts>): Row => ({
  ...Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, text(count)])),
  price: moneyOf(units, 'RUB').amount,
})

const messagesOf = ({ facts, messages }: MemoryStore['tables']): Table =>
  new Map(
    [...messages.values()].map((row): [string, Row] => {
      const { final, price, rank } = derivedColumns(row)
      const common: StatusColumns = {
        updated_at: text(row.updatedAt),
        status: row.status,
        rank: text(rank),
        final: text(final),
        reason_code: row.reason,
        attempts: text(row.attempts),
        handed_over: text(row.acceptedByOperator),
        seen: text(row.seen),
        sent_at: orNull(row.sentAt),
        timed_out_at: orNull(row.timedOutAt),
        final_at: orNull(row.finalAt),
      }
      const fact = facts.get(row.messageId)
      const { subject } = row
      const id = uuidOf(row.messageId)
      if (subject === null || fact === undefined) return [id, { account: null, ...common }]
      const accepted: EachMessageColumn<string | null> = {
        account: uuidOf(subject.account),
        mode: subject.mode,
        class: subject.class,
        recipient: fact.recipient,
        template: subject.template,
        sender: fact.sender,
        client_ref: subject.clientRef,
        batch_id: subject.batch === null ? null : uuidOf(subject.batch),
        parts: text(subject.parts),
        price: price?.amount ?? null,
        currency: subject.price.currency,
        variables: fact.variables.join(','),
        created_at: text(subject.at),
        number_range: subject.numberRange,
        ...common,
      }
      return [id, accepted]
    }),
  )

export const liveTablesOf = (
  { tables }: MemoryStore,
  subscribedAfter: ReadonlyMap<string, number>,
): LiveTables => {
  const statistics = (table: typeof tables.dailyStats, keyOf: (columns: Array<string>) => string): Table =>
    new Map(
      [...table].flatMap(([key, counts]) =>
        counts.accepted === 0 ? [] : [[keyOf(key.split(' ')), countsOf(counts)] as const],
      ),
    )
  const hourlyKey = ([hour, account, ...rest]: Array<string>): string =>
    [Date.parse(hour ?? ''), uuidOf(account ?? ''), ...rest].join(' ')
  const all: Readonly<Record<TableName, Table>> = {
    messages: messagesOf(tables),
    operator_ids: new Map(
      [...tables.operatorIds.values()].map(({ messageId, operator, operatorId, sentAt }) => [
        `${operator} ${operatorId} ${uuidOf(messageId)}`,
        { sent_at: text(sentAt) },
      ]),
    ),
    personal_data: new Map(
      [...tables.personalData.keys()].flatMap((messageId) => {
        const fact = tables.facts.get(messageId)
        return fact === undefined
          ? []
          : [[uuidOf(messageId), { recipient: fact.recipient, created_at: text(fact.at) }] as const]
      }),
    ),
    batches: new Map(
      [...tables.batches.values()].map((row) => [
        uuidOf(row.batch),
        {
          account: uuidOf(row.account),
          mode: row.mode,
          created_at: orNull(row.seal?.createdAt ?? null),
          sealed_at: orNull(row.seal?.at ?? null),
          total: orNull(row.seal?.total ?? null),
          accepted: orNull(row.seal?.accepted ?? null),
          duplicate: orNull(row.seal?.duplicate ?? null),
          rejected: orNull(row.seal?.rejected ?? null),
          members: text(row.members),
          final: text(row.final),
          delivered: text(row.delivered),
          undelivered: text(row.undelivered),
          rejected_by_operator: text(row.rejected),
          expired: text(row.expired),
          closed: text(row.closed),
        },
      ]),
    ),
    charges: new Map(
      [...tables.charges.values()].map(({ account, amount, at, kind, messageId, period }) => [
        `${uuidOf(messageId)} ${kind}`,
        {
          account: uuidOf(account),
          period,
          amount: amount.amount,
          currency: amount.currency,
          created_at: text(at),
        },
      ]),
    ),
    daily_stats: statistics(tables.dailyStats, ([day, account, ...rest]) =>
      [day, uuidOf(account ?? ''), ...rest].join(' '),
    ),
    hourly_stats: statistics(tables.hourlyStats, hourlyKey),
    range_stats: statistics(tables.rangeStats, hourlyKey),
  }
  const journal = [...tables.journals.values()].flatMap(({ events }) =>
    events.map((event) => ({ ...event, account: uuidOf(event.account), id: uuidOf(event.id) })),
  )
  return {
    tables: all,
    journal,
    heads: new Map(
      [...tables.journals.values()].flatMap(({ events }) => {
        const last = events.at(-1)
        return last === undefined ? [] : [[`${uuidOf(last.account)} ${last.mode}`, last.sequence] as const]
      }),
    ),
    subscribedAfter,
    applied: [...tables.checkpoints.values()].reduce((sum, { position }) => sum + position, 0),
  }
}
