import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type AppliedWords,
  decideOptOut,
  DEFAULT_START_WORDS,
  DEFAULT_STOP_WORDS,
  type OptOut,
  optOutVocabulary,
  optOutWordOf,
  type ReceivedWord,
} from './opt-out.ts'

const words = optOutVocabulary(DEFAULT_STOP_WORDS, DEFAULT_START_WORDS)!

const received = (word: 'stop' | 'start', n: number, more: Partial<ReceivedWord> = {}): ReceivedWord => ({
  word,
  id: `id-${n}`,
  position: n,
  receivedAt: 1000 * n,
  ...more,
})

/** Applies words in order to a number with or without an opt-out. */
const apply = (list: ReadonlyArray<ReceivedWord>, before: OptOut | null = null) => {
  let optOut = before
  let applied: AppliedWords | null = null
  const changes = list.map((word) => {
    const decision = decideOptOut(optOut, applied, word)
    applied = decision.applied
    if (decision.change === 'recorded') optOut = { source: 'inbound', createdAt: word.receivedAt }
    if (decision.change === 'lifted') optOut = null
    return decision.change
  })
  return { changes, optedOut: optOut !== null }
}

describe('the words of an inbound message', () => {
  it.each([
    ['СТОП', 'stop'],
    [' стоп\n', 'stop'],
    ['\u00a0Stop\u00a0', 'stop'],
    ['отписка', 'stop'],
    ['UnSubscribe', 'stop'],
    ['Старт', 'start'],
    ['start', 'start'],
    ['стоп!', null],
    ['не стоп', null],
    ['STOP IT', null],
    ['', null],
    // A Latin look-alike of the first letter is another word.
    ['CТОП', null],
  ])('%j asks for %s', (text, wanted) => {
    expect(optOutWordOf(words, text)).toBe(wanted)
  })

  it('can be others', () => {
    const own = optOutVocabulary(['нет'], ['да'])!
    expect(optOutWordOf(own, 'НЕТ')).toBe('stop')
    expect(optOutWordOf(own, 'Да')).toBe('start')
    expect(optOutWordOf(own, 'стоп')).toBeNull()
  })

  it('cannot be empty, ask for both, or leave nothing to stop with', () => {
    expect(optOutVocabulary(['СТОП', ' '], [])).toBeNull()
    expect(optOutVocabulary(['СТОП'], ['стоп'])).toBeNull()
    expect(optOutVocabulary([], ['СТАРТ'])).toBeNull()
    expect(optOutVocabulary(['СТОП'], [])).not.toBeNull()
  })
})

describe('an opt-out', () => {
  it('is recorded by a stop word and lifted by a start word', () => {
    expect(apply([received('stop', 1)])).toEqual({ changes: ['recorded'], optedOut: true })
    expect(apply([received('stop', 1), received('start', 2)])).toEqual({
      changes: ['recorded', 'lifted'],
      optedOut: false,
    })
    expect(apply([received('start', 1)])).toEqual({ changes: ['unchanged'], optedOut: false })
  })

  it('is not recorded again by a stop word that is read again after a start word', () => {
    const stop = received('stop', 1)
    const start = received('start', 2)
    expect(apply([stop, start, stop, start])).toEqual({
      changes: ['recorded', 'lifted', 'repeated', 'repeated'],
      optedOut: false,
    })
  })

  it('nor by one that its operator tells again', () => {
    const stop = received('stop', 1)
    const again = { ...stop, position: 9, receivedAt: 9000 }
    expect(apply([stop, received('start', 2), again]).optedOut).toBe(false)
    expect(apply([stop, received('start', 2), received('stop', 9)]).optedOut).toBe(true)
  })

  it('keeps to the order of the words where the clocks of two processes differ', () => {
    const start = received('start', 2, { receivedAt: 500 })
    expect(apply([received('stop', 1), start]).optedOut).toBe(false)
  })

  it('is recorded although the log of reports was made anew', () => {
    const start = received('start', 500)
    expect(apply([start, received('stop', 3, { receivedAt: start.receivedAt + 120_000 })]).optedOut).toBe(
      true,
    )
  })

  it('of the hub’s operator is lifted by a later start word, and not by an earlier one', () => {
    const recorded = (createdAt: number): OptOut => ({ source: 'operator', createdAt })
    expect(apply([received('start', 5)], recorded(4000)).optedOut).toBe(false)
    expect(apply([received('start', 5)], recorded(6000)).optedOut).toBe(true)
    expect(apply([received('start', 5)], { source: 'import', createdAt: 4000 }).optedOut).toBe(false)
  })

  it('is what the newest word says, however often and from wherever the words are read again', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('stop' as const, 'start' as const), { minLength: 1, maxLength: 8 }),
        fc.array(fc.nat(7), { maxLength: 6 }),
        (said, restarts) => {
          const list = said.map((word, i) => received(word, i + 1))
          // Each restart reads from some place on to where reading had come, as a shard does that takes over.
          const readings: Array<ReceivedWord> = []
          for (const [i, from] of restarts.entries()) {
            readings.push(...list.slice(from % list.length, Math.min(list.length, i + 2)))
          }
          readings.push(...list)
          const inOrder = readings.filter(
            (word, i) =>
              word.position === 1 || readings.slice(0, i).some((w) => w.position === word.position - 1),
          )
          expect(apply(inOrder).optedOut).toBe(said.at(-1) === 'stop')
        },
      ),
    )
  })
})
