import { decodeId, encodingOf, EVENT_TYPES, parseTemplate, render } from '@hub/domain'
import { Result } from 'effect'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ApiError, ERRORS } from '../errors.ts'
import { MAX_BODY_BYTES, MAX_REGISTRATION_BYTES } from '../limits.ts'
import {
  decodeBatch,
  decodeEstimate,
  decodeDeliveriesQuery,
  decodeEventsQuery,
  decodeIdempotencyKey,
  decodeListQuery,
  decodeMessagesQuery,
  decodeRender,
  decodeSecretRotation,
  decodeSenderCreate,
  decodeSendRequest,
  decodeStatsQuery,
  decodeTemplateCreate,
  decodeVariables,
  decodeWebhookEndpointCreate,
  decodeWebhookEndpointUpdate,
  type Json,
  type JsonObject,
  parseBody,
} from '../index.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const parse = (text: string) => parseBody(bytes(text))

/** `code param` of a refusal, or the decoded value. */
const outcome = <A>(result: Result.Result<A, ApiError>): A | string =>
  Result.isSuccess(result)
    ? result.success
    : result.failure.param === undefined
      ? result.failure.code
      : `${result.failure.code} ${result.failure.param}`

const nested = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`

/** Arbitrary JSON objects, in which the names of the contract are frequent. */
const anyName = fc.oneof(
  fc.constantFrom('to', 'class', 'template', 'variables', 'client_ref', 'send_at', 'url', 'event_types'),
  fc.constantFrom('messages', 'name', 'sender', 'body', 'language', 'registration'),
  fc.constantFrom('headers', 'client_certificate'),
  fc.constantFrom('__proto__', 'constructor', 'toString', 'hasOwnProperty'),
  fc.string({ unit: 'binary' }),
)
const anyValue: fc.Arbitrary<Json> = fc.oneof(
  fc.jsonValue() as fc.Arbitrary<Json>,
  fc.constantFrom<Json>('+79000000001', 'otp', 'otp_code', 'https://example.com/', '', {}, [], null),
  fc.string({ unit: 'binary' }),
)
const anyObject: fc.Arbitrary<JsonObject> = fc
  .array(fc.tuple(anyName, anyValue))
  .map((entries) => JSON.parse(JSON.stringify(Object.fromEntries(entries))) as JsonObject)

describe('parseBody', () => {
  it('parses a UTF-8 object with or without a byte order mark', () => {
    expect(outcome(parse('{"a":[1,"Заказ",null,{"b":true}]}'))).toEqual({
      a: [1, 'Заказ', null, { b: true }],
    })
    expect(outcome(parse('\ufeff{"a":1}'))).toEqual({ a: 1 })
    expect(outcome(parse('{}'))).toEqual({})
  })

  // Rules: HTTP-10
  it.each([
    '',
    ' ',
    'null',
    '[]',
    '1',
    '"a"',
    '{',
    '{"a":1,}',
    "{'a':1}",
    '{"a":1}{',
    '{"a":NaN}',
    ']]]]',
    '{"a":"\u0000"}',
  ])('refuses %j, which is no JSON object', (text) => {
    expect(outcome(parse(text))).toBe('invalid_parameter')
  })

  // Rules: HTTP-10
  it('refuses bytes that are not UTF-8, including an encoded lone surrogate', () => {
    for (const bad of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82]]) {
      expect(outcome(parseBody(Uint8Array.from([...bytes('{"a":"'), ...bad, ...bytes('"}')])))).toBe(
        'invalid_parameter',
      )
    }
  })

  // Rules: HTTP-14
  it('accepts 16 levels and refuses 17, where the body is the first', () => {
    expect(Result.isSuccess(parse(nested(16)))).toBe(true)
    expect(outcome(parse(nested(17)))).toBe('invalid_parameter')
    expect(outcome(parse(nested(17).replaceAll('[', '{"b":').replaceAll(']', '}')))).toBe('invalid_parameter')
  })

  it('does not count brackets in strings as levels', () => {
    const text = JSON.stringify({ a: `${'[{'.repeat(50)}\\"` })
    expect(outcome(parse(text))).toEqual(JSON.parse(text))
  })

  // Rules: HTTP-13
  it('refuses a NUL or a lone surrogate anywhere, and reports its path', () => {
    expect(outcome(parse('{"to":"\\u0000"}'))).toBe('invalid_parameter to')
    expect(outcome(parse('{"messages":[{},{"to":"a\\ud800"}]}'))).toBe('invalid_parameter messages[1].to')
    expect(outcome(parse('{"\\udc00":1}'))).toBe('invalid_parameter')
    expect(outcome(parse('{"variables":{"\\u0000":1}}'))).toBe('invalid_parameter variables')
    expect(outcome(parse('{"unknown":{"deep":["\\ud83d"]}}'))).toBe('invalid_parameter unknown.deep[0]')
  })

  it('accepts escapes that form whole characters', () => {
    expect(outcome(parse('{"a":"\\ud83d\\ude00\\u0001\\\\u0000"}'))).toEqual({ a: '\u{1f600}\u0001\\u0000' })
  })

  // Rules: HTTP-15
  it('refuses repeated names, with and without escapes', () => {
    expect(outcome(parse('{"to":"a","to":"b"}'))).toBe('invalid_parameter')
    expect(outcome(parse('{"to":"a","\\u0074o":"b"}'))).toBe('invalid_parameter')
    expect(outcome(parse('{"a":[{"b":{"c":1,"c":1}}]}'))).toBe('invalid_parameter')
    expect(outcome(parse('{"__proto__":1,"__proto__":2}'))).toBe('invalid_parameter')
    expect(outcome(parse('{"a":"x:y","b":{"a":":"}}'))).toEqual({ a: 'x:y', b: { a: ':' } })
  })

  // Rules: HTTP-16
  it('accepts __proto__ and constructor as ordinary names', () => {
    const body = parse('{"__proto__":{"to":"+79000000001"},"constructor":1}')
    const object = Result.getOrThrow(body)
    expect(Object.keys(object)).toEqual(['__proto__', 'constructor'])
    expect(outcome(decodeSendRequest(object))).toBe('invalid_parameter to')
  })

  // Rules: TPL-21
  it('makes numbers infinite that a double does not hold exactly, so that no check accepts them', () => {
    const numbers = (text: string) => (outcome(parse(`{"a":[${text}]}`)) as { a: Array<number> }).a
    expect(numbers('9007199254740993,12345678901234567890,0.1234567890123456789,1e16,1e400,1e-400')).toEqual(
      Array.from({ length: 6 }, () => Infinity),
    )
    expect(numbers('-9007199254740993,-1e999,123456789012345678')).toEqual(
      [Infinity, -Infinity, Infinity].map(Math.abs),
    )
    expect(
      numbers('9007199254740992,0.1,1.10,100000000000000000e-3,1e2,-0.5,0e5,0.30000000000000004'),
    ).toEqual([9007199254740992, 0.1, 1.1, 100000000000000, 100, -0.5, 0, 0.30000000000000004])
    // Digits in a string are not a number.
    expect(outcome(parse('{"a":"9007199254740993"}'))).toEqual({ a: '9007199254740993' })
    const variables = (outcome(parse('{"variables":{"code":9007199254740993}}')) as { variables: JsonObject })
      .variables
    expect(outcome(decodeVariables(variables))).toBe('template_variable_invalid variables.code')
  })

  // Rules: ERR-11, ERR-12
  it('says where a body stops being JSON, without quoting it', () => {
    const messageOf = (text: string) => {
      const result = parse(text)
      return Result.isFailure(result) ? result.failure.message : ''
    }
    expect(messageOf('{"to": secret}')).toBe('The body is not JSON: line 1, column 8.')
    expect(messageOf('{\n  "a": 1,\n  "b": 2,\n}')).toBe('The body is not JSON: line 4, column 1.')
    expect(messageOf('{"a": "secret')).toBe('The body is not JSON: it ends too early.')
    expect(messageOf("{'a': 1}")).toBe('The body is not JSON: line 1, column 2.')
    expect(messageOf('')).toContain('empty')
    expect(messageOf('[{"to":"+79000000001"}]')).toContain('{"messages": [...]}')
    fc.assert(
      fc.property(
        fc.json(),
        fc.nat(),
        fc.constantFrom('', 'x', ',', '"', '}', '\\', '0'),
        (json, at, put) => {
          const cut = at % (json.length + 1)
          const text = json.slice(0, cut) + put + json.slice(cut + 1)
          const isJson = Result.isSuccess(Result.try(() => JSON.parse(text) as unknown))
          // The end of a text without a fault looks like a text that ends too early.
          fc.pre(!isJson)
          const message = messageOf(text)
          fc.pre(!message.includes('nested') && !message.includes('empty'))
          expect(message).toMatch(/^The body is not JSON: (?:line \d+, column \d+|it ends too early)\.$/u)
        },
      ),
    )
  })

  // Rules: HTTP-17
  it('counts values before parsing: a full batch passes, millions of tiny values do not', () => {
    const element = Object.fromEntries(Array.from({ length: 90 }, (_, n) => [`v${n}`, '1']))
    const full = {
      messages: Array.from({ length: 1000 }, () => ({ to: 'x', class: 'y', variables: element })),
    }
    expect(typeof outcome(parse(JSON.stringify(full)))).toBe('object')
    for (const tiny of [
      `{${Array.from({ length: 101_000 }, (_, n) => `"${n}":1`).join(',')}}`,
      `{"a":[${'1,'.repeat(2_000_000)}1]}`,
      `{"a":[${'[],'.repeat(1_000_000)}1]}`,
    ]) {
      const result = parse(tiny)
      expect(Result.isFailure(result) ? result.failure.message : '').toContain('values')
    }
    const long = parse(`{"a":[${'1e5,'.repeat(20_000)}1]}`)
    expect(Result.isFailure(long) ? long.failure.message : '').toContain('long numbers')
  })

  // Rules: HTTP-11
  it('refuses more than 4 MiB without parsing', () => {
    expect(outcome(parseBody(new Uint8Array(MAX_BODY_BYTES + 1)))).toBe('payload_too_large')
  })

  it('answers arbitrary bytes with codes of the catalogue', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.uint8Array(), fc.string({ unit: 'binary' }).map(bytes), fc.json().map(bytes)),
        (input) => {
          const result = parseBody(input)
          if (Result.isFailure(result)) expect(result.failure.code in ERRORS).toBe(true)
        },
      ),
    )
  })

  const hasInexactNumber = (value: Json): boolean =>
    typeof value === 'number'
      ? Math.abs(value) > 2 ** 53
      : typeof value === 'object' && value !== null && Object.values(value).some(hasInexactNumber)

  it('parses arbitrary clean objects without changing them', () => {
    const clean = (value: Json): boolean =>
      JSON.stringify(value).isWellFormed() &&
      !JSON.stringify(value).includes('\\u0000') &&
      !/\\ud[89a-f]/u.test(JSON.stringify(value)) &&
      !hasInexactNumber(value)
    fc.assert(
      fc.property(anyObject.filter(clean), (object) => {
        expect(outcome(parse(JSON.stringify(object)))).toEqual(object)
      }),
    )
  })
})

