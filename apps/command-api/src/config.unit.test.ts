import { assert, describe, it } from '@effect/vitest'
import { findInvalidSettings } from '@hub/config'
import { ConfigProvider, Effect } from 'effect'
import { checks, configuration } from './config.ts'

const VALID = {
  HUB_PORT: '8080',
  HUB_BASE_URL: 'https://hub.example.com',
  HUB_NUMBER_HASH_SECRET: 'a secret of at least 32 characters',
  HUB_DATABASE_URL: 'postgres://hub:password@db.example.com/hub?sslmode=verify-full',
  HUB_REDIS_URL: 'rediss://redis.example.com',
  HUB_KAFKA_BROKERS: 'kafka-1.example.com:9092, kafka-2.example.com:9092',
  HUB_KAFKA_TLS: 'on',
  HUB_MASTER_KEY: Buffer.from('a master key that is no secret 1').toString('base64'),
  HUB_ADMIN_PORT: '9090',
}
const read = (environment: Readonly<Record<string, string>>) =>
  configuration.pipe(Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))))
describe('the configuration', () => {
  it.effect('needs only the settings without a default', () =>
    Effect.gen(function* () {
      const settings = yield* read(VALID)
      assert.deepInclude(settings, { port: 8080, baseUrl: VALID.HUB_BASE_URL, tls: null, trustedProxies: [] })
      assert.lengthOf(settings.connection.brokers, 2)
    }),
  )
  it.effect('reads trusted proxies and certificate files', () =>
    Effect.gen(function* () {
      const settings = yield* read({
        ...VALID,
        HUB_TRUSTED_PROXIES: '10.0.0.0/8, 192.0.2.1,2001:db8::/32',
        HUB_TLS_CERT_FILE: '/tls.crt',
        HUB_TLS_KEY_FILE: '/tls.key',
      })
      assert.deepStrictEqual(settings.trustedProxies.map(String), [
        '10.0.0.0/8',
        '192.0.2.1/32',
        '2001:db8::/32',
      ])
      assert.deepStrictEqual(settings.tls, { certFile: '/tls.crt', keyFile: '/tls.key' })
    }),
  )
  it.effect('refuses an invalid network or host without repeating its value', () =>
    Effect.gen(function* () {
      const mistakes = yield* findInvalidSettings('command-api', checks).pipe(
        Effect.provide(
          ConfigProvider.layer(
            ConfigProvider.fromUnknown({
              ...VALID,
              HUB_TRUSTED_PROXIES: '10.0.0.0/8,private',
              HUB_WEBHOOK_ALLOWED_HOSTS: 'https://private',
            }),
          ),
        ),
      )
      assert.deepStrictEqual(
        mistakes.map(({ problem, variable }) => `${variable} ${problem}`),
        [
          'HUB_TRUSTED_PROXIES contains an entry that is not a network',
          'HUB_WEBHOOK_ALLOWED_HOSTS contains an entry that is neither a host name nor an address',
        ],
      )
    }),
  )
  it.effect('refuses to trust every address as a proxy', () =>
    Effect.gen(function* () {
      for (const networks of ['0.0.0.0/0', '192.0.2.1, 0.0.0.0/1', '::/0', '2000::/3']) {
        const environment = ConfigProvider.fromUnknown({ ...VALID, HUB_TRUSTED_PROXIES: networks })
        const mistakes = yield* findInvalidSettings('command-api', checks).pipe(
          Effect.provide(ConfigProvider.layer(environment)),
        )
        assert.match(
          mistakes.map(({ problem }) => problem).join(),
          /^contains a network wider than/u,
          networks,
        )
      }
    }),
  )
})
