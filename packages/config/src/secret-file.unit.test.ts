import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assert, describe, it } from '@effect/vitest'
import { ConfigProvider, Effect, Logger, Redacted } from 'effect'
import { afterAll } from 'vitest'
import {
  catalogue,
  checkSettings,
  fileVariable,
  findInvalidSettings,
  mayBeInFile,
  settings,
  unknownVariables,
} from './index.ts'

const folder = mkdtempSync(join(tmpdir(), 'hub-secrets-'))
afterAll(() => rmSync(folder, { recursive: true }))

const KEY = Buffer.from('a master key that is no secret 1').toString('base64')

const made = (name: string, content: string, mode = 0o400): string => {
  const path = join(folder, name)
  writeFileSync(path, content)
  chmodSync(path, mode)
  return path
}

type Environment = Readonly<Record<string, string>>
const from = (environment: Environment) =>
  Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: environment })))

/** The other settings of a projector. */
const PROJECTOR: Environment = {
  HUB_KAFKA_TLS: 'on',
  HUB_KAFKA_BROKERS: 'kafka.example.com:9092',
  HUB_ADMIN_PORT: '9090',
}
const DATABASE = 'postgres://hub:password@db.example.com/hub?sslmode=verify-full'

const sentences = (environment: Environment) =>
  findInvalidSettings('projector').pipe(
    Effect.map((mistakes) => mistakes.map(({ message }) => message)),
    from({ ...PROJECTOR, HUB_DATABASE_URL: DATABASE, ...environment }),
  )

describe('a secret in a file', () => {
  it.effect.each([
    ['without a line break', KEY, 0o400],
    ['with a line break at its end', `${KEY}\n`, 0o440],
    ['with the line break of Windows', `${KEY}\r\n`, 0o600],
  ] as const)('is read %s', ([name, content, mode]) =>
    Effect.gen(function* () {
      const path = made(name, content, mode)
      const key = yield* settings.masterKey.config.pipe(from({ HUB_MASTER_KEY_FILE: ` ${path} ` }))
      assert.strictEqual(Redacted.value(key!).toString('base64'), KEY)
      assert.deepStrictEqual(yield* sentences({ HUB_MASTER_KEY_FILE: path, HUB_MASTER_KEY: '' }), [])
    }),
  )

  it.effect('is read through the links that Kubernetes makes in a volume', () =>
    Effect.gen(function* () {
      mkdirSync(join(folder, '..data-1'))
      made('..data-1/HUB_MASTER_KEY', KEY, 0o440)
      symlinkSync('..data-1', join(folder, '..data'))
      symlinkSync('..data/HUB_MASTER_KEY', join(folder, 'HUB_MASTER_KEY'))
      assert.deepStrictEqual(yield* sentences({ HUB_MASTER_KEY_FILE: join(folder, 'HUB_MASTER_KEY') }), [])
    }),
  )

  it.effect.each([
    ['names a file that does not exist', () => join(folder, 'private-missing')],
    ['names something that is no file', () => folder],
    ['names an empty file', () => made('private-empty', '')],
    ['names an empty file', () => made('private-blank', ' \n')],
    ['names a file that every user may use (mode 0644)', () => made('private-644', KEY, 0o644)],
    ['names a file that every user may use (mode 0402)', () => made('private-402', KEY, 0o402)],
    ['names a file of more than 64 KiB', () => made('private-large', 'x'.repeat(65_537))],
  ] as const)('is refused if the variable %s', ([problem, path]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* sentences({ HUB_MASTER_KEY_FILE: path() }), [
        `HUB_MASTER_KEY_FILE ${problem}. Expected: a file with the secret, with mode 0400 or 0440.`,
      ])
    }),
  )

  it.effect('is refused beside the secret itself', () =>
    Effect.gen(function* () {
      const both = { HUB_MASTER_KEY: KEY, HUB_MASTER_KEY_FILE: made('both', KEY) }
      assert.deepStrictEqual(yield* sentences(both), [
        'HUB_MASTER_KEY_FILE is set, and so is HUB_MASTER_KEY. Expected: one of the two.',
      ])
    }),
  )

  it.effect('is checked like the variable, and never shown', () =>
    Effect.gen(function* () {
      const wrong = made('wrong', 'private')
      const twoLines = made('two-lines', `${KEY}\n\n`)
      assert.deepStrictEqual(yield* sentences({ HUB_MASTER_KEY_FILE: wrong }), [
        'HUB_MASTER_KEY is something else. Expected: 32 bytes in base64.',
      ])
      assert.deepStrictEqual(yield* sentences({ HUB_MASTER_KEY_FILE: twoLines }), [
        'HUB_MASTER_KEY has a control character in it, perhaps a line break at its end. Expected: 32 bytes in base64.',
      ])
      const repeats = made('repeats', Buffer.alloc(32).toString('base64'))
      const [danger = ''] = yield* sentences({ HUB_MASTER_KEY_FILE: repeats })
      assert.match(danger, /^HUB_MASTER_KEY repeats /u)
    }),
  )

  it.effect('counts as set for the rules between settings', () =>
    Effect.gen(function* () {
      const password = made('password', 'kafka')
      const environment = { HUB_MASTER_KEY: KEY, HUB_KAFKA_PASSWORD_FILE: password }
      assert.deepStrictEqual(yield* sentences({ ...environment, HUB_KAFKA_USERNAME: 'hub' }), [])
      assert.deepStrictEqual(yield* sentences(environment), [
        'HUB_KAFKA_USERNAME is not set, and HUB_KAFKA_PASSWORD is. Expected: a name.',
      ])
      // A file that cannot be read is the only mistake.
      const missing = { HUB_KAFKA_USERNAME: 'hub', HUB_KAFKA_PASSWORD_FILE: join(folder, 'missing') }
      assert.lengthOf(yield* sentences({ HUB_MASTER_KEY: KEY, ...missing }), 1)
    }),
  )

  it.effect('causes a warning if it ends with a space', () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const environment = {
        ...PROJECTOR,
        HUB_DATABASE_URL: DATABASE,
        HUB_MASTER_KEY: KEY,
        HUB_KAFKA_USERNAME: 'hub',
        HUB_KAFKA_PASSWORD_FILE: made('space', 'kafka \n'),
      }
      yield* checkSettings('projector', [], Object.keys(environment)).pipe(
        from(environment),
        Effect.provide(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])),
      )
      assert.deepStrictEqual(lines, [
        'HUB_KAFKA_PASSWORD begins or ends with a space. Remove it if it is not part of the secret.',
      ])
    }),
  )

  it('is possible for each secret of an app or of hubctl, and for nothing else', () => {
    const inFiles = catalogue.filter(mayBeInFile)
    assert.sameMembers(
      inFiles.map(({ name }) => name),
      catalogue
        .filter(({ kind, name }) => kind.secret && !/_(?:SIMULATOR|TEST)_/u.test(name))
        .map(({ name }) => name),
    )
    const variables = inFiles.map(({ name }) => fileVariable(name))
    // No other setting has the name of such a file.
    assert.isEmpty(catalogue.filter(({ name }) => variables.includes(name)))
    assert.deepStrictEqual(unknownVariables([...variables, 'HUB_MASTER_KEY_FIEL', 'HUB_ADMIN_PORT_FILE']), [
      { name: 'HUB_ADMIN_PORT_FILE', nearest: 'HUB_ADMIN_PORT' },
      { name: 'HUB_MASTER_KEY_FIEL', nearest: 'HUB_MASTER_KEY_FILE' },
    ])
  })
})
