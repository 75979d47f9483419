/**
 * Live keys by two persons. With `HUB_LIVE_KEY_PERSONS` = 2, one person requests a live key, and another
 * one confirms it and gets it. See docs/decisions/0079.
 */
import { randomUUID } from 'node:crypto'
import { apiKeyEnding, encodeId } from '@hub/domain'
import {
  CommandAccounts,
  CommandApiKeys,
  confirmationRefusal,
  type ConfirmationRefused,
  Sql,
  uuidOf,
} from '@hub/store'
import { Effect, Schema } from 'effect'
import { requireAccount } from './accounts.ts'
import { type OperationRefused, refused, SAME_PERSON } from './failures.ts'
import { optionalTimestamp, publicId, Timestamp, Uuid } from './fields.ts'
import { generateKey, hostBitsAsRefusal, Lifetime, Networks, NewKey, requireCertified } from './keys.ts'
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
  expires_after_seconds: Lifetime,
  requested_by: Schema.String,
  requested_at: Timestamp,
  expires_at: Timestamp.annotate({ description: 'Until when it can be confirmed.' }),
  confirmed_by: Schema.NullOr(Schema.String),
  confirmed_at: Schema.NullOr(Timestamp),
  key: Schema.NullOr(publicId('key')).annotate({ description: 'The id of the issued key.' }),
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
  expires_after_seconds: row.expires_after_seconds,
  requested_by: row.requested_by,
  requested_at: row.requested_at.toISOString(),
  expires_at: row.expires_at.toISOString(),
  confirmed_by: row.confirmed_by,
  confirmed_at: optionalTimestamp(row.confirmed_at?.getTime() ?? null),
  key: row.key === null ? null : encodeId('key', row.key),
})

const notFound = (id: string): OperationRefused =>
  refused('key_request_not_found', `There is no key request ${id}.`, 'id')

/** Requests a live key. Another person confirms it within a week. */
export const request = defineUseCase({
  name: 'keys request',
  permission: 'keys.change',
  input: Schema.Struct({
    account: publicId('acc'),
    allowed_addresses: Networks,
    expires_after_seconds: Lifetime,
  }),
  output: KeyRequest,
  audit: ({ account, allowed_addresses, expires_after_seconds }) => ({
    account,
    allowed_addresses,
    expires_after_seconds,
  }),
  result: ({ id }) => ({ request: id }),
  run: Effect.fnUntraced(function* ({ account, allowed_addresses, expires_after_seconds }, actor) {
    const name = yield* requireAccount(account)
    yield* requireCertified(account)
    const row = {
      id: randomUUID(),
      account: uuidOf('acc', account),
      allowed: allowed_addresses,
      expires_after_seconds,
      requested_by: actor.name,
    }
    yield* hostBitsAsRefusal(query((q) => Requests.insert(q, row)))
    const made = yield* query((q) => Requests.read(q, row.id))
    return made === null ? yield* notFound(row.id) : toValue(made, name)
  }),
})

const REFUSED: Readonly<Record<ConfirmationRefused, readonly [code: string, message: string]>> = {
  already_confirmed: ['already_confirmed', 'The request was confirmed already.'],
  expired: ['key_request_expired', 'The request is older than a week. Request the key again.'],
  same_person: SAME_PERSON,
}

/** Confirms the request of another person, and issues the key. */
export const confirm = defineUseCase({
  name: 'keys confirm',
  permission: 'keys.confirm',
  input: Schema.Struct({ id: Uuid }),
  output: NewKey,
  audit: ({ id }) => ({ request: id }),
  result: ({ account, id, key }) => ({ account, key: id, ending: apiKeyEnding(key) }),
  run: Effect.fnUntraced(function* ({ id }, actor) {
    const sql = yield* Sql
    const found = yield* query((q) => Requests.read(q, id))
    if (found === null) return yield* notFound(id)
    const account = encodeId('acc', found.account)
    yield* requireCertified(account)
    const { key, row } = yield* generateKey({
      account: found.account,
      mode: 'live',
      allowed: found.allowed,
      expiresAfter: found.expires_after_seconds,
    })
    const refusal = yield* sql.transaction(async (q): Promise<OperationRefused | null> => {
      const current = await Requests.readForConfirmation(q, id)
      if (current === null) return notFound(id)
      const isConfirmed = current.confirmed_at !== null
      const why = confirmationRefusal(
        { isConfirmed, isExpired: !current.is_open, requestedBy: current.requested_by },
        actor.name,
      )
      if (why !== null) return refused(...REFUSED[why])
      await CommandApiKeys.insert(q, row)
      await Requests.setConfirmed(q, id, actor.name, row.id)
      return null
    })
    if (refusal !== null) return yield* refusal
    const issued = yield* query((q) => CommandApiKeys.read(q, row.id))
    return {
      id: encodeId('key', row.id),
      key,
      object: 'api_key' as const,
      account,
      mode: 'live' as const,
      allowed_addresses: found.allowed,
      expires_at: optionalTimestamp(issued?.expires_at?.getTime() ?? null),
    }
  }),
})

/** Requested live keys, newest first. */
export const list = defineUseCase({
  name: 'keys requests',
  permission: 'accounts.read',
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
