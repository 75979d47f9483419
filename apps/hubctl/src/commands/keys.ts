/** `hubctl keys`: API keys. A key is shown once, when it is issued. */
import { randomBytes } from 'node:crypto'
import { isIPv4, isIPv6 } from 'node:net'
import {
  API_KEY_RANDOM_BYTES,
  apiKeyDigest,
  apiKeyEnding,
  apiKeyFrom,
  encodeId,
  type Mode,
  MODES,
} from '@hub/domain'
import { insertApiKey, type Queries, Sql } from '@hub/store'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database } from '../command-line/connections.ts'
import { usageError, refused } from '../command-line/failure.ts'
import { fields, show, table } from '../command-line/output.ts'
import {
  accountArgument,
  accountFlag,
  generateId,
  type Id,
  idArgument,
  takesEffect,
  limitFlag,
  modeFlag,
  durationFlag,
} from '../command-line/arguments.ts'
import { requireAccount } from './accounts.ts'
import { isCertified } from './certification.ts'

/** An address, or a network whose host bits are zero: `10.1.2.3/8` is more likely a slip than a way to write `10.0.0.0/8`. PostgreSQL sees to the bits. */
export const isNetwork = (text: string): boolean => {
  const [address = '', width, more] = text.split('/')
  if (more !== undefined || (width !== undefined && !/^\d{1,3}$/u.test(width))) return false
  const bits = width === undefined ? 0 : Number(width)
  return (isIPv4(address) && bits <= 32) || (isIPv6(address) && !address.includes('%') && bits <= 128)
}

const allow = Flag.String('allow').pipe(
  Flag.withDescription('Only from this address or network, such as 192.0.2.0/24; may be given several times'),
  Flag.withMetavar('192.0.2.0/24'),
  Flag.filter(isNetwork, () => 'an address or a network in CIDR notation'),
  Flag.atLeast(0),
)

const keyArgument = idArgument('key', 'key', 'The id of the key, as hubctl keys list shows it')

/** A rotation that takes longer has been forgotten. */
const OVERLAP_MOST_MS = 30 * 86_400_000
const OVERLAP_MS = 86_400_000

interface KeyRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly last_four: string
  readonly allowed: ReadonlyArray<string> | null
  readonly created_at: Date
  readonly revoked_at: Date | null
  readonly works: boolean
}

const columns = (q: Queries) => q`
  id, account, mode, last_four, allowed_addresses::text[] AS allowed, created_at, revoked_at,
  (revoked_at IS NULL OR revoked_at > now()) AS works`

const keyObject = (row: KeyRow) => ({
  id: encodeId('key', row.id),
  object: 'api_key',
  account: encodeId('acc', row.account),
  mode: row.mode,
  last_four: row.last_four,
  allowed_addresses: row.allowed,
  created_at: row.created_at.toISOString(),
  revoked_at: row.revoked_at?.toISOString() ?? null,
  works: row.works,
})

const allowedText = (allowed: ReadonlyArray<string> | null): string =>
  allowed === null ? 'anywhere' : allowed.length === 0 ? 'nowhere' : allowed.join(', ')

/** A network whose host bits are set is refused by PostgreSQL. */
const asMisused = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    Effect.catchIf(
      (error) => error._tag === 'StorageRejected' && 'code' in error && error.code === '22P02',
      () =>
        Effect.fail(
          usageError('A network of --allow has host bits that are set: 10.0.0.0/8, not 10.1.2.3/8.'),
        ),
    ),
  )

/** Issues one more key and answers it. It works at once, in every process. */
const issueKey = Effect.fnUntraced(function* (
  account: Pick<Id, 'uuid'>,
  mode: Mode,
  allowed: ReadonlyArray<string> | null,
) {
  const sql = yield* Sql
  const { id, uuid } = yield* generateId('key')
  const key = apiKeyFrom(mode, randomBytes(API_KEY_RANDOM_BYTES))
  yield* asMisused(
    sql.run((q) =>
      insertApiKey(q, {
        id: uuid,
        account: account.uuid,
        mode,
        digest: apiKeyDigest(key),
        ending: apiKeyEnding(key),
        allowed,
      }),
    ),
  )
  return { id, key }
})