describe('decodeSendRequest', () => {
  const good = {
    to: '+79000000001',
    class: 'otp',
    template: 'otp_code',
    variables: { code: '4821' },
    client_ref: 'r-1',
  }
  const without = (name: keyof typeof good | 'ttl_seconds'): JsonObject =>
    Object.fromEntries(Object.entries(good).filter(([key]) => key !== name))

  // Rules: MSG-1, HTTP-19
  it('decodes a send with and without optional fields', () => {
    expect(outcome(decodeSendRequest(good))).toEqual({
      to: '+79000000001',
      class: 'otp',
      template: 'otp_code',
      variables: { code: '4821' },
      clientRef: 'r-1',
    })
    expect(
      outcome(decodeSendRequest({ to: '+79000000001', class: 'service', template: 't', more: 1 })),
    ).toEqual({
      to: '+79000000001',
      class: 'service',
      template: 't',
      variables: {},
      clientRef: null,
    })
  })

  // Rules: MSG-4, BAT-6
  it.each([null, false, 0, '', [], {}, '2026-11-21T09:30:00.000Z'])(
    'refuses send_at %j before anything else',
    (send_at) => {
      expect(outcome(decodeSendRequest({ send_at }))).toBe('send_at_not_supported send_at')
      expect(outcome(decodeSendRequest({ ...good, send_at }, 'messages[2]'))).toBe(
        'send_at_not_supported messages[2].send_at',
      )
    },
  )

  // Rules: MSG-3, MSG-5, MSG-6, GEN-11, HTTP-18
  it.each([
    ['to', undefined, 'invalid_parameter'],
    ['to', null, 'invalid_parameter'],
    ['to', 79000000001, 'invalid_parameter'],
    ['to', '', 'recipient_invalid'],
    ['to', '79000000001', 'recipient_invalid'],
    ['to', '+7900000000', 'recipient_invalid'],
    ['to', '+790000000011', 'recipient_invalid'],
    ['to', '+79000000001\n', 'recipient_invalid'],
    ['to', ' +79000000001', 'recipient_invalid'],
    ['to', '+7900000000١', 'recipient_invalid'],
    ['class', undefined, 'invalid_parameter'],
    ['class', 'OTP', 'invalid_parameter'],
    ['class', 'constructor', 'invalid_parameter'],
    ['class', ['otp'], 'invalid_parameter'],
    ['template', undefined, 'invalid_parameter'],
    ['template', 1, 'invalid_parameter'],
    ['template', '', 'invalid_parameter'],
    ['template', 'Otp', 'invalid_parameter'],
    ['template', 'a'.repeat(65), 'invalid_parameter'],
    ['variables', null, 'invalid_parameter'],
    ['variables', [], 'invalid_parameter'],
    ['variables', 'code', 'invalid_parameter'],
    ['client_ref', null, 'invalid_parameter'],
    ['client_ref', '', 'invalid_parameter'],
    ['client_ref', 7, 'invalid_parameter'],
    ['client_ref', 'a'.repeat(129), 'invalid_parameter'],
    ['client_ref', 'a\tb', 'invalid_parameter'],
    ['client_ref', 'a\u009fb', 'invalid_parameter'],
    ['ttl_seconds', null, 'invalid_parameter'],
    ['ttl_seconds', '60', 'invalid_parameter'],
    ['ttl_seconds', 60.5, 'invalid_parameter'],
    ['ttl_seconds', 29, 'invalid_parameter'],
    ['ttl_seconds', 86_401, 'invalid_parameter'],
  ] as const)('refuses %s %j', (name, value, code) => {
    const body = { ...without(name), ...(value === undefined ? undefined : { [name]: value as Json }) }
    expect(outcome(decodeSendRequest(body))).toBe(`${code} ${name}`)
    expect(outcome(decodeSendRequest(body, 'messages[3]'))).toBe(`${code} messages[3].${name}`)
  })

  // Rules: MSG-6
  it('takes ttl_seconds from 30 to the lifetime of the class', () => {
    const decode = (messageClass: 'otp' | 'service', seconds: number, longest?: number) =>
      Result.isSuccess(
        decodeSendRequest(
          { ...good, class: messageClass, ttl_seconds: seconds },
          '',
          longest === undefined ? {} : { longestTtl: { otp: longest, service: longest } },
        ),
      )
    expect([decode('otp', 30), decode('otp', 300), decode('otp', 301)]).toEqual([true, true, false])
    expect([decode('service', 86_400), decode('service', 86_401)]).toEqual([true, false])
    expect([decode('otp', 301, 600), decode('service', 601, 600)]).toEqual([true, false])
  })

  // Rules: MSG-5, GEN-7
  it('counts a client_ref in characters, not in code units', () => {
    expect(Result.isSuccess(decodeSendRequest({ ...good, client_ref: '\u{1f600}'.repeat(128) }))).toBe(true)
    expect(outcome(decodeSendRequest({ ...good, client_ref: '\u{1f600}'.repeat(129) }))).toBe(
      'invalid_parameter client_ref',
    )
    expect(Result.isSuccess(decodeSendRequest({ ...good, client_ref: 'a\nb' }))).toBe(true)
  })

  // Rules: HTTP-28
  it('reports the first failure in the order of the fields', () => {
    const faults = { send_at: 1, to: 'x', class: 'x', template: 'X', variables: 1, client_ref: '' }
    const told: Array<unknown> = []
    const body: Record<string, Json> = { ...faults }
    for (const name of Object.keys(faults)) {
      const result = decodeSendRequest(body)
      told.push(Result.isFailure(result) ? result.failure.param : null)
      if (name === 'send_at') delete body[name]
      else body[name] = (good as JsonObject)[name] ?? null
    }
    expect(told).toEqual(['send_at', 'to', 'class', 'template', 'variables', 'client_ref'])
  })

  // Rules: BAT-7
  it('refuses a missing client_ref where one is required', () => {
    expect(
      outcome(decodeSendRequest(without('client_ref'), 'messages[0]', { clientRefRequired: true })),
    ).toBe('invalid_parameter messages[0].client_ref')
  })

  // Rules: ERR-8
  it('answers arbitrary objects with codes of the catalogue, without repeating a value', () => {
    const secret = '+79001234567 secret'
    fc.assert(
      fc.property(anyObject, anyName, (object, name) => {
        const result = decodeSendRequest({ ...object, [name]: secret }, 'messages[0]')
        if (Result.isFailure(result)) {
          expect(result.failure.code in ERRORS).toBe(true)
          expect(result.failure.message).not.toContain('secret')
          expect(result.failure.param).toMatch(
            /^messages\[0\]\.(?:send_at|to|class|template|variables|client_ref)$/u,
          )
        }
      }),
    )
  })
})

