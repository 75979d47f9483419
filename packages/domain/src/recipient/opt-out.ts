/**
 * Opt-outs by inbound message: a recipient writes a stop word or a start word to the hub.
 * Source: specification §Rules of POST /v1/messages, 4, and §Other resources.
 */

/** The words of a deployment that does not configure its own. */
export const DEFAULT_STOP_WORDS: ReadonlyArray<string> = ['СТОП', 'STOP', 'ОТПИСКА', 'UNSUBSCRIBE']
export const DEFAULT_START_WORDS: ReadonlyArray<string> = ['СТАРТ', 'START']

/** The request that an inbound message expresses. */
type OptOutWord = 'stop' | 'start'

/** The case-folded words of a deployment. No word is in both sets. */
export interface OptOutVocabulary {
  readonly stop: ReadonlySet<string>
  readonly start: ReadonlySet<string>
}

/** Upper case first, because some letters have two lower-case forms. */
const fold = (text: string): string => text.normalize('NFC').trim().toUpperCase().toLowerCase()

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

/** Returns the request of an inbound message whose whole text is one of the words, else `null`. */
export const optOutWordOf = (vocabulary: OptOutVocabulary, text: string): OptOutWord | null => {
  const folded = fold(text)
  return vocabulary.stop.has(folded) ? 'stop' : vocabulary.start.has(folded) ? 'start' : null
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

/** The effect of a word, and the memory to store. */
export interface OptOutDecision {
  /** `repeated`: this word or a newer one was already applied. */
  readonly change: 'recorded' | 'lifted' | 'unchanged' | 'repeated'
  readonly applied: AppliedWords
}

/**
 * Decides the effect of one word. A stop word records an opt-out if there is none. A start word
 * lifts the opt-out, whoever recorded it, because it is the recipient's newer wish. Exception: an
 * opt-out that the hub operator recorded or imported after the hub received the word stays. A
 * repeated word changes nothing.
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
