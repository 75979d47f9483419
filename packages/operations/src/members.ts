/** Members: engineers of a client, who see its accounts in the console and in this API (`scope.ts`). */
import { encodeId } from '@hub/domain'
import { uuidOf } from '@hub/store'
import { Effect, Schema } from 'effect'
import { requireAccount } from './accounts.ts'
import { refused } from './failures.ts'
import { hasNoNumber, LineWithoutNumber, publicId, Timestamp } from './fields.ts'
import { decodeCursor, listOf, pageFields, pageOf } from './pages.ts'
import { query } from './sql.ts'
import * as Members from './tables/account-members.ts'
import { defineUseCase } from './use-case.ts'

/** Subjects have at most 255 characters (OpenID Connect Core 1.0, section 2), and issuers are addresses. */
const MAX_IDENTITY_LENGTH = 1000

const Identity = Schema.String.check(
  Schema.isMaxLength(MAX_IDENTITY_LENGTH),
  Schema.makeFilter(
    (text: string) =>
      (/^[^|\s]+\|[\x20-\x7e]+$/u.test(text) && hasNoNumber(text)) ||
      'expected issuer and subject with | between them, as the console shows the person',
  ),
).annotate({
  description:
    'Who it is: issuer and subject at the identity provider, with `|` between them. The console and `GET /v1/me` show them to the person.',
})

const Name = LineWithoutNumber.annotate({ description: 'A name for people, without a phone number.' })

const Member = Schema.Struct({
  object: Schema.Literal('account_member'),
  account: publicId('acc'),
  person: Schema.String,
  name: Schema.String,
  added_at: Timestamp,
}).annotate({ identifier: 'AccountMember' })

const PageKey = Schema.Struct({ account: Schema.String, person_id: Schema.String })

export const list = defineUseCase({
  name: 'members list',
  permission: 'members.read',
  input: Schema.Struct({ account: Schema.NullOr(publicId('acc')), ...pageFields }),
  output: listOf(Member),
  audit: null,
  run: Effect.fnUntraced(function* ({ account, cursor, limit }) {
    const after = yield* decodeCursor(PageKey, cursor)
    const rows = yield* query((q) =>
      Members.readPage(q, account === null ? null : uuidOf('acc', account), after, limit + 1),
    )
    return pageOf(
      rows,
      limit,
      (row) => ({
        object: 'account_member' as const,
        account: encodeId('acc', row.account),
        person: row.person_id,
        name: row.name,
        added_at: row.added_at.toISOString(),
      }),
      ({ account: of, person_id }) => ({ account: of, person_id }),
    )
  }),
})

/** Adds a member, or gives a member another name. */
export const add = defineUseCase({
  name: 'members add',
  permission: 'members.change',
  input: Schema.Struct({ account: publicId('acc'), person: Identity, name: Name }),
  output: Schema.Struct({
    object: Schema.Literal('account_member'),
    account: publicId('acc'),
    person: Schema.String,
    name: Schema.String,
    changed: Schema.Boolean.annotate({ description: 'False: the person was a member before.' }),
  }),
  audit: ({ account, name, person }) => ({ account, person, name }),
  result: ({ changed }) => ({ outcome: changed ? 'added' : 'unchanged' }),
  run: Effect.fnUntraced(function* ({ account, name, person }) {
    yield* requireAccount(account)
    const changed = yield* query((q) =>
      Members.upsert(q, { account: uuidOf('acc', account), person_id: person, name }),
    )
    return { object: 'account_member' as const, account, person, name, changed }
  }),
})

/** Removes a member. It holds from the next request of the person. */
export const remove = defineUseCase({
  name: 'members remove',
  permission: 'members.change',
  input: Schema.Struct({ account: publicId('acc'), person: Identity }),
  output: Schema.Struct({
    object: Schema.Literal('account_member'),
    account: publicId('acc'),
    person: Schema.String,
    removed: Schema.Literal(true),
  }),
  audit: ({ account, person }) => ({ account, person }),
  run: Effect.fnUntraced(function* ({ account, person }) {
    yield* requireAccount(account)
    const isRemoved = yield* query((q) => Members.remove(q, uuidOf('acc', account), person))
    if (!isRemoved) return yield* refused('member_not_found', `${account} has no such member.`, 'person')
    return { object: 'account_member' as const, account, person, removed: true as const }
  }),
})

/** The accounts (`acc_…`) of a person: those that staff have given, and those that the identity provider names. */
export const accountsOfPerson = (person: string, named: ReadonlyArray<string>) =>
  Effect.map(
    query((q) => Members.readAccounts(q, person)),
    (given) => [...new Set([...given.map((account) => encodeId('acc', account)), ...named])],
  )
