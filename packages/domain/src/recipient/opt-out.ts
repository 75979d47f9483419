/**
 * Opt-outs by inbound message: a recipient writes a stop word or a start word to the hub.
 * Source: MSG-7, OPT-1 to OPT-4.
 */
import { eventIdOf, type PublicEvent } from '../event/event.ts'
import type { Mode } from '../values/classification.ts'

/** The words of a deployment that does not configure its own. */
export const DEFAULT_STOP_WORDS: ReadonlyArray<string> = [
  'СТОП',
  'STOP',
  'ОТПИСКА',
  'UNSUBSCRIBE',
  'ОТПИСАТЬСЯ',
  'ОТКАЗ',
  'СТОП ВСЕ',
  'STOP ALL',
  'STOPALL',
  'CANCEL',
  'END',
  'QUIT',
  'UNSUB',
]
export const DEFAULT_START_WORDS: ReadonlyArray<string> = ['СТАРТ', 'START']

/** The request that an inbound message expresses. */
type OptOutWord = 'stop' | 'start'

/** The case-folded words of a deployment. No word is in both sets. */
export interface OptOutVocabulary {
  readonly stop: ReadonlySet<string>
  readonly start: ReadonlySet<string>
}

/**
 * Punctuation, quotes, symbols, spaces and control characters, and what selects the form of a symbol
 * before it (U+FE0E, U+FE0F).
 */
const AROUND_WORDS = /^[\p{P}\p{S}\p{Z}\p{C}\uFE0E\uFE0F]$/u

/** The text without these characters at its ends. A loop, because texts may be long. */
const trimAround = (text: string): string => {
  const characters = Array.from(text)
  let from = 0
  let to = characters.length
  while (from < to && AROUND_WORDS.test(characters[from] ?? '')) from++
  while (to > from && AROUND_WORDS.test(characters[to - 1] ?? '')) to--
  return characters.slice(from, to).join('')
}

/** Upper case first, because some letters have two lower-case forms. */
const fold = (text: string): string =>
  trimAround(text.normalize('NFC')).replaceAll(/\s+/gu, ' ').toUpperCase().toLowerCase()

/** Returns `null` if a word is empty or in both lists, or if there is no stop word. */
export const optOutVocabulary = (
  stop: ReadonlyArray<string>,
  start: ReadonlyArray<string>,
): OptOutVocabulary | null => {
  const vocabulary = { stop: new Set(stop.map(fold)), start: new Set(start.map(fold)) }
  const clash = [...vocabulary.start].some((word) => vocabulary.stop.has(word))
  const empty = vocabulary.stop.has('') || vocabulary.start.has('')
  return clash || empty || vocabulary.stop.size === 0 ? null : vocabulary
}

/** A word of the vocabulary in an inbound message. */
interface RecognizedWord {
  readonly word: OptOutWord
  /** The case-folded keyword, without the characters around it. */
  readonly keyword: string
}

/**
 * Returns the word of an inbound message whose whole text is one, apart from case and from
 * punctuation, symbols and spaces around it. A word inside a sentence is none.
 */
export const optOutWordOf = (vocabulary: OptOutVocabulary, text: string): RecognizedWord | null => {
  const keyword = fold(text)
  if (vocabulary.stop.has(keyword)) return { word: 'stop', keyword }
  return vocabulary.start.has(keyword) ? { word: 'start', keyword } : null
}

/** A stop word or start word that was received. */
export interface ReceivedWord {
  readonly word: OptOutWord
  /** The record's id. A repeated inbound message has the same id. */
  readonly id: string
  /** The position among all records of this recipient. Positions only rise. */
  readonly position: number
  /** Milliseconds since the epoch. */
  readonly receivedAt: number
}

/** The stored memory of the words that were already applied for a recipient. */
export interface AppliedWords {
  /** The position of the newest word. */
  readonly position: number
  readonly receivedAt: number
  /** The record ids, newest first. */
  readonly recent: ReadonlyArray<string>
}

/** The origin of an opt-out, and when it was recorded. */
export interface OptOut {
  readonly source: 'inbound' | 'operator' | 'import'
  readonly createdAt: number
}

/** A recipient sends fewer words before the operator stops repeating one. */
const REMEMBERED_WORDS = 8
/**
 * The clocks of ready processes differ by less than this. A word received this much later than the
 * newest one is new even if its position is lower: then the topic was created again and its offsets
 * started from zero.
 */
const CLOCK_DIFFERENCE_MS = 60_000

/** The effects of a word. `repeated`: this word or a newer one was already applied. */
export const OPT_OUT_CHANGES = ['recorded', 'lifted', 'unchanged', 'repeated'] as const

/** The effect of a word, and the memory to store. */
export interface OptOutDecision {
  readonly change: (typeof OPT_OUT_CHANGES)[number]
  readonly applied: AppliedWords
}

/**
 * Decides the effect of one word. A stop word records an opt-out if there is none. A start word
 * removes the opt-out, also one of hub staff, because it is the recipient's newer decision.
 * Exception: an opt-out that hub staff recorded or imported after the hub received the word stays.
 * A repeated word changes nothing.
 */
export const decideOptOut = (
  optOut: OptOut | null,
  applied: AppliedWords | null,
  received: ReceivedWord,
): OptOutDecision => {
  if (applied !== null) {
    const older =
      received.position <= applied.position && received.receivedAt <= applied.receivedAt + CLOCK_DIFFERENCE_MS
    if (older || applied.recent.includes(received.id)) return { change: 'repeated', applied }
  }
  const remembered: AppliedWords = {
    position: received.position,
    receivedAt: received.receivedAt,
    recent: [received.id, ...(applied?.recent ?? [])].slice(0, REMEMBERED_WORDS),
  }
  const change = (): OptOutDecision['change'] => {
    if (received.word === 'stop') return optOut === null ? 'recorded' : 'unchanged'
    if (optOut === null) return 'unchanged'
    // The position orders the recipient's own words. Clocks of two processes cannot.
    return optOut.source === 'inbound' || optOut.createdAt <= received.receivedAt ? 'lifted' : 'unchanged'
  }
  return { change: change(), applied: remembered }
}

/** The object of `recipient.*` events. */
interface OptOutObject {
  /** The recipient hash, and never the number. */
  readonly recipient: string
  /** `msg_…`: the last message that the account sent to the number. */
  readonly message: string | null
}

interface ChangedOptOut extends OptOutObject {
  /** The id of the change, the same for all accounts. */
  readonly changeId: string
  readonly change: 'opted_out' | 'opted_in'
}

/**
 * Makes the event of a change for one account (`acc_…`) and mode. Source: OPT-5, OPT-6.
 */
export const optOutChanged = (
  account: string,
  mode: Mode,
  { change, changeId, message, recipient }: ChangedOptOut,
): PublicEvent<OptOutObject, 'recipient.opted_out' | 'recipient.opted_in'> => {
  const type = `recipient.${change}` as const
  return { id: eventIdOf(`${changeId} ${account} ${mode}`, type), type, object: { recipient, message } }
}
