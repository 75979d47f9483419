/**
 * What senders and templates share. The SMS operator decides about both, and hub staff record the
 * decision: the row and the event to the account are one transaction.
 */
import {
  encodeId,
  type IdPrefix,
  type ModerationDecision,
  type ModerationState,
  type PublicEvent,
} from '@hub/domain'
import {
  CommandEventInbox,
  type ModeratedRow,
  type ModerationFilter,
  type Queries,
  Sql,
  uuidOf,
} from '@hub/store'
import { Clock, Effect, Schema } from 'effect'
import { OperationRefused, refused } from './failures.ts'
import { Reason, Mode, publicId, Timestamp } from './fields.ts'
import { decodeRowCursor, pageFields, pageOf, rowKey } from './pages.ts'
import { query } from './sql.ts'
import { readDecision } from './tables/audit.ts'

const account = Schema.NullOr(publicId('acc'))

/** The input of `queue`. */
export const QueueInput = Schema.Struct({ account, ...pageFields })

/** What the queue shows of each row, beside the row. */
export const waitingFields = {
  waiting_seconds: Schema.Int.annotate({ description: 'Since it was submitted.' }),
}

/** The input of `list`. */
export const listInput = <const Status extends string>(statuses: ReadonlyArray<Status>) =>
  Schema.Struct({
    account,
    mode: Schema.NullOr(Mode),
    status: Schema.NullOr(Schema.Literals(statuses)),
    ...pageFields,
  })

export const idInput = (prefix: IdPrefix) => Schema.Struct({ id: publicId(prefix) })

/** The input of `decline`. The account sees the reason, in an event. */
export const declineInput = (prefix: IdPrefix) => Schema.Struct({ id: publicId(prefix), reason: Reason })

/** Who decided last, and when. */
export const Decision = Schema.NullOr(Schema.Struct({ by: Schema.String, at: Timestamp })).annotate({
  description: 'Who decided last, and when; `null`: nobody yet, or a process of the hub.',
})

const decisionOf = Effect.fnUntraced(function* (id: string) {
  const row = yield* query((q) => readDecision(q, id))
  return row === null ? null : { by: row.actor, at: row.at.toISOString() }
})

/** What differs between senders and templates. */
interface Moderated<Status extends string, Row extends ModeratedRow & ModerationState<Status>, Value> {
  readonly kind: 'sender' | 'template'
  readonly prefix: IdPrefix
  /** The status before a decision. */
  readonly waiting: Status
  readonly table: {
    readonly find: (q: Queries, filter: ModerationFilter) => Promise<ReadonlyArray<Row>>
    readonly lock: (q: Queries, id: string) => Promise<Row | null>
    readonly saveDecision: (q: Queries, id: string, after: ModerationState<Status>) => Promise<void>
  }
  readonly moderate: (row: Row, decision: ModerationDecision) => ModerationState<Status> | null
  /** The event of a decision. The row has its public id. */
  readonly event: (row: Row & { readonly createdAt: number }, now: number) => PublicEvent
  readonly toValue: (row: Row) => Value
}

/** The fields that the JSON of both kinds begins with. */
export const commonFields = <const Kind extends 'sender' | 'template'>(
  kind: Kind,
  prefix: IdPrefix,
  row: ModeratedRow,
) => ({
  id: encodeId(prefix, row.id),
  object: kind,
  account: encodeId('acc', row.account),
  mode: row.mode,
  name: row.name,
})

const ANY: Omit<ModerationFilter, 'limit'> = {
  id: null,
  account: null,
  mode: null,
  status: null,
  after: null,
}

/** The parts of the use cases that both kinds share. */
export const moderated = <
  Status extends string,
  Row extends ModeratedRow & ModerationState<Status>,
  Value extends { readonly created_at: string },
>({
  event,
  kind,
  moderate,
  prefix,
  table,
  toValue,
  waiting,
}: Moderated<Status, Row, Value>) => {
  const notFound = (id: string) => refused(`${kind}_not_found`, `There is no ${kind} ${id}.`, 'id')

  const readPage = Effect.fnUntraced(function* (
    filter: Pick<ModerationFilter, 'mode' | 'status'> & {
      /** A public id. */
      readonly account: string | null
      readonly limit: number
      readonly cursor: string | null
    },
  ) {
    const after = yield* decodeRowCursor(filter.cursor)
    const rows = yield* query((q) =>
      table.find(q, {
        ...ANY,
        account: filter.account === null ? null : uuidOf('acc', filter.account),
        mode: filter.mode,
        status: filter.status,
        after,
        limit: filter.limit + 1,
      }),
    )
    return pageOf(rows, filter.limit, toValue, rowKey)
  })

  return {
    list: readPage,

    /** Live rows without a decision, with the time that they have waited. */
    queue: Effect.fnUntraced(function* (page: typeof QueueInput.Type) {
      const now = yield* Clock.currentTimeMillis
      const found = yield* readPage({ ...page, mode: 'live', status: waiting })
      const waitedFor = (createdAt: string) => Math.max(0, Math.floor((now - Date.parse(createdAt)) / 1000))
      return {
        ...found,
        data: found.data.map((value) => ({ ...value, waiting_seconds: waitedFor(value.created_at) })),
      }
    }),

    get: Effect.fnUntraced(function* (id: string) {
      const [row] = yield* query((q) => table.find(q, { ...ANY, id: uuidOf(prefix, id), limit: 1 }))
      if (row === undefined) return yield* notFound(id)
      return { row, decision: yield* decisionOf(id) }
    }),

    decide: Effect.fnUntraced(function* (id: string, decision: ModerationDecision) {
      const sql = yield* Sql
      const now = yield* Clock.currentTimeMillis
      const saved = yield* sql.transaction(async (q): Promise<Row | 'not found' | 'unchanged'> => {
        const row = await table.lock(q, uuidOf(prefix, id))
        if (row === null) return 'not found'
        const after = moderate(row, decision)
        if (after === null) return 'unchanged'
        await table.saveDecision(q, row.id, after)
        const decided = { ...row, ...after }
        const published = event({ ...decided, id, createdAt: row.created_at.getTime() }, now)
        await CommandEventInbox.insert(q, row, published)
        return decided
      })
      if (saved === 'not found') return yield* notFound(id)
      if (saved === 'unchanged') {
        const decision = yield* decisionOf(id)
        return yield* new OperationRefused({
          code: 'already_decided',
          message: `${id} already has this decision${decision === null ? '' : `, by ${decision.by}`}. Nothing was changed.`,
          ...(decision === null ? {} : { details: decision }),
        })
      }
      return toValue(saved)
    }),
  }
}
