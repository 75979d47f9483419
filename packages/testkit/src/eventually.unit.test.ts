import { describe, expect, it } from 'vitest'
import { eventually } from './eventually.ts'

describe('eventually', () => {
  it('returns the first result that is neither a failure nor false, null or undefined', async () => {
    const results: Array<() => string | false | null | undefined> = [
      () => false,
      () => null,
      () => undefined,
      () => {
        throw new Error('not yet')
      },
      () => 'here',
    ]
    let checks = 0
    const result = await eventually(() => results[checks++]?.(), { withinMs: 10_000, everyMs: 0 })
    expect(result).toBe('here')
    expect(checks).toBe(5)
  })

  it('throws the last failure when the time limit is reached', async () => {
    const never = eventually(
      () => {
        throw new Error('still wrong')
      },
      { withinMs: 5, everyMs: 1 },
    )
    await expect(never).rejects.toThrow('still wrong')
    await expect(eventually(() => false, { withinMs: 5, everyMs: 1 })).rejects.toThrow(
      'the condition was still false after 5 ms',
    )
  })

  it('accepts zero and the empty string as results', async () => {
    expect(await eventually(() => 0, { withinMs: 5 })).toBe(0)
    expect(await eventually(() => '', { withinMs: 5 })).toBe('')
  })
})