const list = defineCommand(
  'list',
  {
    short: 'Keys, without the keys themselves',
    about:
      'Lists keys, newest first: whose they are, from where they may be used, and whether they work. Of a key itself only the ending is known.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl keys list --account acc_01m7yt89qhe54swwc8wkxj6n8e' },
      { command: 'hubctl keys list --mode live --all', description: 'Revoked ones as well' },
    ],
    needs: database,
  },
  {
    account: accountFlag,
    mode: modeFlag,
    all: Flag.Boolean('all').pipe(Flag.withDescription('Revoked keys as well'), Flag.withDefault(false)),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ account, all, limit, mode }) {
    const sql = yield* Sql
    const of = Option.getOrNull(account)?.uuid ?? null
    const within = Option.getOrNull(mode)
    const rows = yield* sql.run(
      (q) => q<KeyRow[]>`
        SELECT ${columns(q)} FROM command.api_keys
         WHERE (${of}::uuid IS NULL OR account = ${of}) AND (${within}::command.mode IS NULL OR mode = ${within})
           AND (${all} OR revoked_at IS NULL OR revoked_at > now())
         ORDER BY created_at DESC, id DESC LIMIT ${limit}`,
    )
    const data = rows.map(keyObject)
    yield* show({ object: 'list', data }, () =>
      table(data, {
        key: (row) => row.id,
        account: (row) => row.account,
        mode: (row) => row.mode,
        ending: (row) => `…${row.last_four}`,
        'allowed from': (row) => allowedText(row.allowed_addresses),
        created: (row) => row.created_at,
        works: (row) => row.works,
        revoked: (row) => row.revoked_at,
      }),
    )
  }),
)

