/** Counts the lines of a text or of bytes. Lines end with \r\n, \n or \r, as for editors and for Python's `csv`. */

interface Searched {
  readonly indexOf: (needle: string, from: number) => number
}

const countIn = (searched: Searched, needle: string): number => {
  let count = 0
  for (let at = searched.indexOf(needle, 0); at !== -1; at = searched.indexOf(needle, at + 1)) count += 1
  return count
}

/** The number of line ends. */
export const lineEndsIn = (searched: Searched): number =>
  countIn(searched, '\n') + countIn(searched, '\r') - countIn(searched, '\r\n')

const NEWLINE = 10
const RETURN = 13

export const isLineEnd = (byte: number | undefined): boolean => byte === NEWLINE || byte === RETURN

/** Counts the line ends of bytes that come in blocks. A block may end within \r\n. */
export const makeLineCounter = () => {
  let count = 0
  let last: number | undefined
  return {
    add: (block: Buffer): void => {
      count += lineEndsIn(block) - (last === RETURN && block[0] === NEWLINE ? 1 : 0)
      last = block.at(-1) ?? last
    },
    /** The line ends up to now. */
    ends: (): number => count,
    /** Whether text follows the last line end. */
    isLineOpen: (): boolean => last !== undefined && !isLineEnd(last),
  }
}