describe('decodeVariables', () => {
  // Rules: TPL-20
  it('formats values as they appear in the text', () => {
    const values = Result.getOrThrow(decodeVariables({ a: 'x\ny', b: 1e21, c: -0, d: 0.5, e: '' }))
    expect({ ...values }).toEqual({ a: 'x\ny', b: '1e+21', c: '0', d: '0.5', e: '' })
  })

  // Rules: HTTP-16
  it('accepts names of object members as ordinary names', () => {
    const values = Result.getOrThrow(
      decodeVariables(JSON.parse('{"__proto__":"p","constructor":"c"}') as JsonObject),
    )
    expect(Object.entries(values)).toEqual([
      ['__proto__', 'p'],
      ['constructor', 'c'],
    ])
  })

  // Rules: TPL-20
  it.each([null, true, [], {}, 'a'.repeat(501), 'a\tb', Infinity])('refuses the value %j', (value) => {
    expect(outcome(decodeVariables({ ok: '1', code: value as Json }, 'messages[1]'))).toBe(
      'template_variable_invalid messages[1].variables.code',
    )
  })

  it('refuses exactly the values that the domain refuses to render', () => {
    const template = Result.getOrThrow(parseTemplate('{{v}}'))
    fc.assert(
      fc.property(anyValue, (value) => {
        const rendered = render(template, { v: value })
        const refused = Result.isFailure(rendered) && rendered.failure._tag === 'TemplateVariableInvalid'
        // `parseBody` already refuses lone surrogates.
        fc.pre(typeof value !== 'string' || value.isWellFormed())
        expect(Result.isFailure(decodeVariables({ v: value }))).toBe(refused)
      }),
    )
  })
})

const SEND = {
  to: '+79000000001',
  class: 'service',
  template: 'order_ready',
  variables: { order: '1001' },
  client_ref: 'order-1001',
} as const
const { client_ref: _, ...UNREFERENCED } = SEND

