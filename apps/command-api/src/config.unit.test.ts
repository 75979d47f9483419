import { assert, describe, it } from '@effect/vitest'
import { ConfigProvider, Effect } from 'effect'
import { configuration } from './config.ts'

const RIGHT = {
  HUB_PORT: '8080',
  HUB_BASE_URL: 'https://hub.example.com',
  HUB_NUMBER_HASH_SECRET: 'a secret of at least 32 characters',
  HUB_DATABASE_URL: 'postgres://hub:password@db.example.com/hub',
  HUB_REDIS_URL: 'redis://redis.example.com',
  HUB_KAFKA_BROKERS: 'kafka-1.example.com:9092, kafka-2.example.com:9092',
  HUB_MASTER_KEY: Buffer.alloc(32).toString('base64'),
  HUB_ADMIN_PORT: '9090',
}
const read = (environment: Readonly<Record<string, string>>) =>
  configuration.pipe(Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))))
const problemsOf = (environment: Readonly<Record<string, string>>) =>
  Effect.map(Effect.flip(read(environment)), ({ problems }) => problems)

describe('the environment', () => {
  it.effect('is enough with what has no default', () =>
    Effect.gen(function* () {
      const settings = yield* read(RIGHT)
      assert.deepInclude(settings, { port: 8080, baseUrl: RIGHT.HUB_BASE_URL, tls: null, trustedProxies: [] })
      assert.lengthOf(settings.connection.brokers, 2)
    }),
  )
  it.effect('names proxies and the files of a certificate', () =>
    Effect.gen(function* () {
      const settings = yield* read({
        ...RIGHT,
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
  it.effect('that is empty has every mistake told at once', () =>
    Effect.gen(function* () {
      const problems = yield* problemsOf({})
      for (const name of Object.keys(RIGHT)) {
        assert.lengthOf(
          problems.filter((problem) => problem.includes(name)),
          1,
          name,
        )
      }
      assert.lengthOf(problems, Object.keys(RIGHT).length)
    }),
  )
  it.effect('that is wrong has its variables named, and no value repeated', () =>
    Effect.gen(function* () {
      const wrong = {
        HUB_PORT: '0x1f90-private',
        HUB_BASE_URL: 'private.example.com',
        HUB_NUMBER_HASH_SECRET: 'private and short',
        HUB_DATABASE_URL: 'mysql://private',
        HUB_REDIS_URL: 'private',
        HUB_KAFKA_BROKERS: ' , ',
        HUB_MASTER_KEY: 'private',
        HUB_ADMIN_PORT: '70000',
        HUB_TRUSTED_PROXIES: '10.0.0.0/8,private',
        HUB_TLS_CERT_FILE: '/private',
        HUB_PARTITIONS: 'private',
        HUB_DATABASE_POOL: 'private',
        HUB_LOG_LEVEL: 'private',
      }
      const problems = yield* problemsOf(wrong)
      for (const name of Object.keys(wrong)) {
        assert.isTrue(
          problems.some((problem) => problem.includes(name)),
          `${name} in ${problems.join('; ')}`,
        )
      }
      assert.notInclude(problems.join('; '), 'private')
    }),
  )
})
