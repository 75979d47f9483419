import { expect, it } from '@effect/vitest'
import { Clock, ConfigProvider, Effect, Fiber, Layer } from 'effect'
import { TestClock } from 'effect/testing'
import { describe } from 'vitest'
import {
  AddressPolicy,
  allowedHostsConfig,
  deniedNetworksConfig,
  HostUnresolvable,
  makeAddressPolicy,
  type ResolvedAddress,
} from './address-policy.ts'

const of = (...addresses: ReadonlyArray<string>): ReadonlyArray<ResolvedAddress> =>
  addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))

const NAMES: Record<string, ReadonlyArray<ResolvedAddress>> = {
  'hooks.example.com': of('93.184.215.14', '2606:2800:21f:cb07:6820:80da:af6b:8b2c'),
  'private.example.com': of('10.1.2.3'),
  'mixed.example.com': of('93.184.215.14', '10.1.2.3'),
  'mixed6.example.com': of('93.184.215.14', 'fd00::1'),
  'mapped.example.com': of('::ffff:169.254.169.254'),
  'loopback.example.com': of('127.0.0.1'),
  'empty.example.com': [],
  'xn--e1aybc.example.com': of('93.184.215.14'),
}

const policy = (...allowed: ReadonlyArray<string>) =>
  makeAddressPolicy({
    allowedHosts: new Set(allowed),
    refuseNamesAfterMs: 0,
    resolveName: (name) => {
      const found = NAMES[name]
      return found === undefined ? Effect.fail(new HostUnresolvable()) : Effect.succeed(found)
    },
  })

const ruleOf = (url: string, ...allowed: ReadonlyArray<string>) =>
  policy(...allowed)
    .checkUrl(url)
    .pipe(
      Effect.as('allowed'),
      Effect.catchTag('UrlRefused', ({ rule }) => Effect.succeed(rule)),
    )

const CASES: ReadonlyArray<readonly [url: string, verdict: string]> = [
  ['https://hooks.example.com/', 'allowed'],
  ['https://hooks.example.com', 'allowed'],
  ['https://HOOKS.Example.Com:8443/a/b?c=d#e', 'allowed'],
  ['https://hooks.example.com./', 'allowed'],
  ['https://тест.example.com/', 'allowed'],
  ['https://8.8.8.8/hook', 'allowed'],
  ['https://[2606:4700:4700::1111]/', 'allowed'],
  ['https://hooks.example.com/user@example.com', 'allowed'],
  // Scheme
  ['http://hooks.example.com/', 'not_https'],
  ['ftp://hooks.example.com/', 'not_https'],
  ['javascript:alert(1)', 'not_https'],
  ['file:///etc/passwd', 'not_https'],
  // Credentials
  ['https://user@hooks.example.com/', 'credentials'],
  ['https://user:secret@hooks.example.com/', 'credentials'],
  ['https://:secret@hooks.example.com/', 'credentials'],
  ['https://@hooks.example.com/', 'credentials'],
  ['https:\\\\user@hooks.example.com/', 'credentials'],
  // Length
  [`https://hooks.example.com/${'a'.repeat(1024 - 26)}`, 'allowed'],
  [`https://hooks.example.com/${'a'.repeat(1024 - 25)}`, 'too_long'],
  // Not a URL
  ['', 'not_a_url'],
  ['hooks.example.com', 'not_a_url'],
  ['https://', 'not_a_url'],
  ['https://.', 'not_a_url'],
  ['https://hooks.example.com:0/', 'not_a_url'],
  ['https://hooks.example.com:65536/', 'not_a_url'],
  ['https://hooks.exa mple.com/', 'not_a_url'],
  ['https://hooks.example.com/a\nb', 'not_a_url'],
  ['https://hooks.example.com/\0', 'not_a_url'],
  ['https://hooks.example.com/\ud800', 'not_a_url'],
  ['https://256.1.1.1/', 'not_a_url'],
  ['https://1.2.3.4.5/', 'not_a_url'],
  ['https://[::1%25lo]/', 'not_a_url'],
  ['https://[fe80::1%eth0]/', 'not_a_url'],
  // Literals in every spelling
  ['https://127.0.0.1/', 'not_public'],
  ['https://127.0.0.1./', 'not_public'],
  ['https://127.1/', 'not_public'],
  ['https://2130706433/', 'not_public'],
  ['https://0x7f000001/', 'not_public'],
  ['https://0x7f.1/', 'not_public'],
  ['https://0177.0.0.1/', 'not_public'],
  ['https://010.0.0.1/', 'allowed'],
  ['https://012.0.0.1/', 'not_public'],
  ['https://１２７.０.０.１/', 'not_public'],
  ['https://127。0。0。1/', 'not_public'],
  ['https://①②⑦.0.0.1/', 'not_public'],
  ['https://0/', 'not_public'],
  ['https://[::1]/', 'not_public'],
  ['https://[::ffff:127.0.0.1]/', 'not_public'],
  ['https://[0:0:0:0:0:ffff:a00:1]/', 'not_public'],
  ['https://[::7f00:1]/', 'not_public'],
  ['https://169.254.169.254/latest/meta-data/', 'not_public'],
  // Names
  ['https://localhost/', 'not_public'],
  ['https://LOCALHOST./', 'not_public'],
  ['https://hub.localhost/', 'not_public'],
  ['https://private.example.com/', 'not_public'],
  ['https://mixed.example.com/', 'not_public'],
  ['https://mixed6.example.com/', 'not_public'],
  ['https://mapped.example.com/', 'not_public'],
  ['https://empty.example.com/', 'not_public'],
  ['https://nowhere.example.com/', 'not_public'],
]

