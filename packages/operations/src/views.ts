/**
 * Saved views: a name for a list with its filters, for its owner or for all hub staff. Shared views belong to all who
 * may share: each of them may change one, and the audit trail says who did.
 */
import { randomUUID } from 'node:crypto'
import { decodeId, fromTimestamp } from '@hub/domain'
import { CommandAccounts, type StorageError, uuidOf, WebhooksEndpoints } from '@hub/store'
import { Effect, Exit, Schema } from 'effect'
import type { Actor } from './actor.ts'
import * as Audit from './audit.ts'
import * as DeadLetters from './dead-letters.ts'
import { PAGE_PARAMETERS } from './export.ts'
import { inputInvalid, type OperationRefused, refused } from './failures.ts'
import { hasNoNumber, LineWithoutNumber, Timestamp, Uuid } from './fields.ts'
import { list as messages } from './messages/list.ts'
import * as OptOuts from './opt-outs.ts'
import { requirePermission } from './perform.ts'
import { allowingRole } from './permission.ts'
import * as Senders from './senders.ts'
import { query } from './sql.ts'
import * as Views from './tables/saved-views.ts'
import * as Templates from './templates.ts'
import { charges } from './usage/charges.ts'
import { defineUseCase } from './use-case.ts'
import * as Deliveries from './webhooks/deliveries.ts'
import * as Subscriptions from './webhooks/subscriptions.ts'

/** The lists that have views: those of the console with filters. A saved view has the name of its list. */
const LISTS = {
  messages,
  webhooks: Subscriptions.list,
  attempts: Deliveries.list,
  templates: Templates.list,
  senders: Senders.list,
  dead_letters: DeadLetters.list,
  usage: charges,
  opt_outs: OptOuts.list,
  audit: Audit.list,
} as const
type ListName = keyof typeof LISTS
const LIST_NAMES = Object.keys(LISTS) as ReadonlyArray<ListName>

const isList = (name: string): name is ListName => Object.hasOwn(LISTS, name)

/** Views of one person, private or shared: more do not help to find one. */
const MOST_VIEWS = 200

const MAX_NAME_LENGTH = 80

const Name = LineWithoutNumber.check(Schema.isMaxLength(MAX_NAME_LENGTH)).annotate({
  description: `One line of 1 to ${MAX_NAME_LENGTH} characters, without a phone number. Private views of one person, and shared views, have different names.`,
})

/** Longer than any filter of a list. */
const MAX_FILTER_LENGTH = 300

const isIdOrTime = (text: string): boolean =>
  /^[a-z]{2,3}_[0-9a-z]{26}$/u.test(text) || fromTimestamp(text) !== null

const Filters = Schema.Record(
  Schema.String,
  Schema.String.check(
    Schema.isMaxLength(MAX_FILTER_LENGTH),
    // Ids and times are digits, too.
    Schema.makeFilter((text: string) => isIdOrTime(text) || hasNoNumber(text) || 'expected no phone number'),
  ),
).annotate({ description: 'The parameters of the list as in its address, without those of pages.' })

const PROBLEMS = ['account_deleted', 'subscription_deleted', 'filter_unknown', 'filter_invalid'] as const

