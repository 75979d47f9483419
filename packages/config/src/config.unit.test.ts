import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { assert, describe, it } from '@effect/vitest'
import { Config, ConfigProvider, Effect, Logger, Redacted, Result } from 'effect'
import {
  APPS,
  catalogue,
  checkSettings,
  configurationPage,
  findInvalidSettings,
  invalidSettingOf,
  refineSetting,
  rules,
  type Setting,
  settings,
  unknownVariables,
} from './index.ts'

const ROOT = join(import.meta.dirname, '../../..')

type Environment = Readonly<Record<string, string>>
const from = (environment: Environment) =>
  Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment)))

const RIGHT: Environment = {
  HUB_PORT: '8080',
  HUB_BASE_URL: 'https://hub.example.com',
  HUB_NUMBER_HASH_SECRET: 'a secret of at least 32 characters',
  HUB_DATABASE_URL: 'postgres://hub:password@db.example.com/hub',
  HUB_REDIS_URL: 'redis://redis.example.com',
  HUB_KAFKA_BROKERS: 'kafka-1.example.com:9092, [2001:db8::1]:9092',
  HUB_MASTER_KEY: Buffer.alloc(32).toString('base64'),
  HUB_ADMIN_PORT: '9090',
}

const sentences = (app: (typeof APPS)[number] | 'hubctl', environment: Environment) =>
  findInvalidSettings(app).pipe(
    Effect.map((mistakes) => mistakes.map(({ message }) => message)),
    from(environment),
  )

describe('the catalogue', () => {
  it('has unique names in the usual form', () => {
    const names = catalogue.map(({ name }) => name)
    assert.deepStrictEqual(names, [...new Set(names)])
    for (const name of names) assert.match(name, /^HUB(?:CTL)?_[A-Z]+(?:_[A-Z]+)*$/u)
    assert.lengthOf(names, Object.keys(settings).length)
  })

  for (const setting of catalogue) {
    it.effect(`${setting.name} may be unset, or reports that it is missing`, () =>
      Effect.gen(function* () {
        const read = yield* Effect.result(setting.config).pipe(from({}))
        assert.strictEqual(Result.isSuccess(read), setting.need !== 'required')
        if (setting.need === 'optional') assert.strictEqual(Result.getOrThrow(read), null)
      }),
    )
    it(`${setting.name} has a description`, () => {
      assert.match(setting.doc, /^[A-Z`].{10,}\.$/su)
      assert.isNotEmpty(setting.readBy)
    })
  }

  it('marks secrets as secret', () => {
    for (const { kind, name } of catalogue) {
      if (/SECRET|PASSWORD|KEY$|KEYS$|DATABASE_URL|REDIS_URL/u.test(name)) assert.isTrue(kind.secret, name)
    }
  })

  const sources = ['apps', 'packages', 'infra/local', 'test', 'benchmarks', 'scripts'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.includes('node_modules'))
      .map((file) => join(folder, file)),
  )

  it('contains every variable in the sources', () => {
    const known = new Set(catalogue.map(({ name }) => name))
    const unknown = sources
      // Tests use invented names, and manifests have names that no process reads.
      .filter((file) => !file.endsWith('.test.ts') && !file.startsWith('test/operating/manifests'))
      .flatMap((file) =>
        [...readFileSync(join(ROOT, file), 'utf8').matchAll(/['`"[.](HUB_[A-Z_]+[A-Z])['`"\]]/gu)]
          .map(([, name = '']) => name)
          .filter((name) => !known.has(name))
          .map((name) => `${name} in ${file}`),
      )
    assert.deepStrictEqual(unknown, [])
  })

  it('is the only place that defines settings', () => {
    const elsewhere = sources.filter(
      (file) =>
        !file.startsWith('packages/config/') &&
        /Config\s*\.\s*[A-Za-z]+\(\s*['"`]HUB_/u.test(readFileSync(join(ROOT, file), 'utf8')),
    )
    assert.deepStrictEqual(elsewhere, [])
  })

  it('equals docs/configuration.md (else run npm run generate)', () => {
    assert.strictEqual(readFileSync(join(ROOT, 'docs/configuration.md'), 'utf8'), configurationPage())
  })
})

