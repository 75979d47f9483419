import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { Stripe } from 'stripe'
import { describe, expect, it } from 'vitest'
import {
  headersForTest,
  readEvents,
  signForTest,
  TOLERANCE_SECONDS,
  type VerifyOptions,
  WebhookSignatureError,
} from './signature.ts'

const SECRET = 'whsec_c2VjcmV0IG9mIGEgc3Vic2NyaXB0aW9uLCAzMiBieXRlcw=='
const PREVIOUS = 'whsec_dGhlIHNlY3JldCBvZiB5ZXN0ZXJkYXksIDMyIGJ5dGVzLi4='
const T = 1_800_000_000
const NOW = T * 1000
const BODY = Buffer.from('[{"id":"evt_1","client_ref":"заказ 😀"}]')

const v1 = (secret: string, body: Uint8Array = BODY, t: number | string = T): string =>
  `v1=${createHmac('sha256', secret).update(`${t}.`).update(body).digest('hex')}`

/** The problem, or `null`. */
const problem = async (
  header: string | ReadonlyArray<string> | null | undefined,
  secret: string | ReadonlyArray<string> = SECRET,
  body: unknown = BODY,
  options: VerifyOptions = {},
): Promise<string | null> => {
  try {
    await readEvents(body as Uint8Array, header, secret, { now: NOW, ...options })
    return null
  } catch (error) {
    if (error instanceof WebhookSignatureError) return error.code
    throw error
  }
}

