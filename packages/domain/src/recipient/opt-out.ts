/**
 * What a recipient's own words do to the opt-out of their number. Pure: who received the words, in which order, and what is
 * stored come in as arguments. Source: contract, Opt-outs, inbound messages.
 */

/** Used where the deployment does not configure its own. Source: contract, Opt-outs, inbound messages. */
export const DEFAULT_STOP_WORDS: ReadonlyArray<string> = ['СТОП', 'STOP', 'ОТПИСКА', 'UNSUBSCRIBE']
export const DEFAULT_START_WORDS: ReadonlyArray<string> = ['СТАРТ', 'START']

/** What an inbound message asks for. */
export type OptOutWord = 'stop' | 'start'

/** Folded words; no word is in both. */
export interface OptOutVocabulary {
  readonly stop: ReadonlySet<string>
  readonly start: ReadonlySet<string>
}

/** Trimmed and case-folded: upper case first, because some letters have two lower-case forms and one upper-case one. */
const fold = (text: string): string => text.normalize('NFC').trim().toUpperCase().toLowerCase()

/** The words of a deployment, or `null` when a word is empty or asks for both, or when there is no stop word at all. */
export const optOutVocabulary = (
  stop: ReadonlyArray<string>,
  start: ReadonlyArray<string>,
): OptOutVocabulary | null => {
  const vocabulary = { stop: new Set(stop.map(fold)), start: new Set(start.map(fold)) }
  const clash = [...vocabulary.start].some((word) => vocabulary.stop.has(word))
  const empty = vocabulary.stop.has('') || vocabulary.start.has('')
  return clash || empty || vocabulary.stop.size === 0 ? null : vocabulary
}

/** What the whole text of an inbound message asks for; `null` when it is none of the words. */
export const optOutWordOf = (vocabulary: OptOutVocabulary, text: string): OptOutWord | null => {
  const folded = fold(text)
  return vocabulary.stop.has(folded) ? 'stop' : vocabulary.start.has(folded) ? 'start' : null
}

/** One stop or start word as it was received. */
export interface ReceivedWord {
  readonly word: OptOutWord
  /** The record's id, a function of operator and operator's id: one that an operator tells twice has the same. */
  readonly id: string
  /** Its place among everything received from this recipient; it only rises. */
  readonly position: number
  /** Milliseconds since the epoch. */
  readonly receivedAt: number
}

/** What is remembered of the words already applied for a recipient. */
export interface AppliedWords {
  /** Of the newest. */
  readonly position: number
  readonly receivedAt: number
  /** Record ids, newest first. */
  readonly recent: ReadonlyArray<string>
}

/** Where an opt-out came from, and when it was recorded. */
export interface OptOut {
  readonly source: 'inbound' | 'operator' | 'import'
  readonly createdAt: number
}

/** An operator tells a message again within hours; nobody writes more words than this in between and means each of them. */
const REMEMBERED_WORDS = 8
/**
 * Processes whose clocks differ by more than this are not ready for work. A word received so much later than the newest one is
 * news even when its position is lower: then the log of reports was made anew, and counts from zero.
 */
const CLOCK_DIFFERENCE_MS = 60_000

/** What a word changes, and what is to be remembered of it. */
export interface OptOutDecision {
  /** `repeated`: it was applied before, or something newer was. */
  readonly change: 'recorded' | 'lifted' | 'unchanged' | 'repeated'
  readonly applied: AppliedWords
}

/**
 * The effect of one word. A stop word records an opt-out where there is none. A start word lifts the number's opt-out, whoever recorded it:
 * it stands for the recipient's wish, and this is the recipient's newer one; what the hub's operator recorded or imported *after* the word was
 * received stays. A word that is read or told again changes nothing.
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
    // Among a recipient's own words the position decides, not two processes' clocks.
    return optOut.source === 'inbound' || optOut.createdAt <= received.receivedAt ? 'lifted' : 'unchanged'
  }
  return { change: change(), applied: remembered }
}
