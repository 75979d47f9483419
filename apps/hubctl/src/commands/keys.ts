/** `hubctl keys`: API keys. A key is shown once, when it is issued. */
import { randomBytes } from 'node:crypto'
import { isIPv4, isIPv6 } from 'node:net'
import {
  API_KEY_RANDOM_BYTES,
  apiKeyDigest,
  apiKeyEnding,
  apiKeyFrom,
  decodeId,
  encodeId,
  type Mode,
  MODES,
} from '@hub/domain'
import { CommandApiKeys } from '@hub/store'
import { Effect } from 'effect'
import { Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import {
  accountArgument,
  accountFlag,
  durationFlag,
  generateId,
  type Id,
  idArgument,
  limitFlag,
  modeFlag,
  switchFlag,
  takesEffect,
} from '../command-line/arguments.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database, query } from '../command-line/connections.ts'
import { refused, usageError } from '../command-line/failure.ts'
import { type Cell, fields, show, showList } from '../command-line/output.ts'
import { requireAccount } from './accounts.ts'
import { isCertified } from './certification.ts'

/** Whether a text is an address or a network. PostgreSQL checks that the host bits are zero. */
export const isNetwork = (text: string): boolean => {
  const [address = '', width, more] = text.split('/')
  if (more !== undefined || (width !== undefined && !/^\d{1,3}$/u.test(width))) return false
  const bits = width === undefined ? 0 : Number(width)
  return (isIPv4(address) && bits <= 32) || (isIPv6(address) && !address.includes('%') && bits <= 128)
}

const allowFlag = Flag.String('allow').pipe(
  Flag.withDescription('Allow only this address or network. The flag can be repeated'),
  Flag.withMetavar('192.0.2.0/24'),
  Flag.filter(isNetwork, () => 'an address or a network in CIDR notation'),
  Flag.atLeast(0),
)

/** A key that lives longer is better replaced than extended. */
const MAX_LIFETIME_MS = 3660 * 86_400_000

const expiresFlag = (about: string) =>
  durationFlag('expires', about, MAX_LIFETIME_MS).pipe(
    Flag.filter(
      (ms) => ms > 0,
      () => 'at least one second',
    ),
    Flag.withDefault(null),
  )

const keyArgument = idArgument('key', 'key', 'An id from hubctl keys list')

/** A longer overlap means that nobody finishes the rotation. */
const MAX_OVERLAP_MS = 30 * 86_400_000
const DEFAULT_OVERLAP_MS = 86_400_000

type Networks = ReadonlyArray<string> | null

const toJson = (row: CommandApiKeys.ApiKeyRow) => ({
  id: encodeId('key', row.id),
  object: 'api_key',
  account: encodeId('acc', row.account),
  mode: row.mode,
  last_four: row.last_four,
  allowed_addresses: row.allowed,
  created_at: row.created_at.toISOString(),
  revoked_at: row.revoked_at?.toISOString() ?? null,
  expires_at: row.expires_at?.toISOString() ?? null,
  last_used_at: row.last_used_at?.toISOString() ?? null,
  works: row.works,
})

const networksText = (networks: Networks): string =>
  networks === null ? 'anywhere' : networks.length === 0 ? 'nowhere' : networks.join(', ')

/** PostgreSQL rejects a network whose host bits are set: `10.1.2.3/8` is more likely a mistake. */
const hostBitsAsUsageError = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    Effect.catchIf(
      (error) => error._tag === 'StorageRejected' && 'code' in error && error.code === '22P02',
      () =>
        Effect.fail(
          usageError('A network of --allow has host bits that are set: 10.0.0.0/8, not 10.1.2.3/8.'),
        ),
    ),
  )

/** Issues a key. It works immediately in all processes. */
const issueKey = Effect.fnUntraced(function* (
  account: string,
  mode: Mode,
  allowed: Networks,
  expiresAfter: number | null,
) {
  const { id, uuid } = yield* generateId('key')
  const key = apiKeyFrom(mode, randomBytes(API_KEY_RANDOM_BYTES))
  const row = {
    id: uuid,
    account,
    mode,
    digest: apiKeyDigest(key),
    ending: apiKeyEnding(key),
    allowed,
    expiresAfter,
  }
  yield* hostBitsAsUsageError(query((q) => CommandApiKeys.insert(q, row)))
  return { id, key }
})

/** The text of a new key. */
const newKeyText = (values: Readonly<Record<string, Cell>>): string =>
  [fields(values), '', 'Store the key now: it is not shown again.'].join('\n')

