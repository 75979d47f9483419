import { assert, describe, it } from '@effect/vitest'
import { findInvalidSettings } from '@hub/config'
import { HTTP, SMPP, SMPP_DEFAULTS } from '@hub/operator'
import { ConfigProvider, Effect, Exit, Redacted } from 'effect'
import { authorities, liveOperator, smppErrors } from './live-operator.ts'

const read = (environment: Record<string, string>) =>
  Effect.exit(
    liveOperator.pipe(Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment)))),
  )

/** The error text for wrong operator settings. */
const refusal = (environment: Record<string, string>) =>
  findInvalidSettings('dispatcher', [smppErrors, authorities]).pipe(
    Effect.map((mistakes) =>
      mistakes
        .filter(({ variable }) => variable.startsWith('HUB_OPERATOR_'))
        .map(({ message }) => message)
        .join(' '),
    ),
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))),
  )

const SMPP_ONLY = {
  HUB_OPERATOR_SMPP_URL: 'smpp://hub@operator.example:2775',
  HUB_OPERATOR_SMPP_PASSWORD: 'secret',
}
const HTTP_ONLY = {
  HUB_OPERATOR_HTTP_URL: 'http://operator.example/v1',
  HUB_OPERATOR_HTTP_SECRET: 'a secret',
  HUB_OPERATOR_CALLBACK_PORT: '7302',
}

