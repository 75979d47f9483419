import { randomBytes, randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeId, encodeId, eventBatchId, eventId, factId, ID_PREFIXES, type IdPrefix, newId } from './id.ts'

const prefixes = Object.keys(ID_PREFIXES) as Array<IdPrefix>
const anyPrefix = fc.constantFrom(...prefixes)
const anyUuid = fc
  .uint8Array({ minLength: 16, maxLength: 16 })
  .map((bytes) => Buffer.from(bytes).toString('hex'))
  .map((h) => `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`)
const uuidVersion = (uuid: string) => Number.parseInt(uuid[14]!, 16)
const uuidVariant = (uuid: string) => Number.parseInt(uuid[19]!, 16) >> 2

/**
 * A simple reference implementation of base32: the UUID as one big number, in digits of five bits.
 */
const base32ByArithmetic = (uuid: string): string => {
  let number = BigInt(`0x${uuid.replaceAll('-', '')}`)
  let digits = ''
  for (let i = 0; i < 26; i++, number >>= 5n)
    digits = '0123456789abcdefghjkmnpqrstvwxyz'[Number(number & 31n)]! + digits
  return digits
}

describe('public ids', () => {
  // Rules: GEN-2
  it('have the prefixes of the contract', () => {
    const first = (id: string) => id.slice(0, id.indexOf('_'))
    const nil = '00000000-0000-0000-0000-000000000000'
    expect(prefixes.map((prefix) => first(encodeId(prefix, nil))).toSorted()).toEqual([
      'acc',
      'bat',
      'evb',
      'evt',
      'key',
      'msg',
      'req',
      'snd',
      'tpl',
      'we',
      'whd',
    ])
  })

  // Rules: GEN-1
  it('consist of the prefix and 26 lower-case characters of Crockford base32', () => {
    expect(encodeId('msg', '00000000-0000-0000-0000-000000000000')).toBe('msg_00000000000000000000000000')
    expect(encodeId('we', 'ffffffff-ffff-ffff-ffff-ffffffffffff')).toBe('we_7zzzzzzzzzzzzzzzzzzzzzzzzz')
    expect(encodeId('bat', '01890A5D-AC96-774B-BCCE-B302099A8057')).toBe('bat_01h455vb4pex5vsknk084sn02q')
    fc.assert(
      fc.property(anyPrefix, anyUuid, (prefix, uuid) => {
        expect(encodeId(prefix, uuid)).toBe(`${prefix}_${base32ByArithmetic(uuid)}`)
      }),
    )
  })

  it('decode to their UUID, and do not decode with another prefix', () => {
    fc.assert(
      fc.property(anyPrefix, anyPrefix, anyUuid, (prefix, other, uuid) => {
        expect(decodeId(prefix, encodeId(prefix, uuid))).toBe(uuid)
        if (other !== prefix) expect(decodeId(other, encodeId(prefix, uuid))).toBeNull()
      }),
    )
  })

  // Rules: GEN-1
  it('have exactly one spelling', () => {
    const id = fc.oneof(
      fc.string(),
      fc
        .string({
          unit: fc.constantFrom(...Array.from('0123456789abcdefghjkmnpqrstvwxyzILOilou_é')),
          minLength: 26,
          maxLength: 26,
        })
        .map((s) => `msg_${s}`),
      anyUuid.map((uuid) => encodeId('msg', uuid).toUpperCase()),
    )
    fc.assert(
      fc.property(id, (text) => {
        const uuid = decodeId('msg', text)
        if (uuid !== null) expect(encodeId('msg', uuid)).toBe(text)
      }),
    )
  })

  it.each([
    ['empty', ''],
    ['no digits', 'msg_'],
    ['more than 128 bits', 'msg_80000000000000000000000000'],
    ['upper case', 'msg_01H455VB4PEX5VSKNK084SN02Q'],
    ['a letter that is no digit', 'msg_01h455vb4pex5vsknk084sn02l'],
    ['one digit too many', 'msg_01h455vb4pex5vsknk084sn02q0'],
    ['one too few', 'msg_01h455vb4pex5vsknk084sn02'],
    ['another separator', 'msg-01h455vb4pex5vsknk084sn02q'],
    ['a character beyond ASCII', 'msg_01h455vb4pex5vsknk084sn02\u0434'],
    ['a trailing line feed', 'msg_01h455vb4pex5vsknk084sn02\n'],
  ])('are refused when malformed: %s', (_, id) => {
    expect(decodeId('msg', id)).toBeNull()
  })

  it.each(['', 'not a uuid', '01890a5dac96774bbcceb302099a8057', '01890a5d-ac96-774b-bcce-b302099a805g'])(
    'are not made from an invalid UUID: %s',
    (uuid) => {
      expect(() => encodeId('msg', uuid)).toThrow(RangeError)
    },
  )
})