describe('decodeBatch', () => {
  const BATCH_MAX = 5
  const batch = (messages: Json) => decodeBatch({ messages }, BATCH_MAX)
  /** The result of each element: `ok`, or the error. */
  const told = (messages: Json) =>
    Result.getOrThrow(batch(messages)).map(({ send }) => {
      const result = outcome(send)
      return typeof result === 'string' ? result : 'ok'
    })

  it('decodes each element as a separate send, in order', () => {
    expect(outcome(batch([SEND, { ...SEND, client_ref: 'order-1002', class: 'otp' }]))).toEqual([
      {
        index: 0,
        path: 'messages[0]',
        clientRef: 'order-1001',
        send: Result.succeed({
          to: '+79000000001',
          class: 'service',
          template: 'order_ready',
          variables: { order: '1001' },
          clientRef: 'order-1001',
        }),
      },
      {
        index: 1,
        path: 'messages[1]',
        clientRef: 'order-1002',
        send: Result.succeed({
          to: '+79000000001',
          class: 'otp',
          template: 'order_ready',
          variables: { order: '1001' },
          clientRef: 'order-1002',
        }),
      },
    ])
  })

  // Rules: BAT-2
  it.each([undefined, null, {}, 'x', 1, []])('refuses the whole request if messages is %j', (messages) => {
    const body = messages === undefined ? {} : { messages }
    expect(outcome(decodeBatch(body, BATCH_MAX))).toBe('invalid_parameter messages')
  })

  // Rules: BAT-1
  it('accepts at most batch_max elements', () => {
    const messages = (length: number) => Array.from({ length }, () => SEND)
    expect(told(messages(BATCH_MAX))).toHaveLength(BATCH_MAX)
    expect(outcome(batch(messages(BATCH_MAX + 1)))).toBe('batch_too_large messages')
    expect(outcome(batch(Array.from({ length: BATCH_MAX + 1 }, () => null)))).toBe('batch_too_large messages')
  })

  // Rules: BAT-2
  it.each([null, [], 'x', 1, true])('refuses the whole request if an element is %j', (element) => {
    expect(outcome(batch([{ to: 1 }, SEND, element, null]))).toBe('invalid_parameter messages[2]')
  })

  // Rules: BAT-2
  it('refuses a send_at of the whole request first', () => {
    expect(outcome(decodeBatch({ send_at: null }, BATCH_MAX))).toBe('send_at_not_supported send_at')
    expect(outcome(decodeBatch({ messages: [SEND], send_at: '2026-12-31' }, BATCH_MAX))).toBe(
      'send_at_not_supported send_at',
    )
  })

  // Rules: BAT-6
  it('reports the failure of each element separately', () => {
    expect(
      told([SEND, { ...SEND, to: '12' }, { ...SEND, send_at: null }, UNREFERENCED, { ...SEND, class: 'x' }]),
    ).toEqual([
      'ok',
      'recipient_invalid messages[1].to',
      'send_at_not_supported messages[2].send_at',
      'invalid_parameter messages[3].client_ref',
      'invalid_parameter messages[4].class',
    ])
  })

  // Rules: BAT-7
  it('keeps a valid client_ref of a refused element', () => {
    const refs = (messages: Json) => Result.getOrThrow(batch(messages)).map(({ clientRef }) => clientRef)
    const bad = { ...SEND, to: '12' }
    expect(
      refs([
        bad,
        { ...bad, client_ref: 7 },
        { ...bad, client_ref: '' },
        UNREFERENCED,
        { ...SEND, send_at: 1 },
      ]),
    ).toEqual(['order-1001', null, null, null, 'order-1001'])
  })

  it('accepts a repeated client_ref: the second element is a duplicate', () => {
    expect(told([SEND, SEND])).toEqual(['ok', 'ok'])
  })

  it('gives the same result for each element as decodeSendRequest', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(anyObject, fc.constant(SEND)), { minLength: 1, maxLength: 5 }),
        (messages) => {
          const elements = Result.getOrThrow(decodeBatch({ messages }, BATCH_MAX))
          expect(elements.map(({ send }) => outcome(send))).toEqual(
            messages.map((message, index) =>
              outcome(decodeSendRequest(message, `messages[${index}]`, { clientRefRequired: true })),
            ),
          )
          for (const { clientRef, send } of elements) {
            if (Result.isSuccess(send)) expect(send.success.clientRef).toBe(clientRef)
          }
        },
      ),
    )
  })

  it('answers arbitrary objects with codes of the catalogue', () => {
    fc.assert(
      fc.property(anyObject, anyValue, (object, messages) => {
        const result = decodeBatch({ ...object, messages }, BATCH_MAX)
        if (Result.isFailure(result)) {
          expect(['invalid_parameter', 'batch_too_large', 'send_at_not_supported']).toContain(
            result.failure.code,
          )
        }
      }),
    )
  })
})

describe('decodeEstimate', () => {
  const estimate = (body: JsonObject) => outcome(decodeEstimate(body, 2))

  // Rules: EST-4
  it('decodes one send without client_ref', () => {
    expect(estimate(UNREFERENCED)).toMatchObject({ kind: 'one', send: { clientRef: null } })
    expect(estimate(SEND)).toMatchObject({ kind: 'one', send: { clientRef: 'order-1001' } })
  })

  // Rules: EST-4
  it('decodes several sends without client_ref', () => {
    const wanted = Result.getOrThrow(decodeEstimate({ messages: [UNREFERENCED, { ...SEND, to: 'x' }] }, 2))
    expect(
      wanted.kind === 'many' ? wanted.elements.map(({ send }) => Result.isSuccess(send)) : wanted,
    ).toEqual([true, false])
  })

  // Rules: EST-4
  it('has the limits of a batch', () => {
    expect(estimate({ messages: [SEND, SEND, SEND] })).toBe('batch_too_large messages')
    expect(estimate({ messages: [] })).toBe('invalid_parameter messages')
    expect(estimate({ ...SEND, messages: null })).toBe('invalid_parameter messages')
    expect(estimate({ messages: [SEND, 1] })).toBe('invalid_parameter messages[1]')
  })

  // Rules: EST-3
  it('fails like a send', () => {
    expect(estimate({})).toBe('invalid_parameter to')
    expect(estimate({ ...SEND, to: '12' })).toBe('recipient_invalid to')
    expect(estimate({ ...SEND, send_at: null })).toBe('send_at_not_supported send_at')
    expect(estimate({ messages: [SEND], send_at: null })).toBe('send_at_not_supported send_at')
  })
})