describe('the environment of a process', () => {
  for (const app of APPS) {
    it.effect(`of ${app} must contain exactly the required settings`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* sentences(app, RIGHT), [])
        const required = catalogue.filter(({ need, readBy }) => need === 'required' && readBy.includes(app))
        assert.deepStrictEqual(
          yield* sentences(app, {}),
          required.map(({ kind, name }) => `${name} is not set. Expected: ${kind.expected}.`),
        )
        assert.isNotEmpty(required)
      }),
    )
  }

  it.effect('has all problems reported at once, without values', () =>
    Effect.gen(function* () {
      const wrong: Environment = {
        HUB_PORT: '0x1f90-private',
        HUB_BASE_URL: 'private.example.com',
        HUB_NUMBER_HASH_SECRET: 'private and short',
        HUB_DATABASE_URL: 'mysql://private',
        HUB_REDIS_URL: 'private',
        HUB_KAFKA_BROKERS: 'private:99999',
        HUB_MASTER_KEY: 'private',
        HUB_PREVIOUS_MASTER_KEYS: 'private',
        HUB_ADMIN_PORT: '70000',
        HUB_TLS_CERT_FILE: '/private',
        HUB_PARTITIONS: 'private',
        HUB_DATABASE_POOL: '0',
        HUB_LOG_LEVEL: 'private',
        HUB_TOPIC_PREFIX: 'private/',
      }
      const found = yield* findInvalidSettings('command-api').pipe(from(wrong))
      assert.sameMembers(
        found.map(({ variable }) => variable),
        // Any file name is valid here, but the other file of the pair is missing.
        Object.keys(wrong).map((name) => (name === 'HUB_TLS_CERT_FILE' ? 'HUB_TLS_KEY_FILE' : name)),
      )
      for (const { message } of found) {
        assert.notInclude(message, 'private')
        assert.match(message, /^HUB_\w+ (?:is|has) .+\. Expected: .+\.$/u)
      }
    }),
  )

  it.effect('is refused with two operators or an incomplete one', () =>
    Effect.gen(function* () {
      const operators = {
        HUB_OPERATOR_SMPP_URL: 'smpp://hub@operator.example:2775',
        HUB_OPERATOR_HTTP_URL: 'https://operator.example',
      }
      assert.deepStrictEqual(yield* sentences('dispatcher', { ...RIGHT, ...operators }), [
        'HUB_OPERATOR_SMPP_URL is set, and so is HUB_OPERATOR_HTTP_URL. Expected: one of the two, since live keys have one operator.',
        'HUB_OPERATOR_SMPP_PASSWORD is not set, and HUB_OPERATOR_SMPP_URL is. Expected: 1 to 8 characters.',
        'HUB_OPERATOR_HTTP_SECRET is not set, and HUB_OPERATOR_HTTP_URL is. Expected: 1 characters or more.',
        'HUB_OPERATOR_CALLBACK_PORT is not set, and HUB_OPERATOR_HTTP_URL is. Expected: a port, 1 to 65535.',
      ])
      // Other apps do not read these settings.
      assert.deepStrictEqual(yield* sentences('projector', { ...RIGHT, ...operators }), [])
    }),
  )

  it.effect('may be incomplete for hubctl', () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* sentences('hubctl', {}), [])
      assert.lengthOf(yield* sentences('hubctl', { HUB_DATABASE_URL: 'mysql://x' }), 1)
    }),
  )

  it.effect('treats an empty variable as unset', () =>
    Effect.gen(function* () {
      const empty = { HUB_PARTITIONS: '', HUB_WEBHOOK_CA_FILE: ' ', HUB_REDIS_URL: '' }
      assert.strictEqual(yield* settings.partitions.config.pipe(from(empty)), 6)
      assert.isNull(yield* settings.webhookCaFile.config.pipe(from(empty)))
      const missing = yield* Effect.flip(settings.redisUrl.config).pipe(from(empty))
      assert.strictEqual(invalidSettingOf(missing)?.problem, 'is not set')
    }),
  )

  it.effect('has extra checks reported with the rest, and each variable once', () =>
    Effect.gen(function* () {
      const noHosts = refineSetting(settings.webhookAllowedHosts, () => Result.fail('has a pattern in it'))
      const foreign = Config.Int('HUB_PARTITIONS')
      const found = yield* findInvalidSettings('webhook-fanout', [noHosts, noHosts, foreign]).pipe(
        from({ ...RIGHT, HUB_PARTITIONS: 'private' }),
      )
      assert.deepStrictEqual(
        found.map(({ message }) => message),
        [
          'HUB_PARTITIONS is something else. Expected: a whole number from 1 to 1024.',
          'HUB_WEBHOOK_ALLOWED_HOSTS has a pattern in it. Expected: host names and addresses, separated by commas.',
          'The environment cannot be read. Expected: what docs/configuration.md says.',
        ],
      )
    }),
  )

  it.effect('has each problem logged, and a warning for each unknown variable', () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const logger = Logger.make(
        ({ logLevel, message }) => void lines.push(`${logLevel}: ${String(message)}`),
      )
      const error = yield* checkSettings('projector', [], ['HUB_DATABSE_URL', 'HUB_PARTITIONS', 'PATH']).pipe(
        from({ ...RIGHT, HUB_DATABASE_URL: '', HUB_ADMIN_PORT: 'nine' }),
        Effect.provide(Logger.layer([logger])),
        Effect.flip,
      )
      assert.deepStrictEqual(lines, [
        'Warn: HUB_DATABSE_URL is no setting of the hub and has no effect; HUB_DATABASE_URL is',
        'Error: HUB_DATABASE_URL is not set. Expected: a URL that begins with postgres:// or postgresql://.',
        'Error: HUB_ADMIN_PORT is something else. Expected: a port, 1 to 65535.',
      ])
      assert.lengthOf(error.mistakes, 2)
    }),
  )
})

