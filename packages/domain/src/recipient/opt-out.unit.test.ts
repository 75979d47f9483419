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

/** Applies words in order, to a number with or without an opt-out. */
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

describe('optOutWordOf', () => {
  // Rules: OPT-1, OPT-2, OPT-3
  it.each([
    ['СТОП', 'stop'],
    [' стоп\n', 'stop'],
    ['\u00a0Stop\u00a0', 'stop'],
    ['отписка', 'stop'],
    ['UnSubscribe', 'stop'],
    ['Старт', 'start'],
    ['start', 'start'],
    ['стоп!', 'stop'],
    ['«СТОП».', 'stop'],
    ['"stop"', 'stop'],
    ['… Stop all ?!', 'stop'],
    ['“STOPALL”', 'stop'],
    ['`стоп`', 'stop'],
    ['\u200bстоп\ufeff', 'stop'],
    ['СТОП\u00a0 ВСЕ', 'stop'],
    ['Отписаться', 'stop'],
    ['отказ', 'stop'],
    ['cancel', 'stop'],
    ['End', 'stop'],
    ['quit', 'stop'],
    ['unsub', 'stop'],
    ['(старт)', 'start'],
    // Symbols (Unicode class S): Sm, Sc, So, Sk.
    ['‹СТОП>', 'stop'],
    ['<СТОП>', 'stop'],
    ['=STOP=', 'stop'],
    ['STOP+', 'stop'],
    ['+стоп', 'stop'],
    ['~ стоп ~', 'stop'],
    ['|STOP|', 'stop'],
    ['$top', null],
    ['^stop^', 'stop'],
    ['№ СТОП', 'stop'],
    ['СТОП ✋', 'stop'],
    ['❤️ stop 🛑', 'stop'],
    ['СТОП\ufffd', 'stop'],
    ['© старт ®', 'start'],
    ['стоп+реклама', null],
    ['С+Т+О+П', null],
    ['+=<>', null],
    ['не стоп', null],
    ['STOP IT', null],
    ['стоп, пожалуйста', null],
    ['стоп-старт', null],
    ['с.т.о.п', null],
    ['?!', null],
    ['', null],
    // The first letter is Latin, so this is another word.
    ['CТОП', null],
  ])('reads %j as %s', (text, wanted) => {
    expect(optOutWordOf(words, text)?.word ?? null).toBe(wanted)
  })

  // Rules: OPT-3
  it('recognizes the configured words instead of the defaults', () => {
    const own = optOutVocabulary(['нет'], ['да'])!
    expect(optOutWordOf(own, 'НЕТ')).toEqual({ word: 'stop', keyword: 'нет' })
    expect(optOutWordOf(own, 'Да!')).toEqual({ word: 'start', keyword: 'да' })
    expect(optOutWordOf(own, 'стоп')).toBeNull()
  })

  it('rejects a vocabulary with an empty word, a word in both lists, or no stop word', () => {
    expect(optOutVocabulary(['СТОП', ' ! '], [])).toBeNull()
    expect(optOutVocabulary(['СТОП'], ['стоп'])).toBeNull()
    expect(optOutVocabulary([], ['СТАРТ'])).toBeNull()
    expect(optOutVocabulary(['СТОП'], [])).not.toBeNull()
  })
})

describe('an opt-out', () => {
  // Rules: OPT-1
  it('is recorded by a stop word and lifted by a start word', () => {
    expect(apply([received('stop', 1)])).toEqual({ changes: ['recorded'], optedOut: true })
    expect(apply([received('stop', 1), received('start', 2)])).toEqual({
      changes: ['recorded', 'lifted'],
      optedOut: false,
    })
    expect(apply([received('start', 1)])).toEqual({ changes: ['unchanged'], optedOut: false })
  })

  it('is not recorded again when a stop word is processed again after a start word', () => {
    const stop = received('stop', 1)
    const start = received('start', 2)
    expect(apply([stop, start, stop, start])).toEqual({
      changes: ['recorded', 'lifted', 'repeated', 'repeated'],
      optedOut: false,
    })
  })

  it('is not recorded again when the operator repeats a stop word', () => {
    const stop = received('stop', 1)
    const again = { ...stop, position: 9, receivedAt: 9000 }
    expect(apply([stop, received('start', 2), again]).optedOut).toBe(false)
    expect(apply([stop, received('start', 2), received('stop', 9)]).optedOut).toBe(true)
  })

  it('follows the order of the words, not the clocks of two processes', () => {
    const start = received('start', 2, { receivedAt: 500 })
    expect(apply([received('stop', 1), start]).optedOut).toBe(false)
  })

  it('is recorded after the topic was created again and offsets restarted', () => {
    const start = received('start', 500)
    expect(apply([start, received('stop', 3, { receivedAt: start.receivedAt + 120_000 })]).optedOut).toBe(
      true,
    )
  })

  it('of the hub operator is lifted by a later start word, but not by an earlier one', () => {
    const recorded = (createdAt: number): OptOut => ({ source: 'operator', createdAt })
    expect(apply([received('start', 5)], recorded(4000)).optedOut).toBe(false)
    expect(apply([received('start', 5)], recorded(6000)).optedOut).toBe(true)
    expect(apply([received('start', 5)], { source: 'import', createdAt: 4000 }).optedOut).toBe(false)
  })

  it('follows the newest word, however often and from whichever offset the words are read again', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('stop' as const, 'start' as const), { minLength: 1, maxLength: 8 }),
        fc.array(fc.nat(7), { maxLength: 6 }),
        (sent, restarts) => {
          const list = sent.map((word, i) => received(word, i + 1))
          // Each restart reads from an earlier offset up to the last offset that was read, like a
          // new owner of a shard.
          const readings: Array<ReceivedWord> = []
          for (const [i, from] of restarts.entries()) {
            readings.push(...list.slice(from % list.length, Math.min(list.length, i + 2)))
          }
          readings.push(...list)
          const inOrder = readings.filter(
            (word, i) =>
              word.position === 1 || readings.slice(0, i).some((w) => w.position === word.position - 1),
          )
          expect(apply(inOrder).optedOut).toBe(sent.at(-1) === 'stop')
        },
      ),
    )
  })
})
