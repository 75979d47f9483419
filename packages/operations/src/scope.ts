/**
 * What a member may do: only what concerns their accounts. `perform` is the one place that applies this, so it holds
 * for every way to call a use case.
 *
 * An id of another account is replaced by one that nothing has. So the answer is the one for an id that does not
 * exist, and says nothing about other accounts.
 */
import { randomBytes } from 'node:crypto'
import { type IdPrefix, NEW_ID_RANDOM_BYTES, newId } from '@hub/domain'
import { type Sql, type StorageError, timeOfUuid } from '@hub/store'
import { Effect } from 'effect'
import { type Actor, accountsOf } from './actor.ts'
import { OperationRefused, refused } from './failures.ts'
import { recognize } from './messages/recognize.ts'
import { ownerOf } from './owners.ts'
import { query } from './sql.ts'
import type { UseCase } from './use-case.ts'

/** An input within the accounts of its actor. */
export interface Scoped<Input> {
  /** For `run`. */
  readonly input: Input
  /** What the actor asked for, for the audit trail. */
  readonly asked: Input
  /** Puts the ids that were asked for back into the message of a refusal. */
  readonly restore: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

const unscoped = <Input>(input: Input): Scoped<Input> => ({ input, asked: input, restore: (work) => work })

/** Rebuilds a value of JSON with each text replaced. */
const mapTexts = (value: unknown, replace: (text: string) => string): unknown => {
  if (typeof value === 'string') return replace(value)
  if (Array.isArray(value)) return value.map((one) => mapTexts(one, replace))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, mapTexts(one, replace)]))
}

/** The account of an input that names none: that of its ids, or the only one of the member. */
const onlyAccount = (accounts: ReadonlyArray<string>): Effect.Effect<string, OperationRefused> => {
  const [only, ...others] = accounts
  if (only === undefined)
    return Effect.fail(
      refused('no_account', 'You are a member of no account. Ask the people who run the hub.', 'account'),
    )
  return others.length === 0
    ? Effect.succeed(only)
    : Effect.fail(refused('account_required', 'Choose one of your accounts.', 'account'))
}

/** An id of the same kind and time that nothing has. */
const unusedId = (prefix: IdPrefix, uuid: string): string =>
  newId(prefix, timeOfUuid(uuid), randomBytes(NEW_ID_RANDOM_BYTES))

const scopeOfMember = Effect.fnUntraced(function* <Input>(
  accounts: ReadonlyArray<string>,
  input: Input,
): Effect.fn.Return<Scoped<Input>, OperationRefused | StorageError, Sql> {
  const texts = new Set<string>()
  mapTexts(input, (text) => {
    texts.add(text)
    return text
  })
  const replaced = new Map<string, string>()
  const own = new Set<string>()
  for (const text of texts) {
    const named = recognize(text)
    // A request belongs to no account. The account of the input limits what is shown of it.
    if (named.kind !== 'id' || named.prefix === 'req') continue
    const { id, prefix, uuid } = named
    const owner = yield* query((q) => ownerOf(q, prefix, uuid))
    if (owner !== null && accounts.includes(owner)) own.add(owner)
    else replaced.set(id, unusedId(prefix, uuid))
  }
  const filled: unknown =
    Reflect.get(input as object, 'account') === null
      ? { ...input, account: yield* onlyAccount(own.size === 1 ? [...own] : accounts) }
      : input
  const inside = (text: string): string => {
    const named = recognize(text)
    return (named.kind === 'id' ? replaced.get(named.id) : undefined) ?? text
  }
  const restored = (error: unknown): unknown =>
    error instanceof OperationRefused
      ? new OperationRefused({
          code: error.code,
          message: [...replaced].reduce((text, [id, unused]) => text.replaceAll(unused, id), error.message),
          ...(error.param === undefined ? {} : { param: error.param }),
          ...(error.details === undefined ? {} : { details: error.details }),
        })
      : error
  return {
    input: mapTexts(filled, inside) as Input,
    asked: filled as Input,
    restore: (work) => Effect.mapError(work, (error) => restored(error) as typeof error),
  }
})

/** The input of a use case within the accounts of its actor. Hub staff have all accounts. */
export const withinAccounts = <Input>(
  actor: Actor,
  { members }: Pick<UseCase<never, never, never, never>, 'members'>,
  input: Input,
): Effect.Effect<Scoped<Input>, OperationRefused | StorageError, Sql> => {
  const accounts = accountsOf(actor)
  return accounts === null || members === 'self'
    ? Effect.succeed(unscoped(input))
    : scopeOfMember(accounts, input)
}
