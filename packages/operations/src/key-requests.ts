/**
 * Live keys by two persons. With `HUB_LIVE_KEY_PERSONS` = 2, one person requests a live key or the
 * rotation of one, and another person confirms it and gets the key. See
 * docs/decisions/persons.md#live-keys-by-two-persons.
 */
import { randomUUID } from 'node:crypto'
import { apiKeyEnding, encodeId, keyScopes, scopeNames } from '@hub/domain'
import {
  CommandAccounts,
  CommandApiKeys,
  confirmationRefusal,
  type ConfirmationRefused,
  type Person,
  Sql,
  uuidOf,
} from '@hub/store'
import { Effect, Schema } from 'effect'
import { requireAccount } from './accounts.ts'
import { OperationRefused, refused, SAME_PERSON, UNIDENTIFIED } from './failures.ts'
import { optionalTimestamp, publicId, Timestamp, Uuid } from './fields.ts'
import {
  generateKey,
  hostBitsAsRefusal,
  KeptScopes,
  keyEnded,
  Lifetime,
  Networks,
  NewKey,
  Overlap,
  ReplacedKey,
  requireCertified,
  requireWorkingKey,
  rotatedLifetime,
  WantedScopes,
} from './keys.ts'
import { decodeRowCursor, listOf, pageFields, pageOf, rowKey } from './pages.ts'
import { query } from './sql.ts'
import * as Requests from './tables/key-requests.ts'
import { defineUseCase } from './use-case.ts'

export const KeyRequest = Schema.Struct({
  id: Uuid,
  object: Schema.Literal('key_request'),
  account: publicId('acc'),
  name: Schema.String.annotate({ description: 'The name of the account.' }),
  status: Schema.Literals(['waiting', 'confirmed', 'expired']),
  allowed_addresses: Networks,
  scopes: KeptScopes,
  expires_after_seconds: Lifetime,
  requested_by: Schema.String,
  requested_at: Timestamp,
  expires_at: Timestamp.annotate({ description: 'Until when it can be confirmed.' }),
  confirmed_by: Schema.NullOr(Schema.String),
  confirmed_at: Schema.NullOr(Timestamp),
  key: Schema.NullOr(publicId('key')).annotate({ description: 'The id of the issued key.' }),
  replaces: Schema.NullOr(publicId('key')).annotate({
    description: 'The key that the requested one replaces. `null`: none.',
  }),
  overlap_seconds: Schema.NullOr(Overlap).annotate({
    description: 'How long both keys work after the confirmation. `null`: it replaces none.',
  }),
}).annotate({ identifier: 'KeyRequest' })
export type KeyRequest = typeof KeyRequest.Type

/** `name`: of the account. */
const toValue = (row: Requests.KeyRequest, name: string): KeyRequest => ({
  id: row.id,
  object: 'key_request',
  account: encodeId('acc', row.account),
  name,
  status: row.confirmed_at !== null ? 'confirmed' : row.is_open ? 'waiting' : 'expired',
  allowed_addresses: row.allowed,
  scopes: scopeNames(row.scopes),
  expires_after_seconds: row.expires_after_seconds,
  requested_by: row.requested_by,
  requested_at: row.requested_at.toISOString(),
  expires_at: row.expires_at.toISOString(),
  confirmed_by: row.confirmed_by,
  confirmed_at: optionalTimestamp(row.confirmed_at?.getTime() ?? null),
  key: row.key === null ? null : encodeId('key', row.key),
  replaces: row.replaces === null ? null : encodeId('key', row.replaces),
  overlap_seconds: row.overlap_seconds,
})

const notFound = (id: string): OperationRefused =>
  refused('key_request_not_found', `There is no key request ${id}.`, 'id')

/** Inserts a request, and returns it. `name`: of the account. */
const insert = Effect.fnUntraced(function* (
  wanted: Omit<Parameters<typeof Requests.insert>[1], 'id'>,
  requestedBy: Person,
  name: string,
) {
  const id = randomUUID()
  yield* hostBitsAsRefusal(query((q) => Requests.insert(q, { id, ...wanted }, requestedBy)))
  const made = yield* query((q) => Requests.read(q, id))
  return made === null ? yield* notFound(id) : toValue(made, name)
})

/** Requests a live key. Another person confirms it within a week. */
export const request = defineUseCase({
  name: 'keys request',
  permission: 'keys.change',
  input: Schema.Struct({
    account: publicId('acc'),
    allowed_addresses: Networks,
    scopes: WantedScopes,
    expires_after_seconds: Lifetime,
  }),
  output: KeyRequest,
  audit: ({ account, allowed_addresses, expires_after_seconds, scopes }) => ({
    account,
    allowed_addresses,
    scopes: scopes ?? null,
    expires_after_seconds,
  }),
  result: ({ id }) => ({ request: id }),
  run: Effect.fnUntraced(function* ({ account, allowed_addresses, expires_after_seconds, scopes }, actor) {
    const name = yield* requireAccount(account)
    yield* requireCertified(account)
    const wanted = {
      account: uuidOf('acc', account),
      allowed: allowed_addresses,
      scopes: keyScopes(scopes ?? null),
      expires_after_seconds,
      replaces: null,
      overlap_seconds: null,
    }
    return yield* insert(wanted, actor, name)
  }),
})

/**
 * Requests the rotation of a live key. The request contains the networks, scopes and lifetime of the new
 * key, so that the second person confirms what the first one saw.
 */
