import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { describe, expect, it } from 'vitest'
import { enable, healthy, applyAttempt, type FailureStreak } from './health.ts'
import { nextAttemptAt, RETRY_WINDOW_MS, retryInterval, retryWindowExpired } from './retry.ts'
import {
  SIGNATURE_TOLERANCE_SECONDS,
  signatureHeader,
  standardKey,
  standardSignature,
  verifySignature,
} from './signature.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** The middle of the jitter range: no jitter. */
const MIDDLE = 0.5
const anyRandom = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

describe('the retry schedule', () => {
  // Rules: DEL-16
  it('is 1, 2, 4, 8, 16, 32, 60, 60 … minutes', () => {
    const minutes = Array.from({ length: 9 }, (_, i) => retryInterval(i + 1, MIDDLE) / MINUTE)
    expect(minutes).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60])
    expect(retryInterval(2000, MIDDLE)).toBe(HOUR)
  })

  // Rules: DEL-16
  it('has a jitter of ten percent in both directions', () => {
    expect(retryInterval(1, 0)).toBe(54_000)
    expect(retryInterval(1, 1)).toBe(66_000)
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), anyRandom, (attempt, random) => {
        const exact = retryInterval(attempt, MIDDLE)
        expect(Math.abs(retryInterval(attempt, random) - exact)).toBeLessThanOrEqual(exact / 10)
      }),
    )
  })

  // Rules: DEL-17
  it('ends 24 hours after the batch was first queued', () => {
    const queuedAt = 1_000_000
    const last = queuedAt + RETRY_WINDOW_MS - 1
    const failure = { attempt: 20, queuedAt, random: MIDDLE }
    expect(nextAttemptAt({ ...failure, failedAt: last - HOUR })).toBe(last)
    expect(nextAttemptAt({ ...failure, failedAt: last - HOUR + 1 })).toBeNull()
    expect(retryWindowExpired(queuedAt, last)).toBe(false)
    expect(retryWindowExpired(queuedAt, last + 1)).toBe(true)
    expect(RETRY_WINDOW_MS).toBe(24 * HOUR)
  })

  it('always ends, with attempts within the window and in increasing order', () => {
    fc.assert(
      fc.property(fc.array(anyRandom, { minLength: 40, maxLength: 40 }), (randoms) => {
        let at = 0
        let attempts = 0
        for (const random of randoms) {
          attempts++
          const next = nextAttemptAt({ attempt: attempts, queuedAt: 0, failedAt: at, random })
          if (next === null) break
          expect(next).toBeGreaterThan(at)
          expect(next).toBeLessThan(RETRY_WINDOW_MS)
          at = next
        }
        // One hour of doubling intervals and 23 hourly attempts give 29. The jitter adds or removes
        // up to three.
        expect(attempts).toBeGreaterThanOrEqual(26)
        expect(attempts).toBeLessThanOrEqual(32)
        expect(at).toBeGreaterThan(RETRY_WINDOW_MS - 1.1 * HOUR - 1)
      }),
    )
  })
})