describe('new ids', () => {
  // Rules: GEN-3
  it('are UUIDv7 that begin with the time and use every random byte', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 2 ** 48 - 1 }),
        fc.uint8Array({ minLength: 10, maxLength: 10 }),
        (now, random) => {
          const uuid = decodeId('msg', newId('msg', now, random))!
          expect(Number.parseInt(uuid.replaceAll('-', '').slice(0, 12), 16)).toBe(now)
          expect(uuidVersion(uuid)).toBe(7)
          expect(uuidVariant(uuid)).toBe(0b10)
        },
      ),
    )
    const of = (...random: Array<number>) => decodeId('msg', newId('msg', 0, Uint8Array.from(random)))
    expect(of(0xfa, 1, 0xc2, 3, 4, 5, 6, 7, 8, 9)).toBe('00000000-0000-7a01-8203-040506070809')
  })

  it('sort by time', () => {
    const random = () => randomBytes(10)
    const times = [0, 1, 2 ** 32 - 1, 2 ** 32, 1_800_000_000_000, 1_800_000_000_001, 2 ** 48 - 1]
    const ids = times.map((now) => newId('msg', now, random()))
    expect(ids.toSorted()).toEqual(ids)
  })

  it('need enough random bytes and a valid time', () => {
    expect(() => newId('msg', 0, new Uint8Array(9))).toThrow(RangeError)
    for (const now of [-1, 0.5, Number.NaN, 2 ** 48])
      expect(() => newId('msg', now, new Uint8Array(10))).toThrow(RangeError)
  })
})

describe('derived ids', () => {
  const message = newId('msg', 1_800_000_000_000, randomBytes(10))

  it('are equal for the same input and different for another', () => {
    const others = [factId(message, 'sent'), factId(message, 'delivered'), factId(`${message}0`, 'sent')]
    expect(new Set(others).size).toBe(3)
    expect(factId(message, 'sent')).toBe(others[0])
    expect(eventId('a')).toBe(eventId('a'))
    expect(eventId('a')).not.toBe(eventId('b'))
  })

  // Rules: GEN-3
  it('are UUIDv5', () => {
    for (const uuid of [
      factId(message, 'sent'),
      decodeId('evt', eventId('x'))!,
      decodeId('evb', eventBatchId('we_1', 'evt_1', 3))!,
    ]) {
      expect(uuidVersion(uuid)).toBe(5)
      expect(uuidVariant(uuid)).toBe(0b10)
    }
  })

  // Rules: GEN-3, DEL-7
  it('never change, because existing records contain them', () => {
    expect(factId('msg_01h455vb4pex5vsknk084sn02q', 'sent')).toMatchInlineSnapshot(
      `"2027a65f-47fe-5904-b437-1a03af7782cb"`,
    )
    expect(eventId('msg_01h455vb4pex5vsknk084sn02q message.sent')).toMatchInlineSnapshot(
      `"evt_25zps42789bq8r476vrkyh0xdb"`,
    )
    expect(
      eventBatchId('we_01h455vb4pex5vsknk084sn02q', 'evt_01h455vb4pex5vsknk084sn02q', 7),
    ).toMatchInlineSnapshot(`"evb_7dr6c2nvceb258mtmre4vq8ynb"`)
  })

  it('of a webhook batch depend on subscription, first event, count and redelivery', () => {
    const ids = [
      eventBatchId('we_1', 'evt_1', 1),
      eventBatchId('we_2', 'evt_1', 1),
      eventBatchId('we_1', 'evt_2', 1),
      eventBatchId('we_1', 'evt_1', 2),
      eventBatchId('we_1', 'evt_1', 1, 'redelivery 1'),
    ]
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('do not depend on what was computed before them', () => {
    const expected = factId(message, 'sent')
    encodeId('msg', randomUUID())
    decodeId('msg', message)
    newId('msg', 5, randomBytes(10))
    expect(factId(message, 'sent')).toBe(expected)
  })
})
