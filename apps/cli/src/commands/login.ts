/** `hub login`: stores the address of a hub and a key. */
import {
  CommandFailed,
  defineCommand,
  fields,
  isOnTerminal,
  isPrivateAddress,
  refused,
  show,
  urlOf,
  usageError,
} from '@hub/command-line'
import { Effect, Option, Redacted, Stdio, Stream } from 'effect'
import { Flag, Prompt } from 'effect/cli'
import { attempt, clockProblem, connectTo } from '../connection/connection.ts'
import { ProcessContext } from '../connection/environment.ts'
import { modeOfKey, readLocalHub } from '../connection/find-hub.ts'
import { readLogin, writeLogin } from '../connection/login-file.ts'

/** A key has some dozens of characters. */
const MAX_INPUT_BYTES = 4096

const readInput = Effect.gen(function* () {
  const stdio = yield* Stdio.Stdio
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  yield* Stream.runForEach(stdio.stdin, (chunk) => {
    bytes += chunk.length
    if (bytes > MAX_INPUT_BYTES) return Effect.fail(usageError('Standard input is no API key.'))
    chunks.push(chunk)
    return Effect.void
  }).pipe(Effect.catchTag('PlatformError', () => Effect.fail(usageError('Standard input cannot be read.'))))
  return Buffer.concat(chunks).toString('utf8').trim()
})

export const login = defineCommand(
  'login',
  {
    short: 'Store the address of a hub and a key',
    about:
      'Stores the address of a hub and a key in a file that only you can read, after the hub has accepted the ' +
      'key. The file has one test key and one live key: log in once with each. The command asks for the key on ' +
      'a terminal, and otherwise reads it from standard input, so that it does not become part of the shell ' +
      'history. A local hub needs no login.',
    changes: 'The file ~/.config/sms-delivery-hub/login.json. Delete the file to undo it.',
    examples: [
      { command: 'hub login --url https://hub.example.com' },
      { command: 'hub login --url https://hub.example.com < key.txt', description: 'Without a terminal' },
    ],
  },
  {
    url: Flag.String('url').pipe(
      Flag.withDescription('The address of the hub. Default: that of the earlier login, or of the local hub'),
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ url }) {
    const context = yield* ProcessContext
    const { environment } = context
    const earlier = yield* attempt(async () => readLogin(environment) ?? readLocalHub(context)?.login ?? null)
    const baseUrl = Option.getOrNull(url) ?? earlier?.base_url
    if (baseUrl === undefined) return yield* usageError('Give the address of the hub with --url.')
    const address = urlOf(baseUrl)
    if (address !== null && !isPrivateAddress(address)) {
      return yield* usageError('The hub must have an https address: others could read the key.')
    }
    const key = (yield* isOnTerminal)
      ? Redacted.value(yield* Prompt.run(Prompt.Hidden({ message: 'API key (hub_test_… or hub_live_…)' })))
      : yield* readInput
    if (!/^hub_(?:test|live)_/u.test(key)) {
      return yield* refused(
        'invalid_api_key',
        'This is no API key of the hub: it begins with hub_test_ or hub_live_.',
      )
    }
    const mode = modeOfKey(key)
    const [account, connection] = yield* attempt(async (signal) => {
      const made = connectTo({ baseUrl, key, mode, source: '--url', otherKey: null })
      return [await made.client.account.get({ signal }), made] as const
    })
    const problem = clockProblem(connection)
    if (problem instanceof CommandFailed) return yield* problem
    const file = yield* attempt(async () => {
      const stored = readLogin(environment)
      const keys = stored?.base_url === baseUrl ? stored.keys : {}
      return writeLogin(environment, { base_url: baseUrl, keys: { ...keys, [mode]: key } })
    })
    yield* show(
      { object: 'login', account: account.id, name: account.name, mode, base_url: baseUrl, file },
      () => fields({ account: account.name, mode, hub: baseUrl, file }),
    )
  }),
)
