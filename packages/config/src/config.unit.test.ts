import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { assert, describe, it } from '@effect/vitest'
import { Config, ConfigProvider, Effect, Logger, Redacted, Result } from 'effect'
import {
  ALL_APPS,
  catalogue,
  checkSettings,
  configurationPage,
  dangers,
  fileVariable,
  findDangerousSettings,
  findInvalidSettings,
  invalidSettingOf,
  lifetimesConfig,
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
  HUB_DATABASE_URL: 'postgres://hub:password@db.example.com/hub?sslmode=verify-full',
  HUB_REDIS_URL: 'rediss://redis.example.com',
  HUB_KAFKA_TLS: 'on',
  HUB_KAFKA_BROKERS: 'kafka-1.example.com:9092, [2001:db8::1]:9092',
  HUB_MASTER_KEY: Buffer.from('a master key that is no secret 1').toString('base64'),
  HUB_ADMIN_PORT: '9090',
  HUB_OPERATIONS_PORT: '8090',
  HUB_OPERATIONS_URL: 'https://operations.example.com',
}

/** Access tokens for Kafka. */
const TOKENS: Environment = {
  HUB_KAFKA_MECHANISM: 'oauthbearer',
  HUB_KAFKA_USERNAME: 'hub',
  HUB_KAFKA_PASSWORD: 'private',
  HUB_KAFKA_TOKEN_URL: 'https://login.example.com/token',
}

const sentences = (app: (typeof ALL_APPS)[number] | 'hubctl', environment: Environment) =>
  findInvalidSettings(app).pipe(
    Effect.map((mistakes) => mistakes.map(({ message }) => message)),
    from(environment),
  )