describe('checkUrl', () => {
  // Rules: SUB-11, SUB-12, SUB-13
  it.effect.each(CASES)('%s: %s', ([url, verdict]) =>
    Effect.gen(function* () {
      expect(yield* ruleOf(url)).toBe(verdict)
    }),
  )

  it.effect('returns the rule, and no information about the network', () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(policy().checkUrl('https://private.example.com/hook?token=s3cret'))
      expect(refused.message).toBe(
        'The host of the address must resolve, and to public internet addresses only.',
      )
      expect(JSON.stringify(refused)).not.toMatch(/10\.1\.2\.3|private\.example|s3cret/u)
    }),
  )
})

describe('a refused name', () => {
  /** A policy whose resolver answers after a time, ms. */
  const slow = (afterMs: number, found: ReadonlyArray<ResolvedAddress> | null) =>
    makeAddressPolicy({
      allowedHosts: new Set(),
      resolveName: () =>
        Effect.andThen(
          Effect.sleep(afterMs),
          found === null ? Effect.fail(new HostUnresolvable()) : Effect.succeed(found),
        ),
    })

  // Rules: SUB-14
  it.effect('has the same answer at the same time, whether it does not exist or is not public', () =>
    Effect.gen(function* () {
      for (const [afterMs, found] of [
        [5, null],
        [1900, null],
        [5, of('10.1.2.3')],
        [1900, of('10.1.2.3')],
        [60_000, null],
      ] as const) {
        const startedAt = yield* Clock.currentTimeMillis
        const fiber = yield* Effect.forkChild(
          Effect.flatMap(Effect.flip(slow(afterMs, found).checkUrl('https://name.example.com/')), (refused) =>
            Effect.map(Clock.currentTimeMillis, (at) => ({ refused, tookMs: at - startedAt })),
          ),
        )
        yield* TestClock.adjust('5 seconds')
        const { refused, tookMs } = yield* Fiber.join(fiber)
        expect({ rule: refused.rule, message: refused.message, tookMs }).toEqual({
          rule: 'not_public',
          message: 'The host of the address must resolve, and to public internet addresses only.',
          tookMs: 2000,
        })
      }
    }),
  )

  it.effect('delays no name that is allowed', () =>
    Effect.gen(function* () {
      yield* slow(0, of('93.184.215.14')).checkUrl('https://name.example.com/')
    }),
  )
})