export const requestRotation = defineUseCase({
  name: 'keys request-rotation',
  permission: 'keys.change',
  input: Schema.Struct({
    id: publicId('key'),
    overlap_seconds: Overlap,
    expires_after_seconds: Lifetime,
    networks: Schema.NullOr(Schema.Struct({ allowed_addresses: Networks })).annotate({
      description: 'The networks of the new key. `null`: those of the old one.',
    }),
  }),
  output: KeyRequest,
  audit: ({ expires_after_seconds, id, networks, overlap_seconds }) => ({
    key: id,
    overlap_seconds,
    expires_after_seconds,
    ...networks,
  }),
  result: ({ id }) => ({ request: id }),
  run: Effect.fnUntraced(function* ({ expires_after_seconds, id, networks, overlap_seconds }, actor) {
    const old = yield* requireWorkingKey(id)
    if (old.mode === 'test') {
      return yield* refused('one_person_enough', 'A test key needs one person: rotate it.', 'id')
    }
    const wanted = {
      account: old.account,
      allowed: networks === null ? old.allowed : networks.allowed_addresses,
      scopes: old.scopes,
      expires_after_seconds: rotatedLifetime(old, expires_after_seconds),
      replaces: old.id,
      overlap_seconds,
    }
    return yield* insert(wanted, actor, yield* requireAccount(encodeId('acc', old.account)))
  }),
})

const REFUSED: Readonly<Record<ConfirmationRefused, readonly [code: string, message: string]>> = {
  already_confirmed: ['already_confirmed', 'The request was confirmed already.'],
  expired: ['key_request_expired', 'The request is older than a week. Request the key again.'],
  same_person: SAME_PERSON,
  unidentified: UNIDENTIFIED,
}

/**
 * Confirms the request of another person, and issues the key. A rotation also sets the end of the old key,
 * which must still work: otherwise the account would get a key that nobody has decided on. As any
 * rotation, it does not need a certified account.
 */
export const confirm = defineUseCase({
  name: 'keys confirm',
  permission: 'keys.confirm',
  input: Schema.Struct({ id: Uuid }),
  output: Schema.Struct({
    ...NewKey.fields,
    replaces: Schema.NullOr(ReplacedKey).annotate({ description: '`null`: the key replaces none.' }),
  }),
  audit: ({ id }) => ({ request: id }),
  result: ({ account, id, key, replaces }) => ({
    account,
    key: id,
    ending: apiKeyEnding(key),
    ...(replaces === null ? {} : { replaces: replaces.id, old_ends_at: replaces.revoked_at }),
  }),
  run: Effect.fnUntraced(function* ({ id }, actor) {
    const sql = yield* Sql
    const found = yield* query((q) => Requests.read(q, id))
    if (found === null) return yield* notFound(id)
    const account = encodeId('acc', found.account)
    const { overlap_seconds: overlap, replaces: oldUuid } = found
    if (oldUuid === null) yield* requireCertified(account)
    const { key, row } = yield* generateKey({
      account: found.account,
      mode: 'live',
      allowed: found.allowed,
      scopes: found.scopes,
      expiresAfter: found.expires_after_seconds,
    })
    const outcome = yield* sql.transaction(
      async (q): Promise<OperationRefused | typeof ReplacedKey.Type | null> => {
        const current = await Requests.readForConfirmation(q, id)
        if (current === null) return notFound(id)
        const isConfirmed = current.confirmed_at !== null
        const why = confirmationRefusal(
          {
            isConfirmed,
            isExpired: current.is_expired,
            requestedBy: { id: current.requested_by_id, name: current.requested_by },
          },
          actor,
        )
        if (why !== null) return refused(...REFUSED[why])
        if (oldUuid === null) {
          await CommandApiKeys.insert(q, row)
          await Requests.setConfirmed(q, id, actor, row, null)
          return null
        }
        const old = encodeId('key', oldUuid)
        if ((await CommandApiKeys.read(q, oldUuid))?.works !== true) return keyEnded(old)
        await CommandApiKeys.insert(q, row)
        const end = await CommandApiKeys.revoke(q, oldUuid, overlap ?? 0)
        await Requests.setConfirmed(q, id, actor, row, end)
        return { id: old, revoked_at: end?.toISOString() ?? null }
      },
    )
    if (outcome instanceof OperationRefused) return yield* outcome
    const issued = yield* query((q) => CommandApiKeys.read(q, row.id))
    return {
      id: encodeId('key', row.id),
      key,
      object: 'api_key' as const,
      account,
      mode: 'live' as const,
      allowed_addresses: found.allowed,
      scopes: scopeNames(found.scopes),
      expires_at: optionalTimestamp(issued?.expires_at?.getTime() ?? null),
      replaces: outcome,
    }
  }),
})

/** Requested live keys, newest first. */
export const list = defineUseCase({
  name: 'keys requests',
  permission: 'accounts.read',
  members: 'named',
  input: Schema.Struct({
    account: Schema.NullOr(publicId('acc')),
    open: Schema.Boolean.annotate({ description: 'Only those that can be confirmed.' }),
    ...pageFields,
  }),
  output: listOf(KeyRequest),
  audit: null,
  run: Effect.fnUntraced(function* ({ account, cursor, limit, open }) {
    const before = yield* decodeRowCursor(cursor)
    const rows = yield* query((q) =>
      Requests.readNewest(q, {
        account: account === null ? null : uuidOf('acc', account),
        open,
        before,
        limit: limit + 1,
      }),
    )
    const names = yield* query((q) =>
      CommandAccounts.readNames(q, [...new Set(rows.map((row) => row.account))]),
    )
    const valueOf = (row: Requests.KeyRequest) => toValue(row, names.get(row.account) ?? '')
    return pageOf(rows, limit, valueOf, ({ id, requested_at }) => rowKey({ created_at: requested_at, id }))
  }),
})
