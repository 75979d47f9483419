import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isRecipientNumber, maskNumber, numberRangeOf, recipientHash } from './recipient.ts'
import { sandboxScenario } from './sandbox.ts'

const anyNumber = fc.nat({ max: 999_999_999 }).map((n) => `+79${String(n).padStart(9, '0')}`)
const SECRET = 'a secret of the deployment, 32 characters at least'

describe('a recipient number', () => {
  // Rules: MSG-3
  it('consists of +79 and nine digits', () => {
    fc.assert(
      fc.property(anyNumber, (number) => {
        expect(isRecipientNumber(number)).toBe(true)
      }),
    )
  })

  // Rules: MSG-3
  it.each([
    '',
    '79001234567',
    '+7900123456',
    '+790012345678',
    '+78001234567',
    ' +79001234567',
    '+79001234567 ',
    '+79001234567\n',
    '+7 900 123 45 67',
    '+7900123456a',
    '+7900123456\u0663',
    '\uff0b79001234567',
  ])('rejects every other text, without trimming: %j', (number) => {
    expect(isRecipientNumber(number)).toBe(false)
  })

  // Rules: MSG-16
  it('is masked except for its first five and last four characters', () => {
    expect(maskNumber('+79001234567')).toBe('+7900***4567')
  })

  it('hides the characters between, and a text that is no number is hidden completely', () => {
    fc.assert(
      fc.property(anyNumber, (number) => {
        expect(maskNumber(number)).toHaveLength(12)
        expect(maskNumber(number).slice(5, 8)).toBe('***')
      }),
    )
    for (const text of ['', '123', '89001234567', 'Ivan Petrov']) expect(maskNumber(text)).toBe('***')
  })
})

describe('the number range', () => {
  it.each([
    ['+79120000001', '912'],
    ['+79001234567', '900'],
    ['+79991234567', '999'],
    // As the ledger stores it.
    ['+7912***4567', '912'],
  ])('of %s is %s', (number, range) => {
    expect(numberRangeOf(number)).toBe(range)
  })

  it('is known from the masked number alone', () => {
    fc.assert(
      fc.property(anyNumber, (number) => {
        expect(numberRangeOf(number)).toBe(number.slice(2, 5))
        expect(numberRangeOf(maskNumber(number))).toBe(number.slice(2, 5))
      }),
    )
  })

  it.each(['', '***', '+7912', '+77012345678', '+44 7911 123456', '+375291234567', '89121234567'])(
    'of %j is not known',
    (text) => {
      expect(numberRangeOf(text)).toBeNull()
    },
  )
})

describe('the recipient hash', () => {
  it('is the HMAC-SHA-256 of the number in hexadecimal', () => {
    // RFC 4231, test case 2.
    expect(recipientHash('Jefe', 'what do ya want for nothing?')).toBe(
      '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
    )
  })

  it('depends on the secret and differs from a plain SHA-256', () => {
    const number = '+79001234567'
    expect(recipientHash(SECRET, number)).toMatch(/^[0-9a-f]{64}$/)
    expect(recipientHash(SECRET, number)).toBe(recipientHash(Buffer.from(SECRET), number))
    expect(recipientHash(SECRET, number)).not.toBe(recipientHash(`${SECRET}.`, number))
    expect(recipientHash(SECRET, number)).not.toBe(createHash('sha256').update(number).digest('hex'))
  })
})

describe('sandboxScenario', () => {
  it.each([
    ['+79000000001', 'delivered'],
    ['+79000000002', 'recipient_unreachable'],
    ['+79000000003', 'recipient_nonexistent'],
    ['+79000000004', 'recipient_blocked'],
    ['+79000000005', 'rejected_at_submit'],
    ['+79000000006', 'rejected_by_report'],
    ['+79000000007', 'dlr_timeout'],
    ['+79000000008', 'silent'],
    ['+79000000009', 'anti_flood'],
    ['+79000000010', 'seen'],
    ['+79000000011', 'always_throttled'],
    ['+79000000012', 'silent_then_delivered'],
    ['+79000000013', 'opted_out'],
    ['+79000000014', 'delivered'],
    ['+79001234567', 'delivered'],
  ])('%s: %s', (number, scenario) => {
    expect(sandboxScenario(number)).toBe(scenario)
  })
})