describe('denied networks', () => {
  const denied = (value: string) =>
    deniedNetworksConfig.parse(ConfigProvider.fromUnknown({ HUB_WEBHOOK_DENIED_NETWORKS: value }))

  it.effect('are refused as literals and behind names, also where an exception allows them', () =>
    Effect.gen(function* () {
      const deniedNetworks = yield* denied('93.184.215.0/24, 2606:4700::/32, 8.8.8.8, 127.0.0.1')
      const strict = makeAddressPolicy({
        allowedHosts: new Set(['127.0.0.1']),
        deniedNetworks,
        refuseNamesAfterMs: 0,
        resolveName: (name) => Effect.succeed(NAMES[name] ?? of('1.1.1.1')),
      })
      const verdicts = yield* Effect.forEach(
        ['hooks.example.com', '8.8.8.8', '[2606:4700::1]', '127.0.0.1', '8.8.4.4', 'other.example.com'],
        (host) =>
          Effect.match(strict.checkUrl(`https://${host}/`), {
            onFailure: (e) => e.rule,
            onSuccess: () => 'allowed',
          }),
      )
      expect(verdicts).toEqual(['not_public', 'not_public', 'not_public', 'not_public', 'allowed', 'allowed'])
    }),
  )

  it.effect.each(['10.0.0.0/33', 'hooks.example.com', '10.0.0.0/', '::/129', '1.2.3'])(
    'refuse %s at start-up',
    (value) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(denied(`10.0.0.0/8,${value}`))
        expect(String(error.message)).toContain('HUB_WEBHOOK_DENIED_NETWORKS')
      }),
  )
})

describe('exceptions', () => {
  it.effect('an allowed address is allowed by name and as a literal; its neighbours are not', () =>
    Effect.gen(function* () {
      expect(yield* ruleOf('https://loopback.example.com/', '127.0.0.1')).toBe('allowed')
      expect(yield* ruleOf('https://127.0.0.1:8443/', '127.0.0.1')).toBe('allowed')
      expect(yield* ruleOf('https://127.0.0.2/', '127.0.0.1')).toBe('not_public')
      expect(yield* ruleOf('https://private.example.com/', '127.0.0.1')).toBe('not_public')
      expect(yield* ruleOf('https://mixed.example.com/', '127.0.0.1')).toBe('not_public')
    }),
  )

  it.effect(
    'an allowed name may resolve to any address; its subdomains may not, and other rules still apply',
    () =>
      Effect.gen(function* () {
        expect(yield* ruleOf('https://localhost:9443/hook', 'localhost')).toBe('allowed')
        expect(yield* ruleOf('https://LocalHost./', 'localhost')).toBe('allowed')
        expect(yield* ruleOf('https://hub.localhost/', 'localhost')).toBe('not_public')
        expect(yield* ruleOf('http://localhost:9443/hook', 'localhost')).toBe('not_https')
        expect(yield* ruleOf('https://user@localhost/', 'localhost')).toBe('credentials')
      }),
  )

  const configured = (value: string | undefined) =>
    allowedHostsConfig.parse(
      ConfigProvider.fromUnknown(value === undefined ? {} : { HUB_WEBHOOK_ALLOWED_HOSTS: value }),
    )

  it.effect('are off by default', () =>
    Effect.gen(function* () {
      expect([...(yield* configured(undefined))]).toEqual([])
      expect([...(yield* configured(''))]).toEqual([])
    }),
  )

  it.effect('are accepted in every spelling', () =>
    Effect.gen(function* () {
      expect([...(yield* configured(' LOCALHOST., 127.1 ,[::1],fd00::0:1, Тест.example.com '))]).toEqual([
        'localhost',
        '127.0.0.1',
        '::1',
        'fd00::1',
        'xn--e1aybc.example.com',
      ])
    }),
  )

  it.effect.each(['https://localhost', 'localhost:8443', 'a b', '10.0.0.0/8', 'user@localhost', '*'])(
    'refuse %s at start-up',
    (value) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(configured(`localhost,${value}`))
        expect(String(error.message)).toContain('HUB_WEBHOOK_ALLOWED_HOSTS')
      }),
  )

  it.effect('are read from the environment', () =>
    Effect.gen(function* () {
      const live = yield* AddressPolicy
      yield* live.checkUrl('https://127.0.0.1/')
      expect((yield* Effect.flip(live.checkUrl('https://127.0.0.2/'))).rule).toBe('not_public')
    }).pipe(
      Effect.provide(
        AddressPolicy.layer.pipe(
          Layer.provide(
            ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_WEBHOOK_ALLOWED_HOSTS: '127.0.0.1' })),
          ),
        ),
      ),
    ),
  )
})
