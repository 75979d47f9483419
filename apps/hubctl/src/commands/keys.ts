/** `hubctl keys`: API keys. A key is shown once, when it is issued. */
import {
  type Cell,
  confirm,
  defineGroup,
  fields,
  NOTHING,
  printNote,
  show,
  showList,
  usageError,
} from '@hub/command-line'
import { MODES, SCOPES } from '@hub/domain'
import { Accounts, KeyRequests, Keys, type UseCase } from '@hub/operations'
import { Effect, Schema } from 'effect'
import { Flag } from 'effect/cli'
import {
  accountArgument,
  accountFlag,
  durationFlag,
  idArgument,
  limitFlag,
  modeFlag,
  switchFlag,
  takesEffect,
  uuidArgument,
} from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run, withHint } from '../operations.ts'

const allowFlag = Flag.String('allow').pipe(
  Flag.withDescription('Allow only this address or network. The flag can be repeated'),
  Flag.withMetavar('192.0.2.0/24'),
  Flag.filter(Keys.isNetwork, () => 'an address or a network in CIDR notation'),
  Flag.atLeast(0),
)

const scopeFlag = Flag.Literals('scope', SCOPES).pipe(
  Flag.withDescription(
    'Only this scope: send (messages and batches), read (every GET) or manage (all other changes). The flag can be ' +
      'repeated (default: all)',
  ),
  Flag.atLeast(0),
)

const expiresFlag = (about: string) =>
  durationFlag('expires', about, Keys.MAX_LIFETIME_SECONDS * 1000).pipe(
    Flag.filter(
      (ms) => ms > 0,
      () => 'at least one second',
    ),
    Flag.withDefault(null),
  )

const keyArgument = idArgument('key', 'key', 'An id from hubctl keys list')

const DEFAULT_OVERLAP_MS = 86_400_000

const networksText = (networks: ReadonlyArray<string> | null): string =>
  networks === null ? 'anywhere' : networks.length === 0 ? 'nowhere' : networks.join(', ')

const scopesText = (scopes: ReadonlyArray<string>): string => scopes.join(', ')

/** The input for the scopes of a new key. An operations API of an earlier version has no such input. */
const scopesInput = <Scope>(scopes: ReadonlyArray<Scope>): { readonly scopes?: ReadonlyArray<Scope> } =>
  scopes.length === 0 ? {} : { scopes }

/** The text of a new key. */
const newKeyText = (values: Readonly<Record<string, Cell>>): string =>
  [fields(values), '', 'Store the key now: it is not shown again.'].join('\n')

/** The part of an answer with a new key that every version of the operations API has. */
const KeyAlone = Schema.Struct({ id: Schema.String, key: Schema.String })

/**
 * Performs a use case that issues a key, and shows the key. An operations API of another version may answer in
 * another form. Nobody can read the key again, so it is shown then too, without the rest of the answer.
 */
const showNewKey = Effect.fnUntraced(function* <
  Input,
  Output extends typeof KeyAlone.Type & { readonly object: 'api_key' },
  E,
  R,
>(
  useCase: UseCase<Input, Output, E, R>,
  input: Input,
  valuesOf: (issued: Output) => Readonly<Record<string, Cell>>,
) {
  const issued = yield* run({ ...useCase, output: Schema.Union([useCase.output, KeyAlone]) }, input)
  const isComplete = (answer: typeof issued): answer is Output => 'object' in answer
  if (isComplete(issued)) return yield* show(issued, (complete) => newKeyText(valuesOf(complete)))
  yield* printNote('The operations API has another version than hubctl, which can read only the key.')
  yield* show(issued, ({ id, key }) => newKeyText({ key, id }))
})

