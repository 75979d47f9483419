import { describe, expect, it } from 'vitest'
import { eventually } from './eventually.ts'

describe('eventually', () => {
  it('answers what the check answers, once it neither fails nor says no', async () => {
    const answers: Array<() => string | false | null | undefined> = [
      () => false,
      () => null,
      () => undefined,
      () => {
        throw new Error('not yet')
      },
      () => 'here',
    ]
    let looks = 0
    const answer = await eventually(() => answers[looks++]?.(), { withinMs: 10_000, everyMs: 0 })
    expect(answer).toBe('here')
    expect(looks).toBe(5)
  })

  it('fails with the last failure when the time is over', async () => {
    const never = eventually(
      () => {
        throw new Error('nobody came')
      },
      { withinMs: 5, everyMs: 1 },
    )
    await expect(never).rejects.toThrow('nobody came')
    await expect(eventually(() => false, { withinMs: 5, everyMs: 1 })).rejects.toThrow(
      'the condition was still false after 5 ms',
    )
  })

  it('takes zero and the empty string for answers', async () => {
    expect(await eventually(() => 0, { withinMs: 5 })).toBe(0)
    expect(await eventually(() => '', { withinMs: 5 })).toBe('')
  })
})