describe('decodeTemplateCreate', () => {
  const good = { name: 'order_ready', class: 'service', sender: 'HUB', body: 'Заказ {{order}} готов' }

  // Rules: TPL-1
  it('decodes a template with and without a language', () => {
    expect(outcome(decodeTemplateCreate(good))).toEqual({ ...good, language: null })
    expect(outcome(decodeTemplateCreate({ ...good, language: 'ru-RU', status: 'approved' }))).toEqual({
      ...good,
      language: 'ru-RU',
    })
  })

  // Rules: TPL-2, TPL-4
  it.each<[string, Json | undefined, string]>([
    ['name', undefined, 'invalid_parameter'],
    ['name', null, 'invalid_parameter'],
    ['name', '', 'invalid_parameter'],
    ['name', 'Order', 'invalid_parameter'],
    ['name', 'order ready', 'invalid_parameter'],
    ['name', 'заказ', 'invalid_parameter'],
    ['name', 'a'.repeat(65), 'invalid_parameter'],
    ['name', 'order\n', 'invalid_parameter'],
    ['class', undefined, 'invalid_parameter'],
    ['class', 'promo', 'invalid_parameter'],
    ['class', 1, 'invalid_parameter'],
    ['sender', undefined, 'invalid_parameter'],
    ['sender', {}, 'invalid_parameter'],
    ['sender', 'HU\tB', 'invalid_parameter'],
    ['body', undefined, 'invalid_parameter'],
    ['body', 5, 'invalid_parameter'],
    ['body', '', 'invalid_parameter'],
    ['body', 'a\tb', 'invalid_parameter'],
    ['body', 'a\r\nb', 'invalid_parameter'],
    ['body', 'x'.repeat(2001), 'invalid_parameter'],
    ['body', 'Code {{code', 'template_invalid'],
    ['body', '{{{code}}}', 'template_invalid'],
    ['body', '{{code\n}}', 'template_invalid'],
    ['language', null, 'invalid_parameter'],
    ['language', '', 'invalid_parameter'],
    ['language', 'r', 'invalid_parameter'],
    ['language', 'ru_RU', 'invalid_parameter'],
    ['language', 'ru\n', 'invalid_parameter'],
    ['language', `ru${'-latn'.repeat(7)}`, 'invalid_parameter'],
    ['language', ['ru'], 'invalid_parameter'],
  ])('refuses %s %j', (name, value, code) => {
    const { [name]: _, ...rest }: JsonObject = good
    const body: JsonObject = value === undefined ? rest : { ...rest, [name]: value }
    expect(outcome(decodeTemplateCreate(body))).toBe(`${code} ${name}`)
  })

  // Rules: TPL-2, GEN-7
  it('accepts values at the limits', () => {
    for (const fields of [
      { name: 'a' },
      { name: `${'a'.repeat(60)}_.-0` },
      { body: '😀'.repeat(2000) },
      { body: 'two\nlines' },
      { language: `ru${'-latn'.repeat(6)}` },
    ]) {
      expect(Result.isSuccess(decodeTemplateCreate({ ...good, ...fields }))).toBe(true)
    }
  })

  it('does not check whether the sender exists', () => {
    expect(outcome(decodeTemplateCreate({ ...good, sender: 'NOBODY KNOWS THIS ONE' }))).toMatchObject({
      sender: 'NOBODY KNOWS THIS ONE',
    })
  })

  it('reports the first failure in the order of the fields', () => {
    const body: Record<string, Json> = { name: '', class: '', sender: 0, body: '{{', language: '' }
    const told: Array<unknown> = []
    for (const name of Object.keys(body)) {
      const result = decodeTemplateCreate(body)
      told.push(Result.isFailure(result) ? result.failure.param : null)
      body[name] = (good as JsonObject)[name] ?? 'ru'
    }
    expect(told).toEqual(['name', 'class', 'sender', 'body', 'language'])
    expect(Result.isSuccess(decodeTemplateCreate(body))).toBe(true)
  })

  it('answers arbitrary objects, and accepts only valid template texts', () => {
    const piece = fc.constantFrom('{{', '}}', '{', 'a', ' ', '\n', '\u0007', 'я', '{{name}}')
    fc.assert(
      fc.property(anyObject, fc.array(piece), (object, pieces) => {
        const bodies: ReadonlyArray<JsonObject> = [object, { ...good, body: pieces.join('') }]
        for (const body of bodies) {
          const result = decodeTemplateCreate(body)
          if (Result.isFailure(result)) {
            expect(['invalid_parameter', 'template_invalid']).toContain(result.failure.code)
          } else {
            expect(Result.isSuccess(parseTemplate(result.success.body))).toBe(true)
            expect(result.success.body).not.toContain('\u0007')
          }
        }
      }),
    )
  })
})

describe('decodeSenderCreate', () => {
  const named = (name: Json) => outcome(decodeSenderCreate({ name }))

  // Rules: SND-2
  it.each(['A', 'HUB', 'Hub-1 a_b.c', '1234567890x', ' . x', 'ÄÖÑÜßéΩ', 'ÇaΔ'])(
    'accepts the name %j',
    (name) => {
      expect(named(name)).toEqual({ name, registration: null })
    },
  )

  // Rules: SND-2
  it.each<Json>([
    '',
    ' ',
    '12345',
    '._-',
    'ABCDEFGHIJKL',
    'HUB!',
    'HUB\n',
    'ХАБ',
    'ç',
    'HUB@',
    '¡Hola',
    'HUB😀',
    'Hub\u0301',
    null,
    7,
    ['HUB'],
  ])('refuses the name %j', (name) => {
    expect(named(name)).toBe('invalid_parameter name')
  })

  // Rules: SND-2
  it('requires a name', () => {
    expect(outcome(decodeSenderCreate({ registration: {} }))).toBe('invalid_parameter name')
  })

  // Rules: SND-3
  it('returns a registration unchanged', () => {
    const registration = JSON.parse('{"inn":"7700000000","__proto__":{"lines":"a\\nb"},"n":[1,null]}') as Json
    const sender = Result.getOrThrow(decodeSenderCreate({ name: 'HUB', registration }))
    expect(JSON.stringify(sender.registration)).toBe(JSON.stringify(registration))
  })

  // Rules: SND-3
  it.each<Json>([null, [], 'x', 1, { a: 'b\tc' }, { 'a\u0085': 1 }, { a: [{ b: ['\u001b'] }] }])(
    'refuses the registration %j',
    (registration) => {
      expect(outcome(decodeSenderCreate({ name: 'HUB', registration }))).toBe(
        'invalid_parameter registration',
      )
    },
  )

  // Rules: SND-3
  it('limits the bytes of the JSON of a registration', () => {
    // `{"a":"…"}` has 8 bytes around the text.
    const room = MAX_REGISTRATION_BYTES - 8
    const sized = (text: string) => decodeSenderCreate({ name: 'HUB', registration: { a: text } })
    expect(Result.isSuccess(sized('x'.repeat(room)))).toBe(true)
    expect(outcome(sized('x'.repeat(room + 1)))).toBe('invalid_parameter registration')
    expect(Result.isSuccess(sized('я'.repeat(room / 2)))).toBe(true)
    expect(outcome(sized('я'.repeat(room / 2 + 1)))).toBe('invalid_parameter registration')
  })

  // Rules: SND-2
  it('accepts exactly names of letters that are single GSM septets', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }), (letter) => {
        const isGsm = encodingOf(letter) === 'gsm7' && /^\p{L}$/u.test(letter)
        expect(Result.isSuccess(decodeSenderCreate({ name: letter }))).toBe(isGsm)
      }),
    )
    // Each character of the basic table too: random texts contain few of them.
    for (let code = 0; code < 0x3ff; code++) {
      const letter = String.fromCharCode(code)
      const isGsm = encodingOf(letter) === 'gsm7' && /^\p{L}$/u.test(letter)
      expect([letter, Result.isSuccess(decodeSenderCreate({ name: letter }))]).toEqual([letter, isGsm])
    }
  })

  it('answers arbitrary objects with codes of the catalogue', () => {
    fc.assert(
      fc.property(anyObject, anyValue, (object, registration) => {
        for (const body of [object, { name: 'HUB', registration }]) {
          const result = decodeSenderCreate(body)
          if (Result.isFailure(result)) expect(result.failure.code).toBe('invalid_parameter')
        }
      }),
    )
  })
})

describe('decodeRender', () => {
  it('decodes present and absent variables', () => {
    expect(outcome(decodeRender({ variables: { order: '1001', n: 1 } }))).toEqual({ order: '1001', n: 1 })
    expect(outcome(decodeRender({ other: 1 }))).toEqual({})
    // Rendering checks the values.
    expect(outcome(decodeRender({ variables: { order: null } }))).toEqual({ order: null })
  })

  it.each<Json>([null, [], 'order', 1, true])('refuses variables %j', (variables) => {
    expect(outcome(decodeRender({ variables }))).toBe('invalid_parameter variables')
  })
})

const WITHOUT_CREDENTIALS = { headers: [], clientCertificate: null }

