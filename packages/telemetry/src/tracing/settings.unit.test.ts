import { settings, validateSetting } from '@hub/config'
import { assert, describe, it } from '@effect/vitest'
import { ConfigProvider, Effect } from 'effect'
import { tracingConfig } from './settings.ts'

type Environment = Readonly<Record<string, string>>
const from = (environment: Environment) =>
  Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: environment })))

const RECEIVER = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318' }

describe('the settings of traces', () => {
  // The addresses of OTEL_ variables are those of opentelemetry-exporter-otlp-proto-http 1.41.0 for Python.
  it.effect.each([
    [{}, null],
    [{ HUB_OTLP_URL: 'http://hub:4318' }, 'http://hub:4318/v1/traces'],
    [{ HUB_OTLP_URL: 'http://hub:4318/v1/traces' }, 'http://hub:4318/v1/traces'],
    [{ HUB_OTLP_URL: 'http://hub:4318/v1/traces/' }, 'http://hub:4318/v1/traces'],
    [{ HUB_OTLP_URL: 'http://hub:4318', ...RECEIVER }, 'http://hub:4318/v1/traces'],
    [RECEIVER, 'http://c:4318/v1/traces'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318/' }, 'http://c:4318/v1/traces'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318/otlp' }, 'http://c:4318/otlp/v1/traces'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c/v1/traces' }, 'http://c/v1/traces/v1/traces'],
    [
      { ...RECEIVER, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://t:4318/some/path' },
      'http://t:4318/some/path',
    ],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://t:4318' }, 'http://t:4318'],
    [{ ...RECEIVER, OTEL_SDK_DISABLED: 'TRUE' }, null],
    [{ ...RECEIVER, OTEL_SDK_DISABLED: 'false' }, 'http://c:4318/v1/traces'],
  ] as ReadonlyArray<readonly [Environment, string | null]>)('name the address: %j', ([environment, url]) =>
    Effect.gen(function* () {
      const config = yield* tracingConfig.pipe(from(environment))
      assert.strictEqual(config?.url ?? null, url)
    }),
  )

  it.effect('have a sampler', () =>
    Effect.gen(function* () {
      const samples = (environment: Environment, parent: { readonly sampled: boolean } | null) =>
        tracingConfig.pipe(
          Effect.map((config) => config?.sampler('ffffffffffffffffffffffffffffffff', parent)),
          from({ ...RECEIVER, ...environment }),
        )
      assert.isFalse(yield* samples({}, null))
      assert.isTrue(yield* samples({}, { sampled: true }))
      assert.isTrue(yield* samples({ HUB_TRACE_RATIO: '1' }, null))
      assert.isFalse(yield* samples({ HUB_TRACE_RATIO: '1' }, { sampled: false }))
      const ratio = { OTEL_TRACES_SAMPLER: 'traceidratio' }
      assert.isTrue(yield* samples(ratio, null))
      assert.isFalse(yield* samples({ ...ratio, OTEL_TRACES_SAMPLER_ARG: '0.5', HUB_TRACE_RATIO: '1' }, null))
      assert.isTrue(yield* samples({ OTEL_TRACES_SAMPLER: 'always_on' }, { sampled: false }))
    }),
  )

  it.effect('have the pairs that the SDK for Python reads', () =>
    Effect.gen(function* () {
      for (const [text, read] of [
        ['a=b,c=d', { a: 'b', c: 'd' }],
        [
          'deployment.environment.name=production, team = sms ',
          { 'deployment.environment.name': 'production', team: 'sms' },
        ],
        ['k=a%20b%2Cc', { k: 'a b,c' }],
        ['k=', { k: '' }],
        ['k=a=b', { k: 'a=b' }],
        ['a=1,,b=2', { a: '1', b: '2' }],
      ] as const) {
        const environment = { ...RECEIVER, OTEL_RESOURCE_ATTRIBUTES: text, OTEL_EXPORTER_OTLP_HEADERS: text }
        const config = yield* tracingConfig.pipe(
          from(
            text.startsWith('deployment') ? { ...environment, OTEL_EXPORTER_OTLP_HEADERS: '' } : environment,
          ),
        )
        assert.deepStrictEqual(config?.attributes, read)
        if (!text.startsWith('deployment')) assert.deepStrictEqual(config?.headers, read)
      }
    }),
  )

  it.effect.each([
    ['OTEL_SDK_DISABLED', '1', 'is something else. Expected: true or false.'],
    [
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      'c:4318',
      'is something else. Expected: a URL that begins with https:// or http://, without a password.',
    ],
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc', 'is something else. Expected: http/json.'],
    ['OTEL_EXPORTER_OTLP_TIMEOUT', '10s', 'is something else. Expected: a whole number from 1 to 60000.'],
    [
      'OTEL_EXPORTER_OTLP_HEADERS',
      'a b=private',
      'has a name or a value that no HTTP header can have. Expected: key=value, more than one separated by commas, both percent-encoded.',
    ],
    [
      'OTEL_EXPORTER_OTLP_HEADERS',
      'a=private%0Aline',
      'has a name or a value that no HTTP header can have. Expected: key=value, more than one separated by commas, both percent-encoded.',
    ],
    [
      'OTEL_RESOURCE_ATTRIBUTES',
      'private',
      'is something else. Expected: key=value, more than one separated by commas, both percent-encoded.',
    ],
    [
      'OTEL_RESOURCE_ATTRIBUTES',
      '=private',
      'is something else. Expected: key=value, more than one separated by commas, both percent-encoded.',
    ],
    [
      'OTEL_RESOURCE_ATTRIBUTES',
      'a=%zz',
      'has a % that does not begin a percent-encoded octet. Expected: key=value, more than one separated by commas, both percent-encoded.',
    ],
    [
      'OTEL_TRACES_SAMPLER',
      'xray',
      'is something else. Expected: one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio.',
    ],
    ['OTEL_TRACES_SAMPLER_ARG', '2', 'is something else. Expected: a number from 0 to 1.'],
  ] as const)('refuse %s=%s with one sentence', ([name, value, sentence]) =>
    Effect.gen(function* () {
      const setting = Object.values(settings).find((one) => one.name === name)!
      const problem = yield* validateSetting(setting).pipe(from({ [name]: value }))
      assert.strictEqual(problem?.message, `${name} ${sentence}`)
    }),
  )
})