const list = defineCommand(
  'list',
  {
    short: 'List keys',
    about:
      'Lists keys, newest first: account, allowed networks, scopes, last use (to the minute) and its ' +
      'client address, end of life, and whether the key works. Only the last four characters of a key are known.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl keys list --account acc_01m7yt89qhe54swwc8wkxj6n8e' },
      { command: 'hubctl keys list --mode live --all', description: 'With revoked and expired keys' },
    ],
  },
  {
    account: accountFlag,
    mode: modeFlag,
    ended: switchFlag('all', 'Include revoked and expired keys'),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* (filter) {
    const { data } = yield* run(Keys.list, { ...filter, cursor: null })
    yield* showList(data, {
      key: (row) => row.id,
      account: (row) => row.account,
      mode: (row) => row.mode,
      ending: (row) => `…${row.last_four}`,
      'allowed from': (row) => networksText(row.allowed_addresses),
      scopes: (row) => scopesText(row.scopes),
      created: (row) => row.created_at,
      works: (row) => row.works,
      'last use': (row) => row.last_used_at,
      from: (row) => row.last_used_from,
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
      'live key requires a certified account (hubctl certification check). With HUB_LIVE_KEY_PERSONS=2, ' +
      'hubctl keys request requests a live key, and another person confirms it. A key with --scope gets 403 ' +
      'insufficient_scope for all other operations. Processes of earlier versions do not know such a key: issue it after the upgrade.',
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
      {
        command: 'hubctl keys issue acc_01m7yt89qhe54swwc8wkxj6n8e --scope send --scope read',
        description: 'A test key for a program that sends, and cannot change templates or subscriptions',
      },
    ],
  },
  {
    account: accountArgument,
    mode: Flag.Literals('mode', MODES).pipe(
      Flag.withDescription('test: sandbox; live: real recipients'),
      Flag.withDefault('test' as const),
    ),
    allow: allowFlag,
    scope: scopeFlag,
    expires: expiresFlag('When the key stops working (default: never)'),
  },
  Effect.fnUntraced(function* ({ account, allow, expires, mode, scope }) {
    const { name } = yield* run(Accounts.get, { account: account })
    const wanted = {
      account: account,
      mode,
      allowed_addresses: allow.length === 0 ? null : allow,
      ...scopesInput(scope),
      expires_after_seconds: expires === null ? null : expires / 1000,
    }
    yield* showNewKey(Keys.issue, wanted, ({ allowed_addresses, expires_at, id, key, scopes }) => ({
      key,
      id,
      account: `${account} (${name})`,
      mode,
      'allowed from': networksText(allowed_addresses),
      scopes: scopesText(scopes),
      expires: expires_at ?? 'never',
    })).pipe(withHint('not_certified', `See: hubctl certification check ${account}`))
  }),
)

const rotationFlags = {
  key: keyArgument,
  overlap: durationFlag(
    'overlap',
    'How long both keys work (default 1d)',
    Keys.MAX_OVERLAP_SECONDS * 1000,
  ).pipe(Flag.withDefault(DEFAULT_OVERLAP_MS)),
  expires: expiresFlag('When the new key stops working'),
}

const rotate = defineCommand(
  'rotate',
  {
    short: 'Replace a key',
    about:
      'Issues a key for the same account, mode, networks and scopes, and revokes the old key after an overlap. ' +
      'Unless --expires says otherwise, the new key lives as long as the old one was meant to. ' +
      'If a process continues to use the old key, 21 failures in a minute block its address, also ' +
      'for the new key. With HUB_LIVE_KEY_PERSONS=2, hubctl keys request-rotation requests the rotation of ' +
      'a live key, and another person confirms it.',
    changes: `A new key, and the end of the old one. ${takesEffect('apiKey')} hubctl keys revoke ends the old key earlier.`,
    examples: [
      { command: 'hubctl keys rotate key_01m7yt89qhe54swwc8wkxj6n8e', description: 'Both work for a day' },
      {
        command: 'hubctl keys rotate key_01m7yt89qhe54swwc8wkxj6n8e --overlap 0s --yes',
        description: 'A leaked key: the old key ends now',
      },
    ],
  },
  rotationFlags,
  Effect.fnUntraced(function* ({ expires, key, overlap }) {
    const old = yield* run(Keys.get, { id: key })
    if (overlap === 0 && old.works) yield* confirm(`Revoke ${key} (…${old.last_four}) now?`)
    const wanted = {
      id: key,
      overlap_seconds: overlap / 1000,
      expires_after_seconds: expires === null ? null : expires / 1000,
    }
    yield* showNewKey(Keys.rotate, wanted, (rotated) => ({
      key: rotated.key,
      id: rotated.id,
      account: rotated.account,
      mode: rotated.mode,
      'allowed from': networksText(rotated.allowed_addresses),
      scopes: scopesText(rotated.scopes),
      'old key ends': rotated.replaces.revoked_at,
    }))
  }),
)

const revoke = defineCommand(
  'revoke',
  {
    short: 'Revoke a key',
    about: 'Revokes a key. Requests with it get 401 invalid_api_key.',
    changes: `The key stops working permanently. ${takesEffect('apiKey')} Messages accepted with it are sent.`,
    examples: [{ command: 'hubctl keys revoke key_01m7yt89qhe54swwc8wkxj6n8e' }],
  },
  { key: keyArgument },
  Effect.fnUntraced(function* ({ key }) {
    const { account, last_four, mode, works } = yield* run(Keys.get, { id: key })
    if (works) yield* confirm(`Revoke ${key} (${mode}, …${last_four}) of ${account}?`)
    const revoked = yield* run(Keys.revoke, { id: key })
    yield* show(revoked, () => fields({ key: revoked.id, revoked: revoked.revoked_at }))
  }),
)

const allow = defineCommand(
  'allow',
  {
    short: 'Set the networks that may use a key',
    about:
      'Replaces the addresses and networks that may use a key. Requests from other addresses fail like ' +
      'requests with an invalid key. With HUB_LIVE_KEY_PERSONS=2, the new networks of a live key must be inside ' +
      'of the old ones; hubctl keys request-rotation requests a key with others.',
    changes: `The allowed addresses of a key. ${takesEffect('apiKey')}`,
    examples: [
      {
        command:
          'hubctl keys allow key_01m7yt89qhe54swwc8wkxj6n8e --allow 192.0.2.0/24 --allow 2001:db8::/32',
      },
      { command: 'hubctl keys allow key_01m7yt89qhe54swwc8wkxj6n8e --anywhere' },
    ],
  },
  { key: keyArgument, networks: allowFlag, anywhere: switchFlag('anywhere', 'Allow any address') },
  Effect.fnUntraced(function* ({ anywhere, key, networks }) {
    if (anywhere === networks.length > 0) return yield* usageError('Give either --allow or --anywhere.')
    const allowed_addresses = anywhere ? null : networks
    const changed = yield* run(Keys.allow, { id: key, allowed_addresses })
    yield* show(changed, () =>
      fields({ key: changed.id, 'allowed from': networksText(changed.allowed_addresses) }),
    )
  }),
)

const requestText = (made: KeyRequests.KeyRequest): string =>
  [
    fields({
      request: made.id,
      account: `${made.account} (${made.name})`,
      ...(made.replaces === null ? {} : { replaces: made.replaces }),
      'allowed from': networksText(made.allowed_addresses),
      scopes: scopesText(made.scopes),
      'requested by': made.requested_by,
      until: made.expires_at,
    }),
    '',
    `There is no key yet. Another person confirms it: hubctl keys confirm ${made.id}`,
  ].join('\n')

const request = defineCommand(
  'request',
  {
    short: 'Request a live key, for another person to confirm',
    about:
      'Requests a live key of a certified account. Another person confirms it within a week, and gets the ' +
      'key. A hub with HUB_LIVE_KEY_PERSONS=2 issues live keys only in this way.',
    changes: 'A request. There is no key before the confirmation.',
    examples: [
      { command: 'hubctl keys request acc_01m7yt89qhe54swwc8wkxj6n8e --allow 192.0.2.0/24 --expires 365d' },
    ],
  },
  {
    account: accountArgument,
    allow: allowFlag,
    scope: scopeFlag,
    expires: expiresFlag('When the key stops working'),
  },
  Effect.fnUntraced(function* ({ account, allow, expires, scope }) {
    const made = yield* run(KeyRequests.request, {
      account,
      allowed_addresses: allow.length === 0 ? null : allow,
      ...scopesInput(scope),
      expires_after_seconds: expires === null ? null : expires / 1000,
    }).pipe(withHint('not_certified', `See: hubctl certification check ${account}`))
    yield* show(made, requestText)
  }),
)

const requestRotation = defineCommand(
  'request-rotation',
  {
    short: 'Request the rotation of a live key, for another person to confirm',
    about:
      'Requests a new live key for the same account and scopes, and for the same networks unless flags name others. ' +
      'Another person confirms it within a week, and gets the key; the old key ends after an overlap from then. A hub with HUB_LIVE_KEY_PERSONS=2 ' +
      'rotates live keys only in this way. hubctl keys revoke ends a leaked key at once, with one person.',
    changes: 'A request. Both keys and their networks stay as they are before the confirmation.',
    examples: [
      {
        command: 'hubctl keys request-rotation key_01m7yt89qhe54swwc8wkxj6n8e',
        description: 'Both keys work for a day after the confirmation',
      },
      {
        command:
          'hubctl keys request-rotation key_01m7yt89qhe54swwc8wkxj6n8e --allow 192.0.2.0/24 --allow 2001:db8::/32',
        description: 'The new key works from these networks',
      },
    ],
  },
  { ...rotationFlags, networks: allowFlag, anywhere: switchFlag('anywhere', 'Allow any address') },
  Effect.fnUntraced(function* ({ anywhere, expires, key, networks, overlap }) {
    if (anywhere && networks.length > 0) return yield* usageError('Give either --allow or --anywhere.')
    const made = yield* run(KeyRequests.requestRotation, {
      id: key,
      overlap_seconds: overlap / 1000,
      expires_after_seconds: expires === null ? null : expires / 1000,
      networks: anywhere
        ? { allowed_addresses: null }
        : networks.length > 0
          ? { allowed_addresses: networks }
          : null,
    })
    yield* show(made, requestText)
  }),
)

const confirmRequest = defineCommand(
  'confirm',
  {
    short: 'Confirm a live key that another person requested',
    about:
      'Confirms a live key that another person requested within the last week, issues it and shows it once. ' +
      'Give it to the client.',
    changes:
      'A new live key of the account, which works immediately. The key that it replaces, if any, ends after ' +
      'the requested overlap.',
    examples: [{ command: 'hubctl keys confirm 0199c4de-6f0a-4d1e-9a65-3f1f5f7a2b11' }],
  },
  { id: uuidArgument('request', 'An id from hubctl keys requests') },
  Effect.fnUntraced(function* ({ id }) {
    yield* confirm('Issue this live key?')
    yield* showNewKey(KeyRequests.confirm, { id }, (one) => ({
      key: one.key,
      id: one.id,
      account: one.account,
      mode: one.mode,
      'allowed from': networksText(one.allowed_addresses),
      scopes: scopesText(one.scopes),
      expires: one.expires_at ?? 'never',
      ...(one.replaces === null ? {} : { [`${one.replaces.id} ends`]: one.replaces.revoked_at }),
    }))
  }),
)

const requests = defineCommand(
  'requests',
  {
    short: 'List the live keys that wait for another person',
    about: 'Lists the requested live keys, newest first: those that can be confirmed, or all.',
    changes: NOTHING,
    examples: [{ command: 'hubctl keys requests' }],
  },
  {
    account: accountFlag,
    all: switchFlag('all', 'Include confirmed and expired ones'),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ account, all, limit }) {
    const { data } = yield* run(KeyRequests.list, { account, open: !all, limit, cursor: null })
    yield* showList(
      data,
      {
        request: (row) => row.id,
        account: (row) => row.account,
        status: (row) => row.status,
        by: (row) => row.requested_by,
        replaces: (row) => row.replaces,
        'allowed from': (row) => networksText(row.allowed_addresses),
        scopes: (row) => scopesText(row.scopes),
        requested: (row) => row.requested_at,
        expires: (row) => row.expires_at,
        'confirmed by': (row) => row.confirmed_by,
      },
      'No live key waits.',
    )
  }),
)

export const keys = defineGroup(
  'keys',
  {
    short: 'API keys: issue, rotate, revoke, allowed networks',
    about: 'A key authenticates an account in one mode. It is shown once; the hub stores only its hash.',
  },
  [list, issue, rotate, revoke, allow, request, requestRotation, requests, confirmRequest],
)