describe('decodeWebhookEndpointCreate', () => {
  // Rules: SUB-4
  it('decodes an address with and without types', () => {
    expect(outcome(decodeWebhookEndpointCreate({ url: 'https://example.com/a?b#c' }))).toEqual({
      url: 'https://example.com/a?b#c',
      eventTypes: [],
      description: null,
      ...WITHOUT_CREDENTIALS,
    })
    expect(
      outcome(
        decodeWebhookEndpointCreate({
          url: 'https://пример.рф:8443',
          event_types: ['message.sent', 'message.seen', 'message.sent'],
        }),
      ),
    ).toEqual({
      url: 'https://пример.рф:8443',
      eventTypes: ['message.sent', 'message.seen'],
      description: null,
      ...WITHOUT_CREDENTIALS,
    })
    expect(outcome(decodeWebhookEndpointCreate({ url: 'https://a.example', event_types: [] }))).toEqual({
      url: 'https://a.example',
      eventTypes: [],
      description: null,
      ...WITHOUT_CREDENTIALS,
    })
  })

  // Rules: SUB-5
  it('decodes a description', () => {
    const url = 'https://a.example'
    const longest = '𝕏'.repeat(200)
    for (const description of ['Касса 1', '', longest, null]) {
      expect(outcome(decodeWebhookEndpointCreate({ url, description }))).toMatchObject({ description })
    }
  })

  it('accepts every string as address: another check validates it', () => {
    expect(outcome(decodeWebhookEndpointCreate({ url: '' }))).toEqual({
      url: '',
      eventTypes: [],
      description: null,
      ...WITHOUT_CREDENTIALS,
    })
  })

  // Rules: SUB-32, SUB-36
  it('decodes headers and a client certificate', () => {
    const url = 'https://a.example'
    const client_certificate = { certificate: 'a', private_key: 'b' }
    expect(
      outcome(decodeWebhookEndpointCreate({ url, headers: { 'X-Shop': '7' }, client_certificate })),
    ).toMatchObject({
      headers: [['X-Shop', '7']],
      clientCertificate: { certificate: 'a', privateKey: 'b' },
    })
    expect(
      outcome(decodeWebhookEndpointCreate({ url, headers: null, client_certificate: null })),
    ).toMatchObject(WITHOUT_CREDENTIALS)
  })

  // Rules: SUB-4, SUB-5, SUB-11, SUB-33, SUB-36
  it.each([
    [{}, 'url'],
    [{ url: null }, 'url'],
    [{ url: ['https://example.com'] }, 'url'],
    [{ url: 'https://example.com', event_types: null }, 'event_types'],
    [{ url: 'https://example.com', event_types: 'message.sent' }, 'event_types'],
    [{ url: 'https://example.com', event_types: ['message.sent', 1] }, 'event_types[1]'],
    [{ url: 'https://example.com', event_types: ['message.lost'] }, 'event_types[0]'],
    [{ url: 'https://example.com', event_types: ['constructor'] }, 'event_types[0]'],
    [{ url: 'https://example.com', description: 1 }, 'description'],
    [{ url: 'https://example.com', description: 'a'.repeat(201) }, 'description'],
    [{ url: 'https://example.com', description: 'two\nlines' }, 'description'],
    [{ url: 'https://example.com', headers: { Host: 'a' } }, 'headers.Host'],
    [{ url: 'https://example.com', client_certificate: 'PEM' }, 'client_certificate'],
    [{ url: 'https://example.com', client_certificate: [] }, 'client_certificate'],
    [{ url: 'https://example.com', client_certificate: {} }, 'client_certificate.certificate'],
    [
      { url: 'https://example.com', client_certificate: { certificate: '', private_key: 'b' } },
      'client_certificate.certificate',
    ],
    [
      {
        url: 'https://example.com',
        client_certificate: { certificate: 'a'.repeat(16_385), private_key: 'b' },
      },
      'client_certificate.certificate',
    ],
    [
      { url: 'https://example.com', client_certificate: { certificate: 'a' } },
      'client_certificate.private_key',
    ],
    [
      { url: 'https://example.com', client_certificate: { certificate: 'a', private_key: 7 } },
      'client_certificate.private_key',
    ],
    [
      {
        url: 'https://example.com',
        client_certificate: { certificate: 'a', private_key: 'b'.repeat(16_385) },
      },
      'client_certificate.private_key',
    ],
  ] as ReadonlyArray<readonly [JsonObject, string]>)('refuses the form of %j', (body, param) => {
    expect(outcome(decodeWebhookEndpointCreate(body))).toBe(`invalid_parameter ${param}`)
  })

  it('answers arbitrary objects with codes of the catalogue', () => {
    fc.assert(
      fc.property(anyObject, anyValue, (object, url) => {
        const result = decodeWebhookEndpointCreate({ ...object, url })
        if (Result.isFailure(result)) expect(result.failure.code).toBe('invalid_parameter')
        else expect(result.success.url).toBe(url)
      }),
    )
  })
})

describe('decodeWebhookEndpointUpdate', () => {
  // Rules: SUB-7, SUB-38
  it('contains only the members of the request', () => {
    expect(outcome(decodeWebhookEndpointUpdate({ colour: 1 }))).toEqual({})
    expect(outcome(decodeWebhookEndpointUpdate({ url: 'https://a.example' }))).toEqual({
      url: 'https://a.example',
    })
    expect(outcome(decodeWebhookEndpointUpdate({ event_types: [], description: null }))).toEqual({
      eventTypes: [],
      description: null,
    })
    expect(outcome(decodeWebhookEndpointUpdate({ headers: null }))).toEqual({ headers: [] })
    expect(outcome(decodeWebhookEndpointUpdate({ client_certificate: null }))).toEqual({
      clientCertificate: null,
    })
  })

  // Rules: SUB-7
  it.each([
    [{ url: null }, 'url'],
    [{ url: 1 }, 'url'],
    [{ event_types: null }, 'event_types'],
    [{ event_types: ['message.lost'] }, 'event_types[0]'],
    [{ description: {} }, 'description'],
    [{ headers: [] }, 'headers'],
    [{ client_certificate: {} }, 'client_certificate.certificate'],
  ] as ReadonlyArray<readonly [JsonObject, string]>)('refuses the form of %j', (body, param) => {
    expect(outcome(decodeWebhookEndpointUpdate(body))).toBe(`invalid_parameter ${param}`)
  })
})

describe('decodeSecretRotation', () => {
  // Rules: SUB-19
  it('accepts a body without the member, and refuses another type', () => {
    expect(outcome(decodeSecretRotation({}))).toEqual({ expirePrevious: false })
    expect(outcome(decodeSecretRotation({ expire_previous: true }))).toEqual({ expirePrevious: true })
    for (const given of [null, 'true', 1]) {
      expect(outcome(decodeSecretRotation({ expire_previous: given }))).toBe(
        'invalid_parameter expire_previous',
      )
    }
  })
})

