/** Look-ups that several operations share. */
import { type ApiError, apiError } from '@hub/contract'
import { Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { Accounts } from '../accounts/accounts.ts'

/** A cursor that names nothing of the caller. */
export const orUnknownCursor = <A>(found: A | null): Effect.Effect<A, ApiError> =>
  found === null
    ? Effect.fail(apiError('not_found', { param: 'starting_after', message: UNKNOWN_CURSOR }))
    : Effect.succeed(found)

const UNKNOWN_CURSOR =
  'starting_after names nothing of this list. Send the next_cursor of a page, or leave it out to begin.'

export const orNotFound = <A>(found: A | null): Effect.Effect<A, ApiError> =>
  found === null ? Effect.fail(apiError('not_found')) : Effect.succeed(found)

/** Concurrent look-ups of one request: most of the connection pool stays free for others. */
const CONCURRENT_LOOKUPS = 4

/** The templates with these names, by name; `null` for a name without a template. */
export const templatesByName = (accounts: Accounts['Service'], owner: Owner, names: Iterable<string>) =>
  Effect.map(
    Effect.forEach(
      names,
      (name) => Effect.map(accounts.template(owner, name), (template) => [name, template] as const),
      { concurrency: CONCURRENT_LOOKUPS },
    ),
    (entries) => new Map(entries),
  )