const list = defineCommand(
  'list',
  {
    short: 'List keys',
    about:
      'Lists keys, newest first: account, allowed networks, last use (to the minute), end of life, and ' +
      'whether the key works. Only the last four characters of a key are known.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl keys list --account acc_01m7yt89qhe54swwc8wkxj6n8e' },
      { command: 'hubctl keys list --mode live --all', description: 'With revoked and expired keys' },
    ],
    needs: database,
  },
  {
    account: accountFlag,
    mode: modeFlag,
    includeRevoked: switchFlag('all', 'Include revoked and expired keys'),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* (filter) {
    const rows = yield* query((q) => CommandApiKeys.readNewest(q, filter))
    yield* showList(rows.map(toJson), {
      key: (row) => row.id,
      account: (row) => row.account,
      mode: (row) => row.mode,
      ending: (row) => `…${row.last_four}`,
      'allowed from': (row) => networksText(row.allowed_addresses),
      created: (row) => row.created_at,
      works: (row) => row.works,
      'last use': (row) => row.last_used_at,
      expires: (row) => row.expires_at,
      revoked: (row) => row.revoked_at,
    })
  }),
)

const issue = defineCommand(
  'issue',
  {
    short: 'Issue a key',
    about:
      'Issues a key and shows it once: the hub stores only its hash. Test keys send to the sandbox. A ' +
      'live key requires a certified account (hubctl certification check).',
    changes: 'A new key of the account, which works immediately. Other keys stay.',
    examples: [
      { command: 'hubctl keys issue acc_01m7yt89qhe54swwc8wkxj6n8e', description: 'A test key' },
      {
        command: 'hubctl keys issue acc_01m7yt89qhe54swwc8wkxj6n8e --mode live --allow 192.0.2.0/24',
        description: 'A live key that works from one network',
      },
      {
        command: 'hubctl keys issue acc_01m7yt89qhe54swwc8wkxj6n8e --expires 365d',
        description: 'A test key that stops working after a year',
      },
    ],
    needs: database,
  },
  {
    account: accountArgument,
    mode: Flag.Literals('mode', MODES).pipe(
      Flag.withDescription('test: sandbox; live: real recipients'),
      Flag.withDefault('test' as const),
    ),
    allow: allowFlag,
    expires: expiresFlag('When the key stops working (default: never)'),
  },
  Effect.fnUntraced(function* ({ account, allow, expires, mode }) {
    const expiresAfter = expires === null ? null : expires / 1000
    const name = yield* requireAccount(account)
    const allowed = allow.length === 0 ? null : allow
    const issued = yield* audited(
      {
        command: 'keys issue',
        arguments: {
          account: account.id,
          mode,
          allowed_addresses: allowed,
          expires_after_seconds: expiresAfter,
        },
      },
      Effect.gen(function* () {
        if (mode === 'live' && !(yield* isCertified(account))) {
          return yield* refused(
            'not_certified',
            `${account.id} is not certified for live keys. See: hubctl certification check ${account.id}`,
          )
        }
        return yield* issueKey(account.uuid, mode, allowed, expiresAfter)
      }),
      ({ id, key }) => ({ key: id, ending: apiKeyEnding(key) }),
    )
    const { expires_at } = toJson(
      yield* requireKey({ id: issued.id, uuid: decodeId('key', issued.id) ?? '' }),
    )
    const result = {
      ...issued,
      object: 'api_key',
      account: account.id,
      mode,
      allowed_addresses: allowed,
      expires_at,
    }
    yield* show(result, () =>
      newKeyText({
        key: issued.key,
        id: issued.id,
        account: `${account.id} (${name})`,
        mode,
        'allowed from': networksText(allowed),
        expires: expires_at ?? 'never',
      }),
    )
  }),
)

const requireKey = Effect.fnUntraced(function* (key: Id) {
  const row = yield* query((q) => CommandApiKeys.read(q, key.uuid))
  return row ?? (yield* refused('key_not_found', `There is no key ${key.id}.`))
})

const requireWorkingKey = Effect.fnUntraced(function* (key: Id) {
  const row = yield* requireKey(key)
  return row.works ? row : yield* refused('key_revoked', `${key.id} is already revoked, or has expired.`)
})