describe('decodeDeliveriesQuery', () => {
  const deliveries = (query: string) => outcome(decodeDeliveriesQuery(new URLSearchParams(query)))
  const event = 'evt_06e9c2v5k4r8x1m7n3p0q2s6tw'

  // Rules: SUB-31
  it('selects everything without filters, and decodes each filter', () => {
    expect(deliveries('')).toEqual({
      limit: 20,
      startingAfter: null,
      status: null,
      event: null,
      createdAfter: null,
      createdBefore: null,
    })
    expect(
      deliveries(
        `status=failed&event=${event}&created_after=2026-11-21T09:30:00.000Z&created_before=2026-11-22T09:30:00.000Z`,
      ),
    ).toMatchObject({
      status: 'failed',
      event: decodeId('evt', event),
      createdAfter: Date.parse('2026-11-21T09:30:00.000Z'),
      createdBefore: Date.parse('2026-11-22T09:30:00.000Z'),
    })
  })

  // Rules: SUB-31, LIST-8, GEN-5
  it.each(['status=lost', 'status=', 'event=msg_1', 'created_after=2026-11-21', 'created_before=now'])(
    'refuses %s',
    (query) => {
      expect(deliveries(query)).toBe(`invalid_parameter ${query.split('=')[0]}`)
    },
  )

  // Rules: LIST-7
  it('refuses a filter that occurs twice', () => {
    expect(deliveries('status=failed&status=failed')).toBe('invalid_parameter status')
  })
})

describe('list queries', () => {
  const list = (query: string) => outcome(decodeListQuery(new URLSearchParams(query)))
  const events = (query: string) => outcome(decodeEventsQuery(new URLSearchParams(query)))

  // Rules: LIST-2, HTTP-19
  it('have defaults, and ignore unknown parameters', () => {
    expect(list('')).toEqual({ limit: 20, startingAfter: null })
    expect(list('other=1&created_after=x')).toEqual({ limit: 20, startingAfter: null })
    expect(events('')).toEqual({
      limit: 100,
      startingAfter: null,
      createdAfter: null,
      types: [],
      message: null,
      batch: null,
    })
  })

  // Rules: EVT-13
  it('of events accept a message or a batch', () => {
    const message = 'msg_06e9c2v5k4r8x1m7n3p0q2s6tw'
    const batch = 'bat_06e9c2v5k4r8x1m7n3p0q2s6tw'
    expect(events(`message=${message}`)).toMatchObject({ message: decodeId('msg', message), batch: null })
    expect(events(`batch=${batch}`)).toMatchObject({ message: null, batch: decodeId('bat', batch) })
    expect(events(`message=${message}&batch=${batch}`)).toBe('invalid_parameter batch')
    expect(events(`message=${batch}`)).toBe('invalid_parameter message')
    expect(events('batch=')).toBe('invalid_parameter batch')
  })

  // Rules: LIST-2, LIST-3
  it('enforce their limits', () => {
    expect(list('limit=1')).toMatchObject({ limit: 1 })
    expect(list('limit=100')).toMatchObject({ limit: 100 })
    expect(events('limit=1000')).toMatchObject({ limit: 1000 })
    for (const limit of ['0', '101', '-1', '+5', '1.0', '1e2', '', ' 5', '05', 'a', '٣', '9'.repeat(400)]) {
      expect(list(`limit=${encodeURIComponent(limit)}`)).toBe('invalid_parameter limit')
    }
    expect(events('limit=1001')).toBe('invalid_parameter limit')
    expect(list('limit=5&limit=5')).toBe('invalid_parameter limit')
  })

  // Rules: LIST-7
  it('accept at most one cursor', () => {
    expect(list('starting_after=we_1')).toEqual({ limit: 20, startingAfter: 'we_1' })
    expect(list('starting_after=we_1&starting_after=we_2')).toBe('invalid_parameter starting_after')
    expect(events('starting_after=evt_1&created_after=2026-11-21T09:30:00.000Z')).toBe(
      'invalid_parameter created_after',
    )
    expect(events('created_after=2026-11-21T09:30:00.000Z&created_after=2026-11-21T09:30:00.000Z')).toBe(
      'invalid_parameter created_after',
    )
  })

  // Rules: GEN-5
  it('accept timestamps in the API format', () => {
    expect(events('created_after=2026-11-21T09:30:00.001Z')).toMatchObject({
      createdAfter: Date.UTC(2026, 10, 21, 9, 30, 0, 1),
    })
    for (const moment of [
      '',
      '2026-11-21',
      '2026-11-21T09:30:00Z',
      '2026-11-21T09:30:00.000',
      '2026-02-30T00:00:00.000Z',
      '1',
    ]) {
      expect(events(`created_after=${moment}`)).toBe('invalid_parameter created_after')
    }
  })

  // Rules: EVT-12
  it('deduplicate types, and refuse unknown ones', () => {
    expect(events('type=message.sent&type=message.seen&type=message.sent')).toMatchObject({
      types: ['message.sent', 'message.seen'],
    })
    expect(events('type=message.sent&type=nothing')).toBe('invalid_parameter type')
    expect(events('type=')).toBe('invalid_parameter type')
  })

  it('answer arbitrary queries with codes of the catalogue', () => {
    const name = fc.constantFrom('limit', 'starting_after', 'created_after', 'type', '__proto__')
    const value = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.nat(2000).map(String),
      fc.constantFrom(...EVENT_TYPES),
    )
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value)), (pairs) => {
        const result = decodeEventsQuery(new URLSearchParams(pairs))
        if (Result.isFailure(result)) expect(result.failure.code).toBe('invalid_parameter')
        else expect(result.success.startingAfter === null || result.success.createdAfter === null).toBe(true)
      }),
    )
  })
})

