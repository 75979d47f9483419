/**
 * The commands that senders and templates share. The SMS operator decides about both, and hub staff
 * record the decision.
 */
import { type Cell, type Columns, fields, NOTHING, show, showList } from '@hub/command-line'
import type { IdPrefix, Mode } from '@hub/domain'
import type { UseCase } from '@hub/operations'
import type { Sql } from '@hub/store'
import { Effect } from 'effect'
import {
  accountFlag,
  choiceFlag,
  idArgument,
  limitFlag,
  modeFlag,
  reasonFlag,
} from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

/** Help texts of one command. */
interface Texts {
  readonly short: string
  readonly about: string
  readonly changes?: string
  /** The command line without `hubctl <group> <command>`. */
  readonly example?: string
}

/** What every row of both kinds has. */
interface ModeratedValue {
  readonly id: string
  readonly name: string
  readonly status: string
  readonly reason: string | null
}

interface PageInput {
  readonly account: string | null
  readonly limit: number
  readonly cursor: string | null
}

interface IdInput {
  readonly id: string
}

interface Rows<Value> {
  readonly data: ReadonlyArray<Value>
}

/** What differs between senders and templates. */
interface Moderated<Status extends string, Value extends ModeratedValue, Details extends object, E> {
  readonly kind: 'sender' | 'template'
  readonly prefix: IdPrefix
  readonly statuses: ReadonlyArray<Status>
  readonly useCases: {
    readonly queue: UseCase<PageInput, Rows<Value>, E, Sql>
    readonly list: UseCase<
      PageInput & { readonly mode: Mode | null; readonly status: Status | null },
      Rows<Value>,
      E,
      Sql
    >
    readonly get: UseCase<IdInput, Details, E, Sql>
    readonly approve: UseCase<IdInput, Value, E, Sql>
    readonly decline: UseCase<IdInput & { readonly reason: string }, Value, E, Sql>
  }
  readonly columns: Columns<Value>
  readonly texts: Readonly<Record<'queue' | 'list' | 'show' | 'approve' | 'decline', Texts>>
}

export const moderationCommands = <
  Status extends string,
  Value extends ModeratedValue,
  Details extends object,
  E,
>({
  columns,
  kind,
  prefix,
  statuses,
  texts,
  useCases,
}: Moderated<Status, Value, Details, E>) => {
  const group = `${kind}s`
  const idOf = idArgument(prefix, kind, `An id from hubctl ${group} list`)
  const exampleId = `${prefix}_01m7yt89qhe54swwc8wkxj6n8e`

  /** The help of a command. Without `example`, the example shows one id. */
  const guide = (name: keyof typeof texts) => {
    const { about, changes = NOTHING, example = exampleId, short } = texts[name]
    const command = `hubctl ${group} ${name} ${example}`.trimEnd()
    return { short, about, changes, examples: [{ command }] } as const
  }

  const showDecided = (value: Value) =>
    show(value, () =>
      fields({ [kind]: value.id, name: value.name, status: value.status, reason: value.reason }),
    )

  const queue = defineCommand(
    'queue',
    guide('queue'),
    { account: accountFlag, limit: limitFlag },
    Effect.fnUntraced(function* ({ account, limit }) {
      const { data } = yield* run(useCases.queue, { account, limit, cursor: null })
      yield* showList(data, columns, 'Nothing waits.')
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
      const { data } = yield* run(useCases.list, { ...filter, cursor: null })
      yield* showList(data, columns, 'There are none.')
    }),
  )

  const showOne = defineCommand(
    'show',
    guide('show'),
    { id: idOf },
    Effect.fnUntraced(function* ({ id }) {
      yield* show(yield* run(useCases.get, { id }), (details) =>
        fields(
          Object.fromEntries(
            Object.entries(details).map(([name, cell]: [string, unknown]) => [
              name,
              typeof cell === 'object' && cell !== null ? JSON.stringify(cell) : (cell as Cell),
            ]),
          ),
        ),
      )
    }),
  )

  const approve = defineCommand('approve', guide('approve'), { id: idOf }, ({ id }) =>
    Effect.flatMap(run(useCases.approve, { id }), showDecided),
  )

  const decline = defineCommand(
    'decline',
    guide('decline'),
    { id: idOf, reason: reasonFlag('The reason, which the account sees') },
    ({ id, reason }) => Effect.flatMap(run(useCases.decline, { id, reason }), showDecided),
  )

  return [queue, list, showOne, approve, decline] as const
}