describe('the signature', () => {
  const secret = 'whsec_c2VjcmV0IG9mIGEgc3Vic2NyaXB0aW9uLCAzMiBieXRlcw=='
  const previous = 'whsec_dGhlIHNlY3JldCBvZiB5ZXN0ZXJkYXksIDMyIGJ5dGVzLi4='
  const body = Buffer.from('[{"id":"evt_1","client_ref":"заказ 😀"}]')
  const t = 1_800_000_000

  // Rules: DEL-8
  it('is the hexadecimal HMAC-SHA-256 of time, full stop and raw body, keyed with the whole secret', () => {
    const expected = createHmac('sha256', secret)
      .update(`${t}.[{"id":"evt_1","client_ref":"заказ 😀"}]`)
      .digest('hex')
    expect(signatureHeader([secret], t, body)).toBe(`t=${t},v1=${expected}`)
  })

  // Rules: DEL-8, DEL-9
  it('equals the signature of another implementation', () => {
    const stripe = Stripe.webhooks
    for (const secrets of [[secret], [secret, previous]] as const) {
      const header = signatureHeader(secrets, t, body)
      for (const known of secrets) {
        expect(stripe.constructEvent(body, header, known, 300, undefined, t * 1000)).toEqual(
          JSON.parse(body.toString()),
        )
      }
      expect(() => stripe.constructEvent(body, header, 'whsec_other', 300, undefined, t * 1000)).toThrow()
    }
    expect(
      verifySignature(
        stripe.generateTestHeaderString({ payload: body.toString(), secret, timestamp: t }),
        [secret],
        body,
        t,
      ),
    ).toBe(true)
  })

  // Rules: DEL-9
  it('has two parts during a rotation, and a match of either is enough', () => {
    const header = signatureHeader([secret, previous], t, body)
    expect(header).toMatch(/^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/)
    expect(verifySignature(header, [secret], body, t)).toBe(true)
    expect(verifySignature(header, [previous], body, t)).toBe(true)
    expect(verifySignature(header, ['whsec_other'], body, t)).toBe(false)
  })

  it('covers a body that is no valid text', () => {
    const bytes = Uint8Array.of(0, 255, 254, 10)
    expect(verifySignature(signatureHeader([secret], t, bytes), [secret], bytes, t)).toBe(true)
    expect(
      verifySignature(signatureHeader([secret], t, bytes), [secret], Uint8Array.of(0, 255, 253, 10), t),
    ).toBe(false)
  })

  // Rules: DEL-10
  it('is valid for five minutes in both directions', () => {
    const header = signatureHeader([secret], t, body)
    for (const skew of [-SIGNATURE_TOLERANCE_SECONDS, 0, SIGNATURE_TOLERANCE_SECONDS]) {
      expect(verifySignature(header, [secret], body, t + skew)).toBe(true)
    }
    for (const skew of [-SIGNATURE_TOLERANCE_SECONDS - 1, SIGNATURE_TOLERANCE_SECONDS + 1]) {
      expect(verifySignature(header, [secret], body, t + skew)).toBe(false)
    }
  })

  it('is not valid if malformed', () => {
    const good = signatureHeader([secret], t, body)
    const v1 = good.split(',')[1]!
    for (const header of [
      '',
      't=',
      `t=${t}`,
      v1,
      `t=NaN,${v1}`,
      `t=${t},v1=`,
      `t=${t},v1=zz`,
      `t=${t},v0=${v1.slice(3)}`,
      `t=0${t},${v1}`,
    ]) {
      expect(verifySignature(header, [secret], body, t)).toBe(false)
    }
  })

  it('is invalid after any change of body, time or secret', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.uint8Array({ maxLength: 64 }), (signed, received) => {
        const header = signatureHeader([secret], t, signed)
        expect(verifySignature(header, [secret], received, t)).toBe(Buffer.compare(signed, received) === 0)
        expect(verifySignature(header.replace(`t=${t}`, `t=${t + 1}`), [secret], signed, t)).toBe(false)
      }),
    )
  })
})