const issue = defineCommand(
  'issue',
  {
    short: 'A new key, shown once',
    about:
      'Issues a key and shows it, once: only its hash is kept. Test keys reach the sandbox. A live key needs an account that is certified ' +
      '(hubctl certification check).',
    changes: 'One more key of the account. It works at once. Other keys stay as they are.',
    examples: [
      { command: 'hubctl keys issue acc_01m7yt89qhe54swwc8wkxj6n8e', description: 'A test key' },
      {
        command: 'hubctl keys issue acc_01m7yt89qhe54swwc8wkxj6n8e --mode live --allow 192.0.2.0/24',
        description: 'A live key that works from one network',
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
    allow,
  },
  Effect.fnUntraced(function* ({ account, allow: networks, mode }) {
    const name = yield* requireAccount(account)
    const allowed = networks.length === 0 ? null : networks
    const issued = yield* audited(
      {
        command: 'keys issue',
        arguments: { account: account.id, mode, allowed_addresses: allowed },
      },
      Effect.gen(function* () {
        if (mode === 'live' && !(yield* isCertified(account))) {
          return yield* refused(
            'not_certified',
            `${account.id} is not certified for live keys. See: hubctl certification check ${account.id}`,
          )
        }
        return yield* issueKey(account, mode, allowed)
      }),
      ({ id, key }) => ({ key: id, ending: apiKeyEnding(key) }),
    )
    yield* show({ ...issued, object: 'api_key', account: account.id, mode, allowed_addresses: allowed }, () =>
      [
        fields({
          key: issued.key,
          id: issued.id,
          account: `${account.id} (${name})`,
          mode,
          'allowed from': allowedText(allowed),
        }),
        '',
        'Keep it now: it is not shown again.',
      ].join('\n'),
    )
  }),
)

const requireKey = Effect.fnUntraced(function* (key: Id) {
  const sql = yield* Sql
  const [row] = yield* sql.run(
    (q) => q<KeyRow[]>`SELECT ${columns(q)} FROM command.api_keys WHERE id = ${key.uuid}`,
  )
  if (row === undefined) return yield* refused('key_not_found', `There is no key ${key.id}.`)
  return row
})

/** A key that works. */
const requireWorkingKey = Effect.fnUntraced(function* (key: Id) {
  const row = yield* requireKey(key)
  return row.works ? row : yield* refused('key_revoked', `${key.id} is revoked already.`)
})

const rotate = defineCommand(
  'rotate',
  {
    short: 'A new key in place of an old one',
    about:
      'Issues a key for the same account and mode, with the same allowed addresses, and ends the old one after an overlap in which both work. ' +
      'Processes that still use the old key afterwards fail to log in, and after twenty failures in a minute lock out their address, for the new key as well.',
    changes: `One more key, and an end of the old one. ${takesEffect('apiKey')} The end can be moved up with hubctl keys revoke.`,
    examples: [
      { command: 'hubctl keys rotate key_01m7yt89qhe54swwc8wkxj6n8e', description: 'Both work for a day' },
      {
        command: 'hubctl keys rotate key_01m7yt89qhe54swwc8wkxj6n8e --overlap 0s --yes',
        description: 'It has leaked: the old one ends now',
      },
    ],
    needs: database,
  },
  {
    key: keyArgument,
    overlap: durationFlag('overlap', 'How long both work (default 1d)', OVERLAP_MOST_MS).pipe(
      Flag.withDefault(OVERLAP_MS),
    ),
  },
  Effect.fnUntraced(function* ({ key, overlap }) {
    const sql = yield* Sql
    const old = yield* requireWorkingKey(key)
    if (overlap === 0) yield* confirm(`End ${key.id} (…${old.last_four}) now?`)
    const issued = yield* audited(
      { command: 'keys rotate', arguments: { key: key.id, overlap_seconds: overlap / 1000 } },
      Effect.gen(function* () {
        const made = yield* issueKey({ uuid: old.account }, old.mode, old.allowed)
        // An end that was set before stays where it is earlier.
        const [ended] = yield* sql.run(
          (q) => q<{ revoked_at: Date }[]>`
            UPDATE command.api_keys
               SET revoked_at = least(revoked_at, now() + make_interval(secs => ${overlap / 1000}))
             WHERE id = ${key.uuid} RETURNING revoked_at`,
        )
        return { ...made, ends: ended?.revoked_at.toISOString() ?? null }
      }),
      ({ ends, id, key: value }) => ({ key: id, ending: apiKeyEnding(value), old_ends_at: ends }),
    )
    const account = encodeId('acc', old.account)
    yield* show(
      {
        id: issued.id,
        key: issued.key,
        object: 'api_key',
        account,
        mode: old.mode,
        allowed_addresses: old.allowed,
        replaces: { id: key.id, revoked_at: issued.ends },
      },
      () =>
        [
          fields({
            key: issued.key,
            id: issued.id,
            account,
            mode: old.mode,
            'allowed from': allowedText(old.allowed),
            'old key ends': issued.ends,
          }),
          '',
          'Keep it now: it is not shown again.',
        ].join('\n'),
    )
  }),
)

const revoke = defineCommand(
  'revoke',
  {
    short: 'End a key',
    about: 'Ends a key. Requests with it get 401 invalid_api_key.',
    changes: `The key stops working, for good. ${takesEffect('apiKey')} What was accepted with it goes its way.`,
    examples: [{ command: 'hubctl keys revoke key_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { key: keyArgument },
  Effect.fnUntraced(function* ({ key }) {
    const sql = yield* Sql
    const row = yield* requireWorkingKey(key)
    yield* confirm(`End ${key.id} (${row.mode}, …${row.last_four}) of ${encodeId('acc', row.account)}?`)
    yield* audited(
      { command: 'keys revoke', arguments: { key: key.id } },
      sql.run((q) => q`UPDATE command.api_keys SET revoked_at = now() WHERE id = ${key.uuid}`),
    )
    const ended = keyObject(yield* requireKey(key))
    yield* show(ended, () => fields({ key: ended.id, revoked: ended.revoked_at }))
  }),
)

const allowed = defineCommand(
  'allow',
  {
    short: 'From where a key may be used',
    about:
      'Sets the addresses and networks that a key may be used from; all of them, each time. From anywhere else it is answered as an invalid key is.',
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
  {
    key: keyArgument,
    allow,
    anywhere: Flag.Boolean('anywhere').pipe(
      Flag.withDescription('From any address'),
      Flag.withDefault(false),
    ),
  },
  Effect.fnUntraced(function* ({ allow: networks, anywhere, key }) {
    const sql = yield* Sql
    if (anywhere === networks.length > 0) return yield* usageError('Give --allow, or --anywhere.')
    yield* requireWorkingKey(key)
    const value = anywhere ? null : [...networks]
    yield* audited(
      { command: 'keys allow', arguments: { key: key.id, allowed_addresses: value } },
      asMisused(
        sql.run(
          (q) =>
            q`UPDATE command.api_keys SET allowed_addresses = ${value}::text[]::cidr[] WHERE id = ${key.uuid}`,
        ),
      ),
    )
    const row = keyObject(yield* requireKey(key))
    yield* show(row, () => fields({ key: row.id, 'allowed from': allowedText(row.allowed_addresses) }))
  }),
)

export const keys = defineGroup(
  'keys',
  {
    short: 'API keys: issue, rotate, revoke, allowed addresses',
    about:
      'A key speaks for an account in one mode. Its value is shown once, when it is issued; only its hash is kept.',
  },
  [list, issue, rotate, revoke, allowed],
)