const rotate = defineCommand(
  'rotate',
  {
    short: 'Replace a key',
    about:
      'Issues a key for the same account, mode and networks, and revokes the old key after an overlap. ' +
      'Unless --expires says otherwise, the new key lives as long as the old one was meant to. ' +
      'If a process continues to use the old key, 21 failures in a minute block its address, also ' +
      'for the new key.',
    changes: `A new key, and the end of the old one. ${takesEffect('apiKey')} hubctl keys revoke ends the old key earlier.`,
    examples: [
      { command: 'hubctl keys rotate key_01m7yt89qhe54swwc8wkxj6n8e', description: 'Both work for a day' },
      {
        command: 'hubctl keys rotate key_01m7yt89qhe54swwc8wkxj6n8e --overlap 0s --yes',
        description: 'A leaked key: the old key ends now',
      },
    ],
    needs: database,
  },
  {
    key: keyArgument,
    overlap: durationFlag('overlap', 'How long both keys work (default 1d)', MAX_OVERLAP_MS).pipe(
      Flag.withDefault(DEFAULT_OVERLAP_MS),
    ),
    expires: expiresFlag('When the new key stops working'),
  },
  Effect.fnUntraced(function* ({ expires, key, overlap }) {
    const seconds = overlap / 1000
    const old = yield* requireWorkingKey(key)
    const oldLifetime =
      old.expires_at === null ? null : (old.expires_at.getTime() - old.created_at.getTime()) / 1000
    const lifetime = expires === null ? oldLifetime : expires / 1000
    if (overlap === 0) yield* confirm(`Revoke ${key.id} (…${old.last_four}) now?`)
    const issued = yield* audited(
      {
        command: 'keys rotate',
        arguments: { key: key.id, overlap_seconds: seconds, expires_after_seconds: lifetime },
      },
      Effect.gen(function* () {
        const created = yield* issueKey(old.account, old.mode, old.allowed, lifetime)
        const end = yield* query((q) => CommandApiKeys.revoke(q, key.uuid, seconds))
        return { ...created, ends: end?.toISOString() ?? null }
      }),
      ({ ends, id, key: value }) => ({ key: id, ending: apiKeyEnding(value), old_ends_at: ends }),
    )
    const account = encodeId('acc', old.account)
    const result = {
      id: issued.id,
      key: issued.key,
      object: 'api_key',
      account,
      mode: old.mode,
      allowed_addresses: old.allowed,
      replaces: { id: key.id, revoked_at: issued.ends },
    }
    yield* show(result, () =>
      newKeyText({
        key: issued.key,
        id: issued.id,
        account,
        mode: old.mode,
        'allowed from': networksText(old.allowed),
        'old key ends': issued.ends,
      }),
    )
  }),
)

const revoke = defineCommand(
  'revoke',
  {
    short: 'Revoke a key',
    about: 'Revokes a key. Requests with it get 401 invalid_api_key.',
    changes: `The key stops working permanently. ${takesEffect('apiKey')} Messages accepted with it are sent.`,
    examples: [{ command: 'hubctl keys revoke key_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { key: keyArgument },
  Effect.fnUntraced(function* ({ key }) {
    const row = yield* requireWorkingKey(key)
    yield* confirm(`Revoke ${key.id} (${row.mode}, …${row.last_four}) of ${encodeId('acc', row.account)}?`)
    yield* audited(
      { command: 'keys revoke', arguments: { key: key.id } },
      query((q) => CommandApiKeys.revoke(q, key.uuid, 0)),
    )
    const revoked = toJson(yield* requireKey(key))
    yield* show(revoked, () => fields({ key: revoked.id, revoked: revoked.revoked_at }))
  }),
)

const allow = defineCommand(
  'allow',
  {
    short: 'Set the networks that may use a key',
    about:
      'Replaces the addresses and networks that may use a key. Requests from other addresses fail like ' +
      'requests with an invalid key.',
    changes: `The allowed addresses of a key. ${takesEffect('apiKey')}`,
    examples: [
      {
        command:
          'hubctl keys allow key_01m7yt89qhe54swwc8wkxj6n8e --allow 192.0.2.0/24 --allow 2001:db8::/32',
      },
      { command: 'hubctl keys allow key_01m7yt89qhe54swwc8wkxj6n8e --anywhere' },
    ],
    needs: database,
  },
  { key: keyArgument, networks: allowFlag, anywhere: switchFlag('anywhere', 'Allow any address') },
  Effect.fnUntraced(function* ({ anywhere, key, networks }) {
    if (anywhere === networks.length > 0) return yield* usageError('Give either --allow or --anywhere.')
    yield* requireWorkingKey(key)
    const allowed = anywhere ? null : networks
    yield* audited(
      { command: 'keys allow', arguments: { key: key.id, allowed_addresses: allowed } },
      hostBitsAsUsageError(query((q) => CommandApiKeys.setAllowedAddresses(q, key.uuid, allowed))),
    )
    const changed = toJson(yield* requireKey(key))
    yield* show(changed, () =>
      fields({ key: changed.id, 'allowed from': networksText(changed.allowed_addresses) }),
    )
  }),
)

export const keys = defineGroup(
  'keys',
  {
    short: 'API keys: issue, rotate, revoke, allowed networks',
    about: 'A key authenticates an account in one mode. It is shown once; the hub stores only its hash.',
  },
  [list, issue, rotate, revoke, allow],
)
