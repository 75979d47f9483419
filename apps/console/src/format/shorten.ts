/** Ids and references without their middle. Pure. */

/** Longer texts are shortened. A text of this length is not wider than a shortened one. */
const LONGEST = 18
/** The prefix of an id, and some digits of its time. */
const HEAD = 8
/** The end of an id is random, so it tells ids of the same second apart. */
const TAIL = 6

/** Whether a text is shown as it is. */
export const isShort = (text: string): boolean => Array.from(text).length <= LONGEST

/** Head, middle and tail of a text. The middle is empty if the text is short. */
export const shorten = (text: string): readonly [head: string, middle: string, tail: string] => {
  if (isShort(text)) return [text, '', '']
  const characters = Array.from(text)
  const join = (from: number, until?: number): string => characters.slice(from, until).join('')
  return [join(0, HEAD), join(HEAD, -TAIL), join(-TAIL)]
}
