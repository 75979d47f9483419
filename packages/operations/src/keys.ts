/** API keys of accounts. A key is shown once, when it is issued. */
import { randomBytes } from 'node:crypto'
import { isIPv4, isIPv6 } from 'node:net'
import { settings } from '@hub/config'
import {
  API_KEY_RANDOM_BYTES,
  apiKeyDigest,
  apiKeyEnding,
  apiKeyFrom,
  encodeId,
  keyScopes,
  type KeyScopes,
  type Mode as KeyMode,
  scopeNames,
  SCOPES,
} from '@hub/domain'
import { CommandApiKeys, uuidOf } from '@hub/store'
import { Effect, Schema } from 'effect'
import { requireAccount } from './accounts.ts'
import { isCertified } from './certification.ts'
import { inputInvalid, refused } from './failures.ts'
import { addedField, Mode, publicId, Timestamp } from './fields.ts'
import { generateId } from './ids.ts'
import { decodeRowCursor, listOf, pageFields, pageOf, rowKey } from './pages.ts'
import { query } from './sql.ts'
import { defineUseCase } from './use-case.ts'

/** Whether a text is an address or a network. PostgreSQL checks that the host bits are zero. */
export const isNetwork = (text: string): boolean => {
  const [address = '', width, more] = text.split('/')
  if (more !== undefined || (width !== undefined && !/^\d{1,3}$/u.test(width))) return false
  const bits = width === undefined ? 0 : Number(width)
  return (isIPv4(address) && bits <= 32) || (isIPv6(address) && !address.includes('%') && bits <= 128)
}

/** The networks that may use a key, in CIDR notation; `null`: any. */
export const Networks = Schema.NullOr(
  Schema.Array(
    Schema.String.check(
      Schema.makeFilter(
        (text: string) => isNetwork(text) || 'expected an address or a network in CIDR notation',
      ),
    ),
  ),
)
type Networks = typeof Networks.Type

const Scopes = Schema.Array(Schema.Literals(SCOPES))

/** The scopes that a new key gets; `null` and absent, as earlier versions of hubctl send it: all. */
export const WantedScopes = Schema.optionalKey(
  Schema.NullOr(Scopes.check(Schema.isMinLength(1))).annotate({
    description: 'What the key may do. `null`: everything.',
  }),
)

/** The scopes of a key. An operations API of an earlier version knows only keys that may do everything. */
export const KeptScopes = addedField(Scopes.annotate({ description: 'What the key may do.' }), SCOPES)

/** A key that lives longer is better replaced than extended: ten years. */
export const MAX_LIFETIME_SECONDS = 3660 * 86_400

/** Until the key stops working; `null`: it does not expire. */
export const Lifetime = Schema.NullOr(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_LIFETIME_SECONDS })),
)

/** A longer overlap means that nobody finishes the rotation: 30 days. */
export const MAX_OVERLAP_SECONDS = 30 * 86_400

export const ApiKey = Schema.Struct({
  id: publicId('key'),
  object: Schema.Literal('api_key'),
  account: publicId('acc'),
  mode: Mode,
  last_four: Schema.String,
  allowed_addresses: Networks,
  scopes: KeptScopes,
  created_at: Timestamp,
  revoked_at: Schema.NullOr(Timestamp),
  expires_at: Schema.NullOr(Timestamp),
  /** Lags by some seconds; `null`: it was not used yet. */
  last_used_at: Schema.NullOr(Timestamp),
  last_used_from: Schema.NullOr(Schema.String).annotate({
    description:
      'The client address of the last use. `null`: not recorded, or the last use is over a year ago.',
  }),
  works: Schema.Boolean,
})
export type ApiKey = typeof ApiKey.Type

const newKeyFields = {
  id: publicId('key'),
  /** The key itself. It is not shown again. */
  key: Schema.String,
  object: Schema.Literal('api_key'),
  account: publicId('acc'),
  mode: Mode,
  allowed_addresses: Networks,
  scopes: KeptScopes,
}

export const NewKey = Schema.Struct({ ...newKeyFields, expires_at: Schema.NullOr(Timestamp) })

const toValue = (row: CommandApiKeys.ApiKeyRow): ApiKey => ({
  id: encodeId('key', row.id),
  object: 'api_key',
  account: encodeId('acc', row.account),
  mode: row.mode,
  last_four: row.last_four,
  allowed_addresses: row.allowed,
  scopes: scopeNames(row.scopes),
  created_at: row.created_at.toISOString(),
  revoked_at: row.revoked_at?.toISOString() ?? null,
  expires_at: row.expires_at?.toISOString() ?? null,
  last_used_at: row.last_used_at?.toISOString() ?? null,
  last_used_from: row.last_used_from,
  works: row.works,
})