describe('a secret', () => {
  it.effect('is not trimmed and must not end with a line break', () =>
    Effect.gen(function* () {
      const secret = ` ${'s'.repeat(40)} `
      const read = yield* settings.numberHashSecret.config.pipe(from({ HUB_NUMBER_HASH_SECRET: secret }))
      assert.strictEqual(Redacted.value(read), secret)
      const error = yield* Effect.flip(settings.numberHashSecret.config).pipe(
        from({ HUB_NUMBER_HASH_SECRET: `${secret}\n` }),
      )
      assert.match(String(invalidSettingOf(error)?.message), /a line break at its end/u)
    }),
  )
})

describe('an unknown variable', () => {
  it('is reported with the most similar setting', () => {
    const nearest = (name: string) => unknownVariables([name])[0]?.nearest
    assert.strictEqual(nearest('HUB_REDISURL'), 'HUB_REDIS_URL')
    assert.strictEqual(nearest('HUB_PROT'), 'HUB_PORT')
    assert.strictEqual(nearest('HUB_OPERATOR_SMPP_PASWORD'), 'HUB_OPERATOR_SMPP_PASSWORD')
    assert.isNull(nearest('HUB_FEATURE_FLAGS'))
    assert.deepStrictEqual(unknownVariables(catalogue.map(({ name }: Setting<unknown>) => name)), [])
    assert.deepStrictEqual(unknownVariables(['PATH', 'NODE_OPTIONS']), [])
  })
})

describe('the rules between settings', () => {
  it('refer to settings of the catalogue and are fulfilled when nothing is set', () => {
    for (const { about, mistakes } of rules) {
      for (const setting of about) assert.include(catalogue, setting)
      assert.isEmpty(mistakes(() => false))
    }
  })
})