describe('the catalogue', () => {
  it('has unique names in the usual form', () => {
    const names = catalogue.map(({ name }) => name)
    assert.deepStrictEqual(names, [...new Set(names)])
    for (const name of names) assert.match(name, /^(?:HUB(?:CTL)?|OTEL)_[A-Z]+(?:_[A-Z]+)*$/u)
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
      if (/SECRET|PASSWORD|TOKEN$|KEY$|KEYS$|DATABASE_URL|REDIS_URL/u.test(name))
        assert.isTrue(kind.secret, name)
    }
  })

  const sources = ['apps', 'packages', 'infra/local', 'test', 'benchmarks', 'scripts'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.includes('node_modules'))
      .map((file) => join(folder, file)),
  )

  it('contains every variable in the sources', () => {
    const known = new Set(catalogue.flatMap(({ name }) => [name, fileVariable(name)]))
    const unknown = sources
      // Tests use invented names, and manifests have names that no process reads. The command line of
      // clients runs without a hub, and has variables of its own (docs/hub.md).
      .filter(
        (file) =>
          !file.endsWith('.test.ts') &&
          !/^(?:test\/operating\/manifests|apps\/cli\/|test\/cli\/)/u.test(file),
      )
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
  for (const app of ALL_APPS) {
    it.effect(`of ${app} must contain exactly the required settings`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* sentences(app, RIGHT), [])
        const required = catalogue.filter(({ need, readBy }) => need === 'required' && readBy.includes(app))
        // The master key is required too, unless a transit engine has it.
        assert.deepStrictEqual(
          yield* sentences(app, {}),
          [...required, settings.masterKey].map(
            ({ kind, name }) => `${name} is not set. Expected: ${kind.expected}.`,
          ),
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

  describe('with a transit engine', () => {
    const { HUB_MASTER_KEY: masterKey, ...others } = RIGHT
    const TRANSIT = {
      HUB_TRANSIT_URL: 'https://vault:8200',
      HUB_TRANSIT_KEY_NAME: 'sms-hub',
      HUB_TRANSIT_TOKEN: 'hvs.private',
    }
    const cases: ReadonlyArray<readonly [what: string, environment: Environment, ReadonlyArray<string>]> = [
      ['that encrypts', { ...others, ...TRANSIT, HUB_KEY_PROVIDER: 'transit' }, []],
      ['that only decrypts', { ...RIGHT, ...TRANSIT }, []],
      [
        'and a master key',
        { ...RIGHT, ...TRANSIT, HUB_KEY_PROVIDER: 'transit' },
        [
          'HUB_MASTER_KEY is set, and HUB_KEY_PROVIDER is transit. Expected: no value; a key of existing data belongs in HUB_PREVIOUS_MASTER_KEYS.',
        ],
      ],
      [
        'without an address',
        { ...others, HUB_KEY_PROVIDER: 'transit' },
        [
          'HUB_TRANSIT_URL is not set, and HUB_KEY_PROVIDER is transit. Expected: a URL that begins with https:// or http://, without a password.',
        ],
      ],
      [
        'without key and token',
        { ...RIGHT, HUB_TRANSIT_URL: 'https://vault:8200' },
        [
          'HUB_TRANSIT_KEY_NAME is not set, and HUB_TRANSIT_URL is. Expected: letters, digits, and . _ -.',
          'HUB_TRANSIT_TOKEN is not set, and HUB_TRANSIT_URL is. Expected: 1 characters or more.',
        ],
      ],
      [
        'of which only the key is known',
        { ...RIGHT, HUB_TRANSIT_KEY_NAME: 'sms-hub' },
        [
          'HUB_TRANSIT_URL is not set, and HUB_TRANSIT_KEY_NAME is. Expected: a URL that begins with https:// or http://, without a password.',
        ],
      ],
      [
        'over a network without TLS',
        { ...RIGHT, ...TRANSIT, HUB_TRANSIT_URL: 'http://vault:8200' },
        [
          'HUB_TRANSIT_URL sends the token and the keys unencrypted. Expected: a URL that begins with https://.',
        ],
      ],
      [
        'with a path that leads elsewhere',
        { ...RIGHT, ...TRANSIT, HUB_TRANSIT_MOUNT: 'transit/../sys', HUB_TRANSIT_KEY_NAME: 'a/b' },
        [
          'HUB_TRANSIT_MOUNT is something else. Expected: letters, digits, and . _ - /.',
          'HUB_TRANSIT_KEY_NAME is something else. Expected: letters, digits, and . _ -.',
        ],
      ],
    ]
    it.effect.each(cases)('%s', ([, environment, expected]) =>
      Effect.gen(function* () {
        assert.isDefined(masterKey)
        assert.deepStrictEqual(yield* sentences('projector', environment), expected)
      }),
    )
  })

  it.effect('is refused with a report deadline that is earlier than the end of the lifetime', () =>
    Effect.gen(function* () {
      const early = { HUB_LIFETIME_OTP_SECONDS: '600', HUB_REPORT_DEADLINE_OTP_SECONDS: '599' }
      for (const reader of ['command-api', 'dispatcher', 'hubctl'] as const) {
        assert.deepStrictEqual(yield* sentences(reader, { ...RIGHT, ...early }), [
          'HUB_REPORT_DEADLINE_OTP_SECONDS is lower than HUB_LIFETIME_OTP_SECONDS. Expected: at least the value of HUB_LIFETIME_OTP_SECONDS, since an operator may deliver and report until the lifetime ends.',
        ])
      }
      assert.deepStrictEqual(
        yield* sentences('dispatcher', { ...RIGHT, HUB_REPORT_DEADLINE_SERVICE_SECONDS: '86399' }),
        [
          'HUB_REPORT_DEADLINE_SERVICE_SECONDS is lower than HUB_LIFETIME_SERVICE_SECONDS. Expected: at least the value of HUB_LIFETIME_SERVICE_SECONDS, since an operator may deliver and report until the lifetime ends.',
        ],
      )
      // A setting with an invalid value is reported alone.
      assert.lengthOf(
        yield* sentences('dispatcher', { ...RIGHT, ...early, HUB_LIFETIME_OTP_SECONDS: 'x' }),
        1,
      )
    }),
  )

  // Rules: MSG-30, MSG-31, MSG-32
  it.effect('has the lifetimes of the contract unless it sets others', () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* lifetimesConfig.pipe(from({})), {
        beforeSubmit: { otp: 300_000, service: 86_400_000 },
        report: { otp: 900_000, service: 93_600_000 },
      })
      const own = {
        HUB_LIFETIME_OTP_SECONDS: '30',
        HUB_LIFETIME_SERVICE_SECONDS: '3600',
        HUB_REPORT_DEADLINE_OTP_SECONDS: '60',
        HUB_REPORT_DEADLINE_SERVICE_SECONDS: '7200',
      }
      assert.deepStrictEqual(yield* lifetimesConfig.pipe(from(own)), {
        beforeSubmit: { otp: 30_000, service: 3_600_000 },
        report: { otp: 60_000, service: 7_200_000 },
      })
    }),
  )

  it.effect.each([
    { HUB_LIFETIME_OTP_SECONDS: '601', HUB_REPORT_DEADLINE_OTP_SECONDS: '900' },
    { HUB_LIFETIME_SERVICE_SECONDS: '86401' },
    { HUB_LIFETIME_OTP_SECONDS: '29' },
    { HUB_REPORT_DEADLINE_SERVICE_SECONDS: '604801' },
  ])('is refused with a lifetime that a guarantee does not cover: %o', (lifetimes) =>
    Effect.gen(function* () {
      assert.lengthOf(yield* sentences('command-api', { ...RIGHT, ...lifetimes }), 1)
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

describe('a dangerous setting', () => {
  const cases: ReadonlyArray<readonly [what: string, setting: Environment, variable: string]> = [
    [
      'a master key that repeats one byte',
      { HUB_MASTER_KEY: Buffer.alloc(32).toString('base64') },
      'HUB_MASTER_KEY',
    ],
    [
      'a hash secret that repeats one character',
      { HUB_NUMBER_HASH_SECRET: 'h'.repeat(64) },
      'HUB_NUMBER_HASH_SECRET',
    ],
    ['PostgreSQL without TLS', { HUB_DATABASE_URL: 'postgres://hub@db.example.com/hub' }, 'HUB_DATABASE_URL'],
    [
      'PostgreSQL without verification of the server',
      { HUB_DATABASE_URL: 'postgres://hub@db.example.com/hub?sslmode=require' },
      'HUB_DATABASE_URL',
    ],
    [
      'a second PostgreSQL host outside of loopback',
      { HUB_DATABASE_URL: 'postgres://hub:p%40ss@127.0.0.1:5432,10.0.0.5:5432/hub' },
      'HUB_DATABASE_URL',
    ],
    ['Redis without TLS', { HUB_REDIS_URL: 'redis://:password@redis.example.com:6379' }, 'HUB_REDIS_URL'],
    [
      'Sentinels without TLS, which name other hosts',
      { HUB_REDIS_URL: 'redis+sentinel://:password@127.0.0.1/hub' },
      'HUB_REDIS_URL',
    ],
    [
      'a cluster without TLS, whose nodes name other hosts',
      { HUB_REDIS_URL: 'redis+cluster://:password@127.0.0.1' },
      'HUB_REDIS_URL',
    ],
    ['Kafka without TLS', { HUB_KAFKA_TLS: 'off' }, 'HUB_KAFKA_BROKERS'],
    [
      'SASL plain without TLS, also to loopback',
      { HUB_KAFKA_TLS: '', HUB_KAFKA_BROKERS: '127.0.0.1:9092', HUB_KAFKA_MECHANISM: 'plain' },
      'HUB_KAFKA_MECHANISM',
    ],
    [
      'SASL oauthbearer without TLS, also to loopback',
      { ...TOKENS, HUB_KAFKA_TLS: '', HUB_KAFKA_BROKERS: '127.0.0.1:9092' },
      'HUB_KAFKA_MECHANISM',
    ],
    [
      'a token endpoint without TLS',
      { ...TOKENS, HUB_KAFKA_TOKEN_URL: 'http://login.example.com/token' },
      'HUB_KAFKA_TOKEN_URL',
    ],
    ['a folder for crash points', { HUB_CRASH_POINTS: '/tmp/crash-points' }, 'HUB_CRASH_POINTS'],
    ['a public address without TLS', { HUB_BASE_URL: 'http://hub.example.com' }, 'HUB_BASE_URL'],
  ]

  it.effect.each(cases)('is refused in production: %s', ([, setting, variable]) =>
    Effect.gen(function* () {
      const environment = { ...RIGHT, ...setting }
      const found = yield* findInvalidSettings('command-api').pipe(from(environment))
      assert.deepStrictEqual(
        found.map((mistake) => mistake.variable),
        [variable],
      )
      assert.match(found[0]!.message, /^HUB_\w+ (?:repeats|allows|sends|makes) .+\. Expected: .+\.$/u)
      assert.notInclude(found[0]!.message, 'password@')
      // A hub for development starts, and hubctl refuses the setting nevertheless.
      const development = { ...environment, HUB_DEPLOYMENT: 'development' }
      assert.deepStrictEqual(yield* sentences('command-api', development), [])
      for (const reader of ['command-api', 'hubctl', 'all'] as const) {
        const dangerous = yield* findDangerousSettings(reader).pipe(from(development))
        assert.deepStrictEqual(
          dangerous.map((mistake) => mistake.variable),
          [variable],
        )
      }
    }),
  )

  it.effect.each([
    { HUB_DATABASE_URL: 'postgres://hub@localhost/hub' },
    { HUB_DATABASE_URL: 'postgres://hub@[::1]:5432,127.0.0.1/hub' },
    { HUB_DATABASE_URL: 'postgres:///hub' },
    { HUB_DATABASE_URL: 'postgres://hub@db.example.com/hub', HUB_PLAINTEXT_SERVERS: 'postgresql' },
    { HUB_REDIS_URL: 'redis://127.0.0.1:6379' },
    { HUB_REDIS_URL: 'rediss+sentinel://:p@one.example.com,two.example.com/hub' },
    { HUB_REDIS_URL: 'redis+cluster://redis', HUB_PLAINTEXT_SERVERS: 'redis' },
    { HUB_REDIS_URL: 'redis://redis', HUB_KAFKA_TLS: '', HUB_PLAINTEXT_SERVERS: 'redis, kafka' },
    { HUB_KAFKA_BROKERS: '127.0.0.1:9092,[::1]:9092', HUB_KAFKA_TLS: '' },
    { HUB_KAFKA_MECHANISM: 'plain' },
    TOKENS,
    { ...TOKENS, HUB_KAFKA_TOKEN_URL: 'http://127.0.0.1:8080/token' },
    { HUB_BASE_URL: 'http://127.0.0.1:7300' },
    { HUB_BASE_URL: 'http://[::1]:7300' },
  ])('does not include loopback, or a server that the deployment exempts: %o', (settings) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* sentences('command-api', { ...RIGHT, ...settings }), [])
    }),
  )

  it.effect.each([
    [{ HUB_OPERATIONS_URL: 'http://operations.example.com' }, 'HUB_OPERATIONS_URL'],
    [
      {
        HUB_OIDC_ISSUER: 'http://login.example.com',
        HUB_OIDC_CLIENT_ID: 'hub',
        HUB_OIDC_ROLES: '{}',
      },
      'HUB_OIDC_ISSUER',
    ],
    [{ HUB_OPERATIONS_LOCAL_SECRET: 'a secret of at least 32 characters' }, 'HUB_OPERATIONS_LOCAL_SECRET'],
  ] as ReadonlyArray<readonly [Environment, string]>)(
    'of operations-api is refused in production: %o',
    ([setting, variable]) =>
      Effect.gen(function* () {
        const environment = { ...RIGHT, ...setting }
        const found = yield* findInvalidSettings('operations-api').pipe(from(environment))
        assert.deepStrictEqual(
          found.map((mistake) => mistake.variable),
          [variable],
        )
        const development = { ...environment, HUB_DEPLOYMENT: 'development' }
        assert.deepStrictEqual(yield* sentences('operations-api', development), [])
      }),
  )

  it.effect('of another app is not reported', () =>
    Effect.gen(function* () {
      const other = { ...RIGHT, HUB_BASE_URL: 'http://hub.example.com', HUB_REDIS_URL: 'redis://redis' }
      assert.deepStrictEqual(yield* sentences('projector', other), [])
    }),
  )
})

describe('the log level', () => {
  it.effect.each(['debug', 'DEBUG', 'Debug'])('may be written as %s', (text) =>
    Effect.gen(function* () {
      assert.strictEqual(yield* settings.logLevel.config.pipe(from({ HUB_LOG_LEVEL: text })), 'Debug')
    }),
  )
})

describe('the address of traces', () => {
  it.effect.each([
    ['https://tempo.example/trace', 'has no {trace_id} in it'],
    ['javascript:{trace_id}', 'is something else'],
  ] as const)('is not %s', ([text, problem]) =>
    Effect.gen(function* () {
      const found = yield* findInvalidSettings('operations-api').pipe(from({ ...RIGHT, HUB_TRACE_URL: text }))
      assert.deepStrictEqual(
        found.map((mistake) => [mistake.variable, mistake.problem]),
        [['HUB_TRACE_URL', problem]],
      )
    }),
  )

  it.effect('has a place for the id of a trace', () =>
    Effect.gen(function* () {
      const text = 'https://tempo.example/trace/{trace_id}'
      assert.strictEqual(yield* settings.traceUrl.config.pipe(from({ HUB_TRACE_URL: text })), text)
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

  it.effect('that is a URL must not begin or end with a space', () =>
    Effect.gen(function* () {
      for (const url of [' redis://127.0.0.1', 'redis://127.0.0.1 ']) {
        const error = yield* Effect.flip(settings.redisUrl.config).pipe(from({ HUB_REDIS_URL: url }))
        assert.strictEqual(invalidSettingOf(error)?.problem, 'begins or ends with a space')
      }
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
    for (const { about, mistakes } of [...rules, ...dangers]) {
      for (const setting of about) assert.include(catalogue, setting)
      assert.isEmpty(
        mistakes(
          () => false,
          () => undefined,
        ),
      )
    }
  })

  const without = (environment: Environment, name: string): Environment =>
    Object.fromEntries(Object.entries(environment).filter(([variable]) => variable !== name))

  it.effect.each([
    [
      'a token endpoint is missing',
      without(TOKENS, 'HUB_KAFKA_TOKEN_URL'),
      'HUB_KAFKA_TOKEN_URL is not set, and HUB_KAFKA_MECHANISM is oauthbearer.',
    ],
    [
      'a token endpoint has another mechanism',
      { ...TOKENS, HUB_KAFKA_MECHANISM: 'plain' },
      'HUB_KAFKA_TOKEN_URL is set, and HUB_KAFKA_MECHANISM is not oauthbearer. Expected: HUB_KAFKA_MECHANISM=oauthbearer, or no value.',
    ],
    [
      'a token endpoint has the default mechanism',
      without(TOKENS, 'HUB_KAFKA_MECHANISM'),
      'HUB_KAFKA_TOKEN_URL is set, and HUB_KAFKA_MECHANISM is not oauthbearer.',
    ],
    [
      'the secret of the client is missing',
      without(TOKENS, 'HUB_KAFKA_PASSWORD'),
      'HUB_KAFKA_PASSWORD is not set, and HUB_KAFKA_USERNAME is.',
    ],
    [
      'scopes have no token endpoint',
      { HUB_KAFKA_TOKEN_SCOPES: 'kafka' },
      'HUB_KAFKA_TOKEN_URL is not set, and HUB_KAFKA_TOKEN_SCOPES is.',
    ],
    [
      'parameters have no token endpoint',
      { HUB_KAFKA_TOKEN_PARAMETERS: 'audience=kafka' },
      'HUB_KAFKA_TOKEN_URL is not set, and HUB_KAFKA_TOKEN_PARAMETERS is.',
    ],
    [
      'an extension has the name of the token',
      { ...TOKENS, HUB_KAFKA_EXTENSIONS: 'auth=other' },
      'HUB_KAFKA_EXTENSIONS is something else. Expected: name=value, more than one separated by commas.',
    ],
    [
      'an extension has a control character',
      { ...TOKENS, HUB_KAFKA_EXTENSIONS: 'pool=one%01auth=other' },
      'HUB_KAFKA_EXTENSIONS is something else.',
    ],
  ] as ReadonlyArray<readonly [string, Environment, string]>)(
    'refuse settings of access tokens: %s',
    ([, environment, sentence]) =>
      Effect.gen(function* () {
        const found = yield* sentences('projector', { ...RIGHT, ...environment })
        assert.lengthOf(found, 1)
        assert.include(found[0], sentence)
        assert.notInclude(found[0], 'private')
      }),
  )
})
