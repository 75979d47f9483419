/**
 * The commands that senders and templates share. The SMS operator decides about both, and hub staff
 * record the decision: the row and the event to the account are one transaction.
 */
import {
  encodeId,
  type IdPrefix,
  type ModerationDecision,
  type ModerationState,
  type PublicEvent,
} from '@hub/domain'
import { CommandEventInbox, type ModeratedRow, type ModerationFilter, type Queries, Sql } from '@hub/store'
import { Clock, Effect } from 'effect'
import { audited } from '../audit/audit-trail.ts'
import {
  accountFlag,
  choiceFlag,
  type Id,
  idArgument,
  limitFlag,
  modeFlag,
  reasonFlag,
} from '../command-line/arguments.ts'
import { defineCommand, NOTHING } from '../command-line/command.ts'
import { database, query } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { type Cell, type Columns, fields, show, showList } from '../command-line/output.ts'

/** Help texts of one command. */
interface Texts {
  readonly short: string
  readonly about: string
  readonly changes?: string
  /** The command line without `hubctl <group> <command>`. */
  readonly example?: string
}

/** What differs between senders and templates. */
interface Moderated<Status extends string, Row extends ModeratedRow & ModerationState<Status>, Value> {
  readonly kind: 'sender' | 'template'
  readonly prefix: IdPrefix
  readonly statuses: ReadonlyArray<Status>
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
  readonly toJson: (row: Row) => Value
  readonly columns: Columns<Value>
  /** The JSON of the command `show`. */
  readonly details: (row: Row) => Readonly<Record<string, Cell | object>>
  readonly texts: Readonly<Record<'queue' | 'list' | 'show' | 'approve' | 'decline', Texts>>
}

/** The fields that the JSON of both kinds begins with. */
export const commonFields = (kind: 'sender' | 'template', prefix: IdPrefix, row: ModeratedRow) => ({
  id: encodeId(prefix, row.id),
  object: kind,
  account: encodeId('acc', row.account),
  mode: row.mode,
  name: row.name,
})

export const moderationCommands = <
  Status extends string,
  Row extends ModeratedRow & ModerationState<Status>,
  Value,
>({
  columns,
  details,
  event,
  kind,
  moderate,
  prefix,
  statuses,
  table,
  texts,
  toJson,
  waiting,
}: Moderated<Status, Row, Value>) => {
  const group = `${kind}s`
  const idOf = idArgument(prefix, kind, `An id from hubctl ${group} list`)
  const exampleId = `${prefix}_01m7yt89qhe54swwc8wkxj6n8e`
  const notFound = (id: Id) => refused(`${kind}_not_found`, `There is no ${kind} ${id.id}.`)

  /** The help of a command. Without `example`, the example shows one id. */
  const guide = (name: keyof typeof texts) => {
    const { about, changes = NOTHING, example = exampleId, short } = texts[name]
    const command = `hubctl ${group} ${name} ${example}`.trimEnd()
    return { short, about, changes, examples: [{ command }], needs: database } as const
  }

  const find = (filter: Partial<ModerationFilter>) =>
    query((q) => table.find(q, { id: null, account: null, mode: null, status: null, limit: 1, ...filter }))

  const decide = Effect.fnUntraced(function* (id: Id, decision: ModerationDecision) {
    const sql = yield* Sql
    const now = yield* Clock.currentTimeMillis
    const saved = yield* sql.transaction(async (q): Promise<Row | 'not found' | 'unchanged'> => {
      const row = await table.lock(q, id.uuid)
      if (row === null) return 'not found'
      const after = moderate(row, decision)
      if (after === null) return 'unchanged'
      await table.saveDecision(q, row.id, after)
      const decided = { ...row, ...after }
      const published = event({ ...decided, id: id.id, createdAt: row.created_at.getTime() }, now)
      await CommandEventInbox.insert(q, row, published)
      return decided
    })
    if (saved === 'not found') return yield* notFound(id)
    if (saved === 'unchanged') {
      const message = `${id.id} already has this decision. Nothing was changed.`
      return yield* refused('already_decided', message)
    }
    return saved
  })

  /** Records a decision in the audit trail and the database. */
  const record = Effect.fnUntraced(function* (command: string, id: Id, decision: ModerationDecision) {
    const reason = decision.approved ? {} : { reason: decision.reason }
    const row = yield* audited(
      { command: `${group} ${command}`, arguments: { [kind]: id.id, ...reason } },
      decide(id, decision),
      ({ status }) => ({ status }),
    )
    yield* show(toJson(row), () =>
      fields({ [kind]: id.id, name: row.name, status: row.status, reason: row.reason }),
    )
  })

  const queue = defineCommand(
    'queue',
    guide('queue'),
    { account: accountFlag, limit: limitFlag },
    Effect.fnUntraced(function* ({ account, limit }) {
      const rows = yield* find({ account, mode: 'live', status: waiting, limit })
      yield* showList(rows.map(toJson), columns, 'Nothing waits.')
    }),
  )

  const list = defineCommand(
    'list',
    guide('list'),
    {
      account: accountFlag,
      mode: modeFlag,
      status: choiceFlag('status', statuses, 'Only this status'),
      limit: limitFlag,
    },
    Effect.fnUntraced(function* (filter) {
      yield* showList((yield* find(filter)).map(toJson), columns, 'There are none.')
    }),
  )

  const showOne = defineCommand(
    'show',
    guide('show'),
    { id: idOf },
    Effect.fnUntraced(function* ({ id }) {
      const [row] = yield* find({ id: id.uuid })
      if (row === undefined) return yield* notFound(id)
      yield* show(details(row), (value) =>
        fields(
          Object.fromEntries(
            Object.entries(value).map(([name, cell]) => [
              name,
              typeof cell === 'object' && cell !== null ? JSON.stringify(cell) : cell,
            ]),
          ),
        ),
      )
    }),
  )

  const approve = defineCommand('approve', guide('approve'), { id: idOf }, ({ id }) =>
    record('approve', id, { approved: true }),
  )

  const decline = defineCommand(
    'decline',
    guide('decline'),
    { id: idOf, reason: reasonFlag('The reason, which the account sees') },
    ({ id, reason }) => record('decline', id, { approved: false, reason }),
  )

  return [queue, list, showOne, approve, decline] as const
}