describe('the operator for live keys', () => {
  it.effect('is null without a configuration', () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* read({}), Exit.succeed(null))
      assert.deepStrictEqual(
        yield* read({ HUB_OPERATOR_SMPP_URL: '', HUB_OPERATOR_HTTP_URL: '' }),
        Exit.succeed(null),
      )
    }),
  )

  it.effect('uses SMPP with the defaults or with all settings', () =>
    Effect.gen(function* () {
      const plain = yield* read(SMPP_ONLY)
      if (!Exit.isSuccess(plain) || plain.value?.name !== SMPP)
        return assert.fail('the settings must be valid')
      const { password, url, ...rest } = plain.value.settings
      assert.strictEqual(url.href, 'smpp://hub@operator.example:2775')
      assert.strictEqual(Redacted.value(password), 'secret')
      assert.deepStrictEqual(rest, SMPP_DEFAULTS)

      const custom = yield* read({
        ...SMPP_ONLY,
        HUB_OPERATOR_SMPP_URL: 'smpps://hub@operator.example',
        HUB_OPERATOR_SMPP_BINDS: '4',
        HUB_OPERATOR_SMPP_BIND_MODE: 'transmitter_receiver',
        HUB_OPERATOR_SMPP_WINDOW: '10',
        HUB_OPERATOR_SMPP_PARTS_PER_SECOND: '100',
        HUB_OPERATOR_SMPP_ID_FORMAT: 'hexadecimal_answer',
        HUB_OPERATOR_SMPP_ERRORS: '{"command_status": {"0x0410": "spam_filter_content"}}',
        HUB_OPERATOR_SMPP_SYSTEM_TYPE: 'VMA',
        HUB_OPERATOR_SMPP_NUMERIC_SENDER: '3/9',
        HUB_OPERATOR_SMPP_RECEIPT_OFFSET_MINUTES: '-210',
      })
      if (!Exit.isSuccess(custom) || custom.value?.name !== SMPP)
        return assert.fail('the settings must be valid')
      const { ca, errors, password: secret, url: address, ...settings } = custom.value.settings
      assert.deepStrictEqual([ca, address.protocol, Redacted.value(secret)], [null, 'smpps:', 'secret'])
      assert.deepInclude(settings, {
        bindMode: 'transmitter_receiver',
        binds: 4,
        idFormat: 'hexadecimal_answer',
        numericSender: { ton: 3, npi: 9 },
        partsPerSecond: 100,
        receiptOffsetMinutes: -210,
        systemType: 'VMA',
        window: 10,
      })
      assert.strictEqual(errors.commandStatus.get(0x0410), 'spam_filter_content')
    }),
  )

  it.effect('uses HTTP with callbacks', () =>
    Effect.gen(function* () {
      const found = yield* read(HTTP_ONLY)
      if (!Exit.isSuccess(found) || found.value?.name !== HTTP)
        return assert.fail('the settings must be valid')
      assert.deepStrictEqual(found.value.settings.callback, { host: '127.0.0.1', port: 7302 })
    }),
  )

  const wrong: ReadonlyArray<readonly [string, Record<string, string>, RegExp]> = [
    [
      'both at once',
      { ...SMPP_ONLY, ...HTTP_ONLY },
      /^HUB_OPERATOR_SMPP_URL is set, and so is HUB_OPERATOR_HTTP_URL. Expected: one of the two, since live keys have one operator.$/u,
    ],
    [
      'no password',
      { HUB_OPERATOR_SMPP_URL: 'smpp://hub@operator.example' },
      /^HUB_OPERATOR_SMPP_PASSWORD is not set/u,
    ],
    [
      'a long password',
      { ...SMPP_ONLY, HUB_OPERATOR_SMPP_PASSWORD: '123456789' },
      /is too long. Expected: 1 to 8 characters/u,
    ],
    [
      'no system id',
      { ...SMPP_ONLY, HUB_OPERATOR_SMPP_URL: 'smpp://operator.example' },
      /smpp:\/\/system_id@host:port/u,
    ],
    [
      'a password in the address',
      { ...SMPP_ONLY, HUB_OPERATOR_SMPP_URL: 'smpp://a:b@operator.example' },
      /has a password in it/u,
    ],
    [
      'another protocol',
      { ...SMPP_ONLY, HUB_OPERATOR_SMPP_URL: 'http://hub@operator.example' },
      /smpps:\/\/ for TLS/u,
    ],
    [
      'no number of binds',
      { ...SMPP_ONLY, HUB_OPERATOR_SMPP_BINDS: '0' },
      /HUB_OPERATOR_SMPP_BINDS is something else. Expected: a whole number/u,
    ],
    ['no window', { ...SMPP_ONLY, HUB_OPERATOR_SMPP_WINDOW: 'wide' }, /HUB_OPERATOR_SMPP_WINDOW/u],
    [
      'an unknown mode',
      { ...SMPP_ONLY, HUB_OPERATOR_SMPP_BIND_MODE: 'outbind' },
      /Expected: transceiver or/u,
    ],
    [
      'an unknown id format',
      { ...SMPP_ONLY, HUB_OPERATOR_SMPP_ID_FORMAT: 'octal' },
      /Expected: one of opaque/u,
    ],
    [
      'no mapping',
      { ...SMPP_ONLY, HUB_OPERATOR_SMPP_ERRORS: '[]' },
      /HUB_OPERATOR_SMPP_ERRORS is not a valid mapping of codes/u,
    ],
    ['no file', { ...SMPP_ONLY, HUB_OPERATOR_SMPP_CA_FILE: '/nowhere/ca.pem' }, /CA_FILE cannot be read/u],
    [
      'a file without a certificate',
      { ...SMPP_ONLY, HUB_OPERATOR_SMPP_CA_FILE: import.meta.filename },
      /CA_FILE holds no certificate/u,
    ],
    ['a long system type', { ...SMPP_ONLY, HUB_OPERATOR_SMPP_SYSTEM_TYPE: 'thirteen char' }, /at most 12/u],
    ['half a sender', { ...SMPP_ONLY, HUB_OPERATOR_SMPP_NUMERIC_SENDER: '1' }, /for example 1\/1/u],
    [
      'an offset of days',
      { ...SMPP_ONLY, HUB_OPERATOR_SMPP_RECEIPT_OFFSET_MINUTES: '900' },
      /RECEIPT_OFFSET_MINUTES is something else/u,
    ],
  ]
  for (const [what, environment, sentence] of wrong) {
    it.effect(`is refused with ${what}`, () =>
      Effect.gen(function* () {
        assert.match(yield* refusal(environment), sentence)
      }),
    )
  }
})
