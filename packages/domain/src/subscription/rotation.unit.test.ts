import { Result } from 'effect'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  MOST_SIGNING_SECRETS,
  rotateSecrets,
  SECRET_ROTATION_MS,
  type SigningSecrets,
  signingSecrets,
} from './rotation.ts'

const DAY = SECRET_ROTATION_MS
const HOUR = DAY / 24

const rotate = (
  secrets: SigningSecrets<string>,
  next: string,
  at: number,
  options: { readonly expirePrevious?: boolean; readonly transitionMs?: number } = {},
) => rotateSecrets(secrets, { next, at, transitionMs: DAY, expirePrevious: false, ...options })

const FIRST: SigningSecrets<string> = { current: 'first', earlier: [] }

describe('a rotation', () => {
  // Rules: SUB-16, SUB-17
  it('gives each replaced secret a day of its own', () => {
    const second = Result.getOrThrow(rotate(FIRST, 'second', 0))
    const third = Result.getOrThrow(rotate(second, 'third', 10 * HOUR))
    expect(signingSecrets(third, DAY - 1)).toEqual(['third', 'second', 'first'])
    expect(signingSecrets(third, DAY)).toEqual(['third', 'second'])
    expect(signingSecrets(third, DAY + 10 * HOUR - 1)).toEqual(['third', 'second'])
    expect(signingSecrets(third, DAY + 10 * HOUR)).toEqual(['third'])
  })

  // Rules: SUB-18
  it('that would need a fourth secret fails until the oldest transition has ended', () => {
    const second = Result.getOrThrow(rotate(FIRST, 'second', 0))
    const third = Result.getOrThrow(rotate(second, 'third', 10 * HOUR))
    expect(Result.getOrThrow(Result.flip(rotate(third, 'fourth', 20 * HOUR)))).toEqual({
      _tag: 'RotationInProgress',
      possibleAt: DAY,
    })
    const fourth = Result.getOrThrow(rotate(third, 'fourth', DAY))
    expect(signingSecrets(fourth, DAY)).toEqual(['fourth', 'third', 'second'])
  })

  // Rules: SUB-19
  it('that expires the earlier secrets leaves only the new one, and is always possible', () => {
    const second = Result.getOrThrow(rotate(FIRST, 'second', 0))
    const third = Result.getOrThrow(rotate(second, 'third', 1))
    const fourth = Result.getOrThrow(rotate(third, 'fourth', 2, { expirePrevious: true }))
    expect(fourth).toEqual({ current: 'fourth', earlier: [] })
  })

  // Rules: SUB-17
  it('never lets more than three secrets sign, and never ends a transition early', () => {
    const anyRotation = fc.record({
      waitMs: fc.nat({ max: 2 * DAY }),
      transitionMs: fc.integer({ min: 60_000, max: 2 * DAY }),
    })
    fc.assert(
      fc.property(fc.array(anyRotation, { maxLength: 12 }), (rotations) => {
        let secrets = FIRST
        let now = 0
        const ends = new Map<string, number>()
        for (const [index, { transitionMs, waitMs }] of rotations.entries()) {
          now += waitMs
          const rotated = rotate(secrets, `s${index}`, now, { transitionMs })
          if (Result.isSuccess(rotated)) {
            ends.set(secrets.current, now + transitionMs)
            secrets = rotated.success
          }
          const signing = signingSecrets(secrets, now)
          expect(signing.length).toBeLessThanOrEqual(MOST_SIGNING_SECRETS)
          const valid = [...ends].filter(([, end]) => end > now).map(([secret]) => secret)
          expect(new Set(signing)).toEqual(new Set([secrets.current, ...valid]))
        }
      }),
    )
  })
})