describe('a signature', () => {
  // Rules: DEL-8
  it('over the raw bytes with the whole secret is valid, for bytes, a buffer and a text', async () => {
    const header = `t=${T},${v1(SECRET)}`
    expect(await problem(header)).toBeNull()
    expect(await problem(header, SECRET, new Uint8Array(BODY))).toBeNull()
    expect(await problem(header, SECRET, new Uint8Array(BODY).buffer)).toBeNull()
    expect(await problem(header, SECRET, BODY.toString())).toBeNull()
    expect(await problem([`t=${T}`, v1(SECRET)])).toBeNull()
  })

  it('covers bytes that are not a text', async () => {
    const bytes = Uint8Array.of(0, 255, 254, 10)
    expect(await problem(`t=${T},${v1(SECRET, bytes)}`, SECRET, bytes)).toBe('body_malformed')
    expect(await problem(`t=${T},${v1(SECRET, bytes)}`, SECRET, Uint8Array.of(0, 255, 253, 10))).toBe(
      'no_match',
    )
  })

  // Rules: DEL-9
  it('is valid with each of three secrets that sign, in the library and in the code of the documentation', async () => {
    const page = readFileSync(new URL('../../../docs/webhooks.md', import.meta.url), 'utf8')
    const [, code = ''] = /```js\n(?<code>[^`]*(?:`[^`]+`[^`]*)*?)```/u.exec(page) ?? []
    const documented = (await import(
      `data:text/javascript,${encodeURIComponent(`${code}\nexport { isFromHub }`)}`
    )) as { isFromHub: (header: string, body: Uint8Array, secrets: ReadonlyArray<string>) => boolean }
    const time = Math.floor(Date.now() / 1000)
    const signing = [SECRET, PREVIOUS, 'whsec_older']
    const header = `t=${time},${signing.map((secret) => v1(secret, BODY, time)).join(',')}`
    for (const secret of signing) {
      expect(await problem(header, secret, BODY, { now: time * 1000 })).toBeNull()
      expect(documented.isFromHub(header, BODY, [secret])).toBe(true)
    }
    expect(await problem(header, 'whsec_other', BODY, { now: time * 1000 })).toBe('no_match')
    expect(documented.isFromHub(header, BODY, ['whsec_other'])).toBe(false)
    expect(documented.isFromHub(header, Buffer.from('[]'), signing)).toBe(false)
    expect(documented.isFromHub(`t=${time - 301},${v1(SECRET, BODY, time - 301)}`, BODY, signing)).toBe(false)
  })

  it('during a rotation is valid with either secret', async () => {
    const both = `t=${T},${v1(SECRET)},${v1(PREVIOUS)}`
    for (const secret of [SECRET, PREVIOUS, [PREVIOUS, SECRET], ['whsec_other', PREVIOUS]]) {
      expect(await problem(both, secret)).toBeNull()
    }
    expect(await problem(`t=${T},${v1(PREVIOUS)}`, [SECRET, PREVIOUS])).toBeNull()
    expect(await problem(both, 'whsec_other')).toBe('no_match')
  })

  it('without a secret is refused with a message that explains it', async () => {
    for (const secret of ['', [], ['']]) {
      expect(await problem(`t=${T},${v1('')}`, secret)).toBe('secret_missing')
    }
    expect(await problem(`t=${T},${v1(SECRET)}`, [SECRET, ''])).toBeNull()
    expect(new WebhookSignatureError('secret_missing').message).toContain('variable')
  })

  // Rules: DEL-10
  it('is valid for five minutes into the past and the future', async () => {
    const at = (seconds: number, options: VerifyOptions = {}) =>
      problem(`t=${T},${v1(SECRET)}`, SECRET, BODY, { now: NOW + seconds * 1000, ...options })
    expect(TOLERANCE_SECONDS).toBe(300)
    for (const seconds of [-300, -299.999, 0, 299.999, 300, 300.999])
      expect(await at(seconds), String(seconds)).toBeNull()
    for (const seconds of [301, 3600]) expect(await at(seconds)).toBe('timestamp_too_old')
    for (const seconds of [-301, -3600]) expect(await at(seconds)).toBe('timestamp_too_new')
    expect(await at(11, { toleranceSeconds: 10 })).toBe('timestamp_too_old')
    expect(await at(-11, { toleranceSeconds: 10 })).toBe('timestamp_too_new')
    expect(await at(10, { toleranceSeconds: 10 })).toBeNull()
  })

  it('that does not match is reported as such, whatever its age', async () => {
    expect(await problem(`t=1,${v1(SECRET)}`)).toBe('no_match')
  })

  it.each([
    [undefined, 'header_missing'],
    [null, 'header_missing'],
    ['', 'header_missing'],
    ['nonsense', 'header_malformed'],
    [`t=${T}`, 'header_malformed'],
    [v1(SECRET), 'header_malformed'],
    [`t=,${v1(SECRET)}`, 'header_malformed'],
    [`t=NaN,${v1(SECRET)}`, 'header_malformed'],
    [`t=-${T},${v1(SECRET)}`, 'header_malformed'],
    [`t=0${T},${v1(SECRET)}`, 'header_malformed'],
    [`t=${T}.0,${v1(SECRET)}`, 'header_malformed'],
    [`t=1e9,${v1(SECRET)}`, 'header_malformed'],
    [`t=${T},t=${T},${v1(SECRET)}`, 'header_malformed'],
    [`t=${T},v1=`, 'header_malformed'],
    [`t=${T},v1=zz`, 'header_malformed'],
    [`t=${T},${v1(SECRET).toUpperCase()}`, 'header_malformed'],
    [`t=${T},v0=${v1(SECRET).slice(3)}`, 'header_malformed'],
    [`t=${T},v2=anything,${v1(SECRET)}`, null],
    [` t=${T} , ${v1(SECRET)} `, null],
  ])('%j is %s', async (header, expected) => {
    expect(await problem(header)).toBe(expected)
  })

  it('of a parsed body is refused with a message that explains it', async () => {
    const header = `t=${T},${v1(SECRET)}`
    for (const body of [JSON.parse(BODY.toString()), {}, null, 5]) {
      expect(await problem(header, SECRET, body)).toBe('body_not_raw')
    }
    expect(new WebhookSignatureError('body_not_raw').message).toContain('raw bytes')
  })

  it('reveals nothing of the secret or the body when it is refused', async () => {
    try {
      await readEvents(BODY, `t=${T},${v1('whsec_other')}`, SECRET, { now: NOW })
      expect.unreachable()
    } catch (error) {
      const told = `${String(error)} ${JSON.stringify(error)}`
      expect(told).not.toContain(SECRET)
      expect(told).not.toContain('evt_1')
      expect(error).toMatchObject({ name: 'WebhookSignatureError', code: 'no_match' })
    }
  })
})

describe('readEvents', () => {
  const read = async (body: Uint8Array | string) =>
    readEvents(body, await signForTest(body, SECRET, NOW), SECRET, { now: NOW })

  it('returns the events of a verified body', async () => {
    expect(await read(BODY)).toEqual([{ id: 'evt_1', client_ref: 'заказ 😀' }])
    expect(await read('[]')).toEqual([])
  })

  it('refuses a signed body that is not an array', async () => {
    for (const body of ['{}', 'null', '', '[', '"x"']) {
      await expect(read(body)).rejects.toThrow(expect.objectContaining({ code: 'body_malformed' }))
    }
  })

  it('refuses an unsigned body before parsing it', async () => {
    await expect(readEvents('[', 't=1', SECRET, { now: NOW })).rejects.toThrow(
      expect.objectContaining({ code: 'header_malformed' }),
    )
  })
})

describe('headersForTest', () => {
  it('makes what the libraries of Stripe and of Standard Webhooks verify, for a text and for bytes', async () => {
    for (const body of [BODY, BODY.toString()]) {
      const headers = await headersForTest(body, SECRET, 'evb_1')
      expect(headers).toMatchObject({ 'content-type': 'application/json', 'hub-event-id': 'evb_1' })
      expect(Stripe.webhooks.constructEvent(BODY, headers['hub-signature']!, SECRET)).toHaveLength(1)
      expect(new Webhook(SECRET).verify(BODY, headers)).toHaveLength(1)
      expect(() => new Webhook(PREVIOUS).verify(BODY, headers)).toThrow('No matching signature')
    }
  })
})

describe('compared with the Stripe library', () => {
  const stripe = Stripe.webhooks
  const stripeTakes = (body: Buffer, header: string, secret: string): boolean => {
    try {
      stripe.constructEvent(body, header, secret, 300, undefined, NOW)
      return true
    } catch {
      return false
    }
  }
  const anyBody = fc.json().map((text) => Buffer.from(`[${text}]`))
  const anySecret = fc.string({ minLength: 1, maxLength: 40 }).map((text) => `whsec_${text}`)

  it('each accepts the signatures of the other', async () => {
    await fc.assert(
      fc.asyncProperty(
        anyBody,
        anySecret,
        fc.integer({ min: -300, max: 300 }),
        async (body, secret, skew) => {
          const header = await signForTest(body, secret, NOW + skew * 1000)
          expect(stripeTakes(body, header, secret)).toBe(true)
          const theirs = stripe.generateTestHeaderString({
            payload: body.toString(),
            secret,
            timestamp: T + skew,
          })
          expect(await problem(theirs, secret, body)).toBeNull()
        },
      ),
    )
  })

  it('both refuse another body, secret, time or signature', async () => {
    const anyChange = fc.constantFrom(
      'none',
      'body',
      'secret',
      'time',
      'old',
      'signature',
      'second signature',
    )
    await fc.assert(
      fc.asyncProperty(anyBody, anySecret, anyChange, fc.nat(63), async (body, secret, change, digit) => {
        const header = await signForTest(body, secret, change === 'old' ? NOW - 301_000 : NOW)
        const [time = '', signature = ''] = header.split(',')
        const flipped = `${signature.slice(0, 3 + digit)}${signature[3 + digit] === '0' ? '1' : '0'}${signature.slice(4 + digit)}`
        const changed = {
          none: header,
          body: header,
          secret: header,
          old: header,
          time: `t=${T + 1},${signature}`,
          signature: `${time},${flipped}`,
          'second signature': `${time},${flipped},${signature}`,
        }[change]
        const received = change === 'body' ? Buffer.concat([body, Buffer.from(' ')]) : body
        const known = change === 'secret' ? `${secret}x` : secret
        const taken = (await problem(changed, known, received)) === null
        expect(taken).toBe(change === 'none' || change === 'second signature')
        expect(taken).toBe(stripeTakes(received, changed, known))
      }),
    )
  })
})