/** PostgreSQL rejects a network whose host bits are set: `10.1.2.3/8` is more likely a mistake. */
export const hostBitsAsRefusal = <A, E extends { readonly _tag: string }, R>(
  effect: Effect.Effect<A, E, R>,
) =>
  effect.pipe(
    Effect.catchIf(
      (error) => error._tag === 'StorageRejected' && 'code' in error && error.code === '22P02',
      () =>
        Effect.fail(
          inputInvalid(
            'An allowed network has host bits that are set: 10.0.0.0/8, not 10.1.2.3/8.',
            'allowed_addresses',
          ),
        ),
    ),
  )

/** Makes a new key with the row that stores its digest. `account` is a UUID. */
export const generateKey = Effect.fnUntraced(function* (
  of: Required<Pick<CommandApiKeys.NewApiKey, 'account' | 'mode' | 'allowed' | 'scopes' | 'expiresAfter'>>,
) {
  const { uuid } = yield* generateId('key')
  const key = apiKeyFrom(of.mode, randomBytes(API_KEY_RANDOM_BYTES))
  return { key, row: { ...of, id: uuid, digest: apiKeyDigest(key), ending: apiKeyEnding(key) } }
})

/** Issues a key. It works immediately in all processes. `account` is a UUID. */
const issueKey = Effect.fnUntraced(function* (
  account: string,
  mode: KeyMode,
  allowed: Networks,
  scopes: KeyScopes,
  expiresAfter: number | null,
) {
  const { key, row } = yield* generateKey({ account, mode, allowed, scopes, expiresAfter })
  yield* hostBitsAsRefusal(query((q) => CommandApiKeys.insert(q, row)))
  return { id: encodeId('key', row.id), key }
})

export const requireCertified = Effect.fnUntraced(function* (account: string) {
  if (yield* isCertified(account)) return
  return yield* refused('not_certified', `${account} is not certified for live keys.`, 'account')
})

const secondPersonRequired = (advice: string) =>
  refused('second_person_required', `A live key needs two persons. ${advice}`)

/** Whether one person may decide about a key of this mode. */
const isOnePersonEnough = Effect.fnUntraced(function* (mode: KeyMode) {
  return mode === 'test' || (yield* settings.liveKeyPersons.config) === 1
})

/** With two persons, a live key exists only after the confirmation of its request. */
const requireOnePerson = Effect.fnUntraced(function* (mode: KeyMode, advice: string) {
  if (!(yield* isOnePersonEnough(mode))) return yield* secondPersonRequired(advice)
})

const requireKey = Effect.fnUntraced(function* (id: string) {
  const row = yield* query((q) => CommandApiKeys.read(q, uuidOf('key', id)))
  return row ?? (yield* refused('key_not_found', `There is no key ${id}.`, 'id'))
})

/** The refusal of an operation on a key that does not work. `param`: the wrong input. */
export const keyEnded = (id: string, param?: string) =>
  refused('key_revoked', `${id} is already revoked, or has expired.`, param)

export const requireWorkingKey = Effect.fnUntraced(function* (id: string) {
  const row = yield* requireKey(id)
  return row.works ? row : yield* keyEnded(id, 'id')
})

/** How long both keys of a rotation work. */
export const Overlap = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_OVERLAP_SECONDS }))

/** The key that a rotation ends. `revoked_at`: when. */
export const ReplacedKey = Schema.Struct({
  id: publicId('key'),
  revoked_at: Schema.NullOr(Timestamp),
})

/** The lifetime of the key that replaces another one: as asked, or as the old key was meant to live. */
export const rotatedLifetime = (
  old: Pick<CommandApiKeys.ApiKeyRow, 'created_at' | 'expires_at'>,
  asked: number | null,
): number | null =>
  asked ??
  (old.expires_at === null ? null : Math.ceil((old.expires_at.getTime() - old.created_at.getTime()) / 1000))

/** Keys, newest first. */
export const list = defineUseCase({
  name: 'keys list',
  permission: 'accounts.read',
  members: 'named',
  input: Schema.Struct({
    account: Schema.NullOr(publicId('acc')),
    mode: Schema.NullOr(Mode),
    /** Also revoked and expired keys. */
    ended: Schema.Boolean,
    ...pageFields,
  }),
  output: listOf(ApiKey),
  audit: null,
  run: Effect.fnUntraced(function* ({ account, cursor, ended, limit, mode }) {
    const before = yield* decodeRowCursor(cursor)
    const rows = yield* query((q) =>
      CommandApiKeys.readNewest(q, {
        account: account === null ? null : uuidOf('acc', account),
        mode,
        includeRevoked: ended,
        before,
        limit: limit + 1,
      }),
    )
    return pageOf(rows, limit, toValue, rowKey)
  }),
})