describe('the signature of Standard Webhooks', () => {
  // Rules: DEL-25
  it('is that of the example in the tests of its libraries', () => {
    const key = standardKey('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
    const body = Buffer.from('{"test": 2432232314}')
    expect(standardSignature([key], 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330, body)).toBe(
      'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    )
  })

  // Rules: DEL-25, DEL-26
  it('equals the signatures of the library for each secret, whatever the body', () => {
    const anySecret = fc
      .uint8Array({ minLength: 1, maxLength: 64 })
      .map((bytes) => `whsec_${Buffer.from(bytes).toString('base64')}`)
    fc.assert(
      fc.property(
        fc.array(anySecret, { minLength: 1, maxLength: 3 }),
        fc.json(),
        fc.integer({ min: 1, max: 4_000_000_000 }),
        (secrets, body, t) => {
          const theirs = secrets.map((secret) => new Webhook(secret).sign('evb_1', new Date(t * 1000), body))
          expect(standardSignature(secrets.map(standardKey), 'evb_1', t, Buffer.from(body))).toBe(
            theirs.join(' '),
          )
        },
      ),
    )
  })
})

describe('a subscription', () => {
  /** Applies a number of failures, evenly spread over a duration. */
  const failing = (count: number, over: number) => {
    let health: FailureStreak = healthy
    let disabledAfter: number | null = null
    for (let i = 0; i < count; i++) {
      const decision = applyAttempt(health, { succeeded: false, at: Math.round((over * i) / (count - 1)) })
      health = decision.health
      if (decision.action === 'disable') disabledAfter ??= i + 1
    }
    return { health, disabledAfter }
  }

  // Rules: DEL-19
  it('is disabled by twenty consecutive failures over at least an hour', () => {
    expect(failing(20, HOUR)).toEqual({
      health: { status: 'disabled_by_failures', consecutiveFailures: 20, firstFailureAt: 0 },
      disabledAfter: 20,
    })
  })

  // Rules: DEL-19
  it('is not disabled by nineteen failures over any duration', () => {
    expect(failing(19, 24 * HOUR).health.status).toBe('enabled')
  })

  // Rules: DEL-19
  it('is not disabled within an hour by any number of failures', () => {
    expect(failing(1000, HOUR - 1).health.status).toBe('enabled')
  })

  it('is disabled by the first failure that reaches both limits', () => {
    expect(failing(61, HOUR).disabledAfter).toBe(61)
    expect(failing(40, 10 * HOUR).disabledAfter).toBe(20)
  })

  // Rules: DEL-18, DEL-19
  it('is healthy again after one success, which releases the backlog', () => {
    const { health } = failing(19, HOUR)
    expect(applyAttempt(health, { succeeded: true, at: HOUR })).toEqual({
      health: healthy,
      action: 'releaseBacklog',
    })
    expect(applyAttempt(healthy, { succeeded: true, at: HOUR })).toEqual({ health: healthy, action: 'none' })
  })

  it('counts failures from the last success', () => {
    const { health } = failing(19, HOUR)
    const recovered = applyAttempt(health, { succeeded: true, at: HOUR }).health
    expect(applyAttempt(recovered, { succeeded: false, at: 2 * HOUR })).toEqual({
      health: { status: 'enabled', consecutiveFailures: 1, firstFailureAt: 2 * HOUR },
      action: 'none',
    })
  })

  it('is disabled once: attempts that end later change nothing, not even successes', () => {
    const { health } = failing(20, HOUR)
    for (const succeeded of [true, false]) {
      expect(applyAttempt(health, { succeeded, at: 2 * HOUR })).toEqual({ health, action: 'none' })
    }
  })

  // Rules: SUB-20
  it('is enabled on request, which releases the backlog', () => {
    const { health } = failing(20, HOUR)
    expect(enable(health)).toEqual({ health: healthy, action: 'releaseBacklog' })
  })

  // Rules: SUB-21
  it('keeps its failure count if it is enabled while enabled', () => {
    const { health } = failing(5, HOUR)
    expect(enable(health)).toEqual({ health, action: 'none' })
  })

  // Rules: DEL-19
  it('is disabled exactly when both limits are reached, after any history', () => {
    const anyAttempts = fc.array(
      fc.tuple(
        fc.nat({ max: 99 }).map((n) => n > 2),
        fc.nat({ max: 6 * MINUTE }),
      ),
      {
        maxLength: 120,
        size: 'max',
      },
    )
    fc.assert(
      fc.property(anyAttempts, (attempts) => {
        let health: FailureStreak = healthy
        let at = 0
        /**
         * The times of the failures since the last success, to compute the rule directly from its
         * definition.
         */
        let run: Array<number> = []
        for (const [failed, later] of attempts) {
          at += later
          run = failed ? [...run, at] : []
          const decision = applyAttempt(health, { succeeded: !failed, at })
          const reached = run.length >= 20 && at - run[0]! >= HOUR
          expect(decision.action === 'disable').toBe(reached)
          expect(decision.health.consecutiveFailures).toBe(run.length)
          if (reached) return
          health = decision.health
        }
      }),
    )
  })
})