describe('decodeMessagesQuery', () => {
  const messages = (query: string) => outcome(decodeMessagesQuery(new URLSearchParams(query)))

  const ANY = { status: null, class: null, template: null, createdAfter: null, createdBefore: null }

  // Rules: MSG-41, LIST-2
  it('lists a batch, the message of a client_ref, or the newest messages', () => {
    expect(messages('batch=bat_1')).toEqual({ by: 'batch', batch: 'bat_1', limit: 100, startingAfter: null })
    expect(messages('batch=bat_1&limit=1000&starting_after=msg_1')).toEqual({
      by: 'batch',
      batch: 'bat_1',
      limit: 1000,
      startingAfter: 'msg_1',
    })
    expect(messages('client_ref=order-1')).toMatchObject({ by: 'client_ref', clientRef: 'order-1' })
    for (const query of ['', 'Batch=bat_1', 'to=%2B79001234567']) {
      expect(messages(query)).toEqual({ by: 'newest', filter: ANY, limit: 20, startingAfter: null })
    }
  })

  // Source: LIST-2: 1–100, default 20; only the messages of a batch have larger pages.
  // Rules: LIST-2
  it.each(['', 'client_ref=order-1', 'status=sent'])('has the page of all lists with "%s"', (query) => {
    expect(messages(query)).toMatchObject({ limit: 20 })
    expect(messages(`${query}&limit=100`)).toMatchObject({ limit: 100 })
    expect(messages(`${query}&limit=101`)).toBe('invalid_parameter limit')
  })

  // Rules: MSG-37
  it('combines the filters of the newest messages', () => {
    const moment = '2026-11-21T09:30:00.000Z'
    expect(
      messages(
        `status=expired&class=otp&template=otp_code&created_after=${moment}&created_before=${moment}&limit=2`,
      ),
    ).toEqual({
      by: 'newest',
      filter: {
        status: 'expired',
        class: 'otp',
        template: 'otp_code',
        createdAfter: Date.parse(moment),
        createdBefore: Date.parse(moment),
      },
      limit: 2,
      startingAfter: null,
    })
  })

  // Rules: MSG-40, LIST-7, LIST-8
  it.each([
    ['batch=a&batch=b', 'batch'],
    ['batch=a&client_ref=b', 'client_ref'],
    ['batch=a&class=otp', 'class'],
    ['client_ref=a&status=sent', 'status'],
    ['client_ref=', 'client_ref'],
    [`client_ref=${'a'.repeat(129)}`, 'client_ref'],
    ['client_ref=a%00', 'client_ref'],
    ['status=open', 'status'],
    ['status=sent&status=sent', 'status'],
    ['class=OTP', 'class'],
    ['template=A', 'template'],
    ['created_after=2026-11-21', 'created_after'],
    ['created_before=0', 'created_before'],
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['batch=bat_1&limit=1001', 'limit'],
    ['starting_after=a&starting_after=b', 'starting_after'],
  ])('refuses %s, and names %s', (query, param) => {
    expect(messages(query)).toBe(`invalid_parameter ${param}`)
  })

  it('does not check whether the batch exists', () => {
    expect(messages('batch=')).toMatchObject({ batch: '' })
  })
})

describe('decodeStatsQuery', () => {
  const TODAY = '2026-11-21'
  const stats = (query: string, today = TODAY) => outcome(decodeStatsQuery(new URLSearchParams(query), today))

  // Rules: STAT-2
  it('defaults to the current month without groups', () => {
    expect(stats('')).toEqual({ from: '2026-11-01', to: TODAY, groupBy: null })
    expect(stats('', '2026-12-01')).toEqual({ from: '2026-12-01', to: '2026-12-01', groupBy: null })
    expect(stats('other=1')).toEqual({ from: '2026-11-01', to: TODAY, groupBy: null })
  })

  // Rules: STAT-2
  it('accepts one end alone', () => {
    expect(stats('from=2026-03-05')).toMatchObject({ from: '2026-03-05', to: TODAY })
    expect(stats('to=2026-02-10')).toMatchObject({ from: '2026-02-01', to: '2026-02-10' })
    expect(stats('from=2026-11-22')).toBe('invalid_parameter from')
  })

  it('accepts a single day and future days', () => {
    expect(stats('from=2026-11-21&to=2026-11-21')).toMatchObject({ from: TODAY, to: TODAY })
    expect(stats('from=2027-01-01&to=2027-01-02')).toMatchObject({ from: '2027-01-01' })
  })

  // Rules: STAT-3
  it('covers at most 366 days, including both ends', () => {
    expect(stats('from=2024-01-01&to=2024-12-31')).toMatchObject({ from: '2024-01-01' })
    expect(stats('from=2025-01-01&to=2026-01-01')).toMatchObject({ from: '2025-01-01' })
    expect(stats('from=2025-01-01&to=2026-01-02')).toBe('invalid_parameter from')
    expect(stats('from=0001-01-01')).toBe('invalid_parameter from')
  })

  // Rules: STAT-3
  it('refuses a from after to', () => {
    expect(stats('from=2026-11-21&to=2026-11-20')).toBe('invalid_parameter from')
  })

  // Rules: STAT-3
  it.each([
    '',
    '2026-11',
    '2026-11-31',
    '2026-02-29',
    '2026-13-01',
    '2026-00-10',
    '0000-01-01',
    '2026-11-21T00:00:00.000Z',
    '21.11.2026',
    ' 2026-11-21',
    '2026-11-21\n',
    '12026-11-21',
  ])('refuses the day %j', (day) => {
    const given = encodeURIComponent(day)
    expect(stats(`from=${given}`)).toBe('invalid_parameter from')
    expect(stats(`to=${given}`)).toBe('invalid_parameter to')
    expect(stats(`from=${given}&to=x&group_by=x`)).toBe('invalid_parameter from')
  })

  // Rules: STAT-5
  it('accepts one known grouping', () => {
    for (const groupBy of ['day', 'class', 'template', 'range']) {
      expect(stats(`group_by=${groupBy}`)).toMatchObject({ groupBy })
    }
    for (const query of [
      'group_by=',
      'group_by=month',
      'group_by=day&group_by=day',
      'group_by=constructor',
    ]) {
      expect(stats(query)).toBe('invalid_parameter group_by')
    }
    expect(stats('from=2026-11-01&from=2026-11-01')).toBe('invalid_parameter from')
    expect(stats('to=2026-11-21&to=2026-11-21')).toBe('invalid_parameter to')
  })

  it('answers arbitrary queries, with days that PostgreSQL accepts', () => {
    const day = fc
      .date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
      .map((date) => date.toISOString().slice(0, 10))
    const value = fc.oneof(day, day, fc.string({ unit: 'binary' }), fc.constantFrom('day', 'class'))
    const name = fc.constantFrom('from', 'to', 'group_by', '__proto__')
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value), { maxLength: 4 }), day, (pairs, today) => {
        const result = decodeStatsQuery(new URLSearchParams(pairs), today)
        if (Result.isFailure(result)) {
          expect(result.failure.code).toBe('invalid_parameter')
          return
        }
        const { from, to } = result.success
        const days = (Date.parse(to) - Date.parse(from)) / 86_400_000 + 1
        expect(days).toBeGreaterThanOrEqual(1)
        expect(days).toBeLessThanOrEqual(366)
        expect(new Date(from).toISOString().slice(0, 10)).toBe(from)
      }),
    )
  })
})

describe('decodeIdempotencyKey', () => {
  const latin1 = (text: string) => Buffer.from(text, 'utf8').toString('latin1')

  // Rules: IDEM-2
  it('accepts up to 255 characters, counted as UTF-8 if valid', () => {
    expect(outcome(decodeIdempotencyKey(undefined))).toBe(null)
    expect(outcome(decodeIdempotencyKey('a'.repeat(255)))).toBe('a'.repeat(255))
    expect(outcome(decodeIdempotencyKey(latin1('я'.repeat(255))))).toBe(latin1('я'.repeat(255)))
    expect(outcome(decodeIdempotencyKey('\u00ff'.repeat(255)))).toBe('\u00ff'.repeat(255))
  })

  // Rules: IDEM-2
  it('refuses an empty key and a longer key with different codes', () => {
    expect(outcome(decodeIdempotencyKey(''))).toBe('invalid_parameter Idempotency-Key')
    expect(outcome(decodeIdempotencyKey('a'.repeat(256)))).toBe('idempotency_key_reused Idempotency-Key')
    expect(outcome(decodeIdempotencyKey(latin1('я'.repeat(256))))).toBe(
      'idempotency_key_reused Idempotency-Key',
    )
  })
})