export const get = defineUseCase({
  name: 'keys show',
  permission: 'accounts.read',
  members: 'named',
  input: Schema.Struct({ id: publicId('key') }),
  output: ApiKey,
  audit: null,
  run: ({ id }) => Effect.map(requireKey(id), toValue),
})

/** Issues a key. A live key requires a certified account. */
export const issue = defineUseCase({
  name: 'keys issue',
  permission: 'keys.change',
  input: Schema.Struct({
    account: publicId('acc'),
    mode: Mode,
    allowed_addresses: Networks,
    scopes: WantedScopes,
    expires_after_seconds: Lifetime,
  }),
  output: NewKey,
  audit: ({ account, allowed_addresses, expires_after_seconds, mode, scopes }) => ({
    account,
    mode,
    allowed_addresses,
    scopes: scopes ?? null,
    expires_after_seconds,
  }),
  result: ({ id, key }) => ({ key: id, ending: apiKeyEnding(key) }),
  run: Effect.fnUntraced(function* ({
    account,
    allowed_addresses: allowed,
    expires_after_seconds,
    mode,
    scopes: wanted,
  }) {
    yield* requireAccount(account)
    if (mode === 'live') yield* requireCertified(account)
    yield* requireOnePerson(mode, 'Request it, and another person confirms it.')
    const scopes = keyScopes(wanted ?? null)
    const issued = yield* issueKey(uuidOf('acc', account), mode, allowed, scopes, expires_after_seconds)
    const { expires_at } = toValue(yield* requireKey(issued.id))
    return {
      ...issued,
      object: 'api_key' as const,
      account,
      mode,
      allowed_addresses: allowed,
      scopes: scopeNames(scopes),
      expires_at,
    }
  }),
})

/**
 * Issues a key for the same account, mode, networks and scopes, and revokes the old key after an overlap. If
 * no lifetime is given, the new key lives as long as the old one was meant to.
 */
export const rotate = defineUseCase({
  name: 'keys rotate',
  permission: 'keys.change',
  input: Schema.Struct({
    id: publicId('key'),
    overlap_seconds: Overlap,
    expires_after_seconds: Lifetime,
  }),
  output: Schema.Struct({
    ...newKeyFields,
    replaces: ReplacedKey,
  }),
  audit: ({ expires_after_seconds, id, overlap_seconds }) => ({
    key: id,
    overlap_seconds,
    expires_after_seconds,
  }),
  result: ({ id, key, replaces }) => ({
    key: id,
    ending: apiKeyEnding(key),
    old_ends_at: replaces.revoked_at,
  }),
  run: Effect.fnUntraced(function* ({ expires_after_seconds, id, overlap_seconds }) {
    const old = yield* requireWorkingKey(id)
    yield* requireOnePerson(old.mode, 'Request its rotation, and another person confirms it.')
    const lifetime = rotatedLifetime(old, expires_after_seconds)
    const issued = yield* issueKey(old.account, old.mode, old.allowed, old.scopes, lifetime)
    const end = yield* query((q) => CommandApiKeys.revoke(q, old.id, overlap_seconds))
    return {
      ...issued,
      object: 'api_key' as const,
      account: encodeId('acc', old.account),
      mode: old.mode,
      allowed_addresses: old.allowed,
      scopes: scopeNames(old.scopes),
      replaces: { id, revoked_at: end?.toISOString() ?? null },
    }
  }),
})

export const revoke = defineUseCase({
  name: 'keys revoke',
  permission: 'keys.change',
  input: Schema.Struct({ id: publicId('key') }),
  output: ApiKey,
  audit: ({ id }) => ({ key: id }),
  run: Effect.fnUntraced(function* ({ id }) {
    const { id: uuid } = yield* requireWorkingKey(id)
    yield* query((q) => CommandApiKeys.revoke(q, uuid, 0))
    return toValue(yield* requireKey(id))
  }),
})

/**
 * Replaces the addresses and networks that may use a key. With two persons, one person may only narrow those of
 * a live key: a key that works from more places is as good as another one.
 */
export const allow = defineUseCase({
  name: 'keys allow',
  permission: 'keys.change',
  input: Schema.Struct({ id: publicId('key'), allowed_addresses: Networks }),
  output: ApiKey,
  audit: ({ allowed_addresses, id }) => ({ key: id, allowed_addresses }),
  run: Effect.fnUntraced(function* ({ allowed_addresses, id }) {
    const { id: uuid, mode } = yield* requireWorkingKey(id)
    const mayWiden = yield* isOnePersonEnough(mode)
    const isSet = yield* hostBitsAsRefusal(
      query((q) => CommandApiKeys.setAllowedAddresses(q, uuid, allowed_addresses, mayWiden)),
    )
    if (!isSet) {
      return yield* secondPersonRequired(
        'To allow further networks, request its rotation with them, and another person confirms it.',
      )
    }
    return toValue(yield* requireKey(id))
  }),
})