export const SavedView = Schema.Struct({
  id: Uuid,
  object: Schema.Literal('saved_view'),
  name: Schema.String,
  list: Schema.String.annotate({
    description: `One of ${LIST_NAMES.map((name) => `\`${name}\``).join(', ')}.`,
  }),
  filters: Schema.Record(Schema.String, Schema.String),
  shared: Schema.Boolean.annotate({ description: 'All hub staff see it. Otherwise only its owner does.' }),
  owner: Schema.String,
  created_at: Timestamp,
  changed_at: Timestamp,
}).annotate({ identifier: 'SavedView' })
export type SavedView = typeof SavedView.Type

const toValue = (row: Views.SavedView): SavedView => ({
  id: row.id,
  object: 'saved_view',
  name: row.name,
  list: row.list,
  filters: row.filters,
  shared: row.shared,
  owner: row.owner,
  created_at: row.created_at.toISOString(),
  changed_at: row.changed_at.toISOString(),
})

/** What is wrong with the filters of a view, by this version of the list. */
export const filterProblem = (
  list: ListName,
  filters: Readonly<Record<string, string>>,
): { readonly code: 'filter_unknown' | 'filter_invalid'; readonly filter: string } | null => {
  const fields: Readonly<Record<string, Schema.Top>> = LISTS[list].input.fields
  for (const [filter, text] of Object.entries(filters)) {
    const field =
      PAGE_PARAMETERS.includes(filter) || !Object.hasOwn(fields, filter) ? undefined : fields[filter]
    if (field === undefined) return { code: 'filter_unknown', filter }
    const decode = Schema.decodeUnknownExit(
      Schema.toCodecStringTree(field) as unknown as Schema.Codec<unknown, unknown>,
    )
    if (Exit.isFailure(decode(text))) return { code: 'filter_invalid', filter }
  }
  return null
}

const Problem = Schema.NullOr(
  Schema.Struct({ code: Schema.Literals(PROBLEMS), filter: Schema.String }),
).annotate({
  description:
    'Why the list cannot be read with these filters any more: the first wrong filter. `null`: it can be read.',
})

/** An account or a subscription of the filters that does not exist. */
const findDeleted = Effect.fnUntraced(function* ({
  account,
  webhook_endpoint: subscription,
}: Readonly<Record<string, string>>) {
  if (account !== undefined && decodeId('acc', account) !== null) {
    const uuid = uuidOf('acc', account)
    const names = yield* query((q) => CommandAccounts.readNames(q, [uuid]))
    if (!names.has(uuid)) return { code: 'account_deleted' as const, filter: 'account' }
  }
  if (subscription !== undefined && decodeId('we', subscription) !== null) {
    const exists = yield* query((q) => WebhooksEndpoints.exists(q, uuidOf('we', subscription)))
    if (!exists) return { code: 'subscription_deleted' as const, filter: 'webhook_endpoint' }
  }
  return null
})

const requireView = Effect.fnUntraced(function* (id: string, actor: Actor) {
  const row = yield* query((q) => Views.read(q, id, actor.id))
  return (
    row ?? (yield* refused('view_not_found', 'There is no such view. Its owner may have deleted it.', 'id'))
  )
})

/** Whether the actor may read the list of a view. */
const mayRead = (actor: Actor, list: string): boolean =>
  isList(list) && allowingRole(actor, LISTS[list].permission) !== null

/** The views that the actor may open, by name. */
export const list = defineUseCase({
  name: 'views list',
  permission: 'views.read',
  input: Schema.Struct({
    list: Schema.NullOr(Schema.Literals(LIST_NAMES)).annotate({
      description: 'Only views of this list.',
    }),
  }),
  output: Schema.Struct({ object: Schema.Literal('list'), data: Schema.Array(SavedView) }),
  audit: null,
  run: Effect.fnUntraced(function* ({ list: wanted }, actor) {
    const rows = yield* query((q) => Views.readVisible(q, actor.id))
    const shown = rows.filter((row) => mayRead(actor, row.list) && (wanted === null || row.list === wanted))
    return { object: 'list' as const, data: shown.map(toValue) }
  }),
})

export const get = defineUseCase({
  name: 'views show',
  permission: 'views.read',
  input: Schema.Struct({ id: Uuid }),
  output: Schema.Struct({ ...SavedView.fields, problem: Problem }),
  audit: null,
  run: Effect.fnUntraced(function* ({ id }, actor) {
    const row = yield* requireView(id, actor)
    if (!isList(row.list)) {
      return yield* refused('view_outdated', 'This version of the hub does not have the list of this view.')
    }
    yield* requirePermission(actor, LISTS[row.list].permission)
    const problem = filterProblem(row.list, row.filters) ?? (yield* findDeleted(row.filters))
    return { ...toValue(row), problem }
  }),
})

const nameTakenAsRefusal = <A, R>(
  effect: Effect.Effect<A, StorageError, R>,
): Effect.Effect<A, StorageError | OperationRefused, R> =>
  Effect.mapError(effect, (error) =>
    error._tag === 'StorageRejected' && Views.NAME_INDEXES.includes(error.constraint ?? '')
      ? refused(
          'view_name_taken',
          'Another view has this name. Choose another one, or delete that view.',
          'name',
        )
      : error,
  )

/** What the audit trail has about a view: the name and filters of a private one are nobody else's business. */
const factsOf = ({
  filters,
  list: of,
  name,
  shared,
}: Pick<SavedView, 'filters' | 'list' | 'name' | 'shared'>) =>
  shared
    ? {
        shared,
        list: of,
        name,
        filters: Object.entries(filters)
          .map(([filter, value]) => `${filter}=${value}`)
          .toSorted(),
      }
    : { shared, list: of }

export const save = defineUseCase({
  name: 'views save',
  permission: 'views.change',
  input: Schema.Struct({
    name: Name,
    list: Schema.Literals(LIST_NAMES),
    filters: Filters,
    shared: Schema.Boolean,
  }),
  output: SavedView,
  audit: factsOf,
  result: ({ id }) => ({ view: id }),
  run: Effect.fnUntraced(function* ({ filters, list: of, name, shared }, actor) {
    if (shared) yield* requirePermission(actor, 'views.share')
    yield* requirePermission(actor, LISTS[of].permission)
    const problem = filterProblem(of, filters)
    if (problem !== null) {
      const { code, filter } = problem
      return yield* inputInvalid(
        code === 'filter_unknown' ? 'The list has no such filter.' : 'The list does not take this value.',
        `filters.${filter}`,
      )
    }
    const view = { id: randomUUID(), name, list: of, filters, shared }
    const row = yield* nameTakenAsRefusal(query((q) => Views.insert(q, view, actor, MOST_VIEWS)))
    if (row === null) {
      return yield* refused('too_many_views', `You have ${MOST_VIEWS} views of this kind. Delete one first.`)
    }
    return toValue(row)
  }),
})

export const change = defineUseCase({
  name: 'views change',
  permission: 'views.change',
  input: Schema.Struct({
    id: Uuid,
    name: Schema.NullOr(Name).annotate({ description: '`null`: it stays.' }),
    shared: Schema.NullOr(Schema.Boolean).annotate({
      description:
        'Whether all hub staff see it. `null`: it stays. A view that is not shared any more is private to its owner.',
    }),
  }),
  output: SavedView,
  audit: ({ id, shared }) => ({ view: id, ...(shared === null ? {} : { shared }) }),
  result: factsOf,
  run: Effect.fnUntraced(function* ({ id, name, shared }, actor) {
    const row = yield* requireView(id, actor)
    if (row.shared || shared === true) yield* requirePermission(actor, 'views.share')
    const changed = { name: name ?? row.name, shared: shared ?? row.shared }
    const saved = yield* nameTakenAsRefusal(query((q) => Views.update(q, id, changed)))
    return toValue(saved ?? (yield* requireView(id, actor)))
  }),
})

export const remove = defineUseCase({
  name: 'views delete',
  permission: 'views.change',
  input: Schema.Struct({ id: Uuid }),
  output: SavedView,
  audit: ({ id }) => ({ view: id }),
  result: factsOf,
  run: Effect.fnUntraced(function* ({ id }, actor) {
    const row = yield* requireView(id, actor)
    if (row.shared) yield* requirePermission(actor, 'views.share')
    yield* query((q) => Views.remove(q, id))
    return toValue(row)
  }),
})
