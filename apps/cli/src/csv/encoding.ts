/** Decodes blocks of bytes to text, and reports the first byte that is not of the encoding. */
import { isUtf8 } from 'node:buffer'
import { refused } from '@hub/command-line'
import { isLineEnd, lineEndsIn } from './count.ts'

export const ENCODINGS = ['utf-8', 'windows-1251'] as const
export type Encoding = (typeof ENCODINGS)[number]

/** The bytes of an incomplete character at the end of a block, 0 to 3. */
const incompleteTail = (bytes: Uint8Array): number => {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    // A continuation byte: the character began before it.
    if ((byte & 0b1100_0000) === 0b1000_0000) continue
    const length = byte >= 0b1111_0000 ? 4 : byte >= 0b1110_0000 ? 3 : byte >= 0b1100_0000 ? 2 : 1
    return length > back ? back : 0
  }
  return 0
}

const isUtf16 = ([first, second]: Uint8Array): boolean =>
  (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)

/** The characters that an editor counts, as far as it does not combine them. */
const countCharacters = (text: string): number => Array.from(text).length

/** The bytes of a line before its first invalid one. `line`: bytes that are not valid. */
const validPart = (line: Uint8Array): Uint8Array => {
  let valid = 0
  for (let end = 1; end <= line.length; end++) {
    if (isUtf8(line.subarray(0, end))) valid = end
    // A character has at most four bytes.
    else if (end - valid > 4) break
  }
  return line.subarray(0, valid)
}

/** A place in the file. */
interface Place {
  readonly line: number
  /** The characters of that line before it. */
  readonly charactersBefore: number
  /** Whether the file up to it has a character that is not ASCII, which shows that it is UTF-8. */
  readonly isUtf8Text: boolean
  /** Whether \n at this place belongs to the line end before it. */
  readonly isAfterReturn: boolean
}

/** UTF-8 needs several bytes for each other character. */
const isAscii = (bytes: Uint8Array, text: string): boolean => text.length === bytes.length

/** The place behind a text, which is that of `bytes`. */
const placeBehind = (place: Place, bytes: Uint8Array, text: string): Place => {
  if (text === '') return place
  const { charactersBefore, line } = place
  const last = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r'))
  return {
    line: line + lineEndsIn(text) - (place.isAfterReturn && text.startsWith('\n') ? 1 : 0),
    charactersBefore: countCharacters(text.slice(last + 1)) + (last === -1 ? charactersBefore : 0),
    isUtf8Text: place.isUtf8Text || !isAscii(bytes, text),
    isAfterReturn: text.endsWith('\r'),
  }
}

/** The index of the next line end, or of the end of the bytes. */
const lineEndFrom = (bytes: Uint8Array, start: number): number => {
  let at = start
  while (at < bytes.length && !isLineEnd(bytes[at])) at += 1
  return at
}

/** Fails with the line and the column of the first invalid byte. `bytes` begin at `place`. */
const failAt = (bytes: Uint8Array, place: Place): never => {
  let start = 0
  let end = lineEndFrom(bytes, start)
  while (end < bytes.length && isUtf8(bytes.subarray(start, end))) {
    start = end + 1
    end = lineEndFrom(bytes, start)
  }
  const rest = validPart(bytes.subarray(start, end))
  const valid = bytes.subarray(0, start + rest.length)
  const { charactersBefore, isUtf8Text, line } = placeBehind(
    place,
    valid,
    Buffer.from(valid).toString('utf8'),
  )
  throw refused(
    'csv_encoding',
    isUtf8Text
      ? `Line ${line}, column ${charactersBefore + 1}: this is not UTF-8, although the text before it is. The file mixes encodings: save it again as UTF-8.`
      : `Line ${line}, column ${charactersBefore + 1}: the file is not UTF-8. Save it as UTF-8, or name its encoding: --encoding windows-1251`,
  )
}

/** Decodes the blocks of a file. Nothing of an invalid block is passed on. */
export const decodeBlocks = async function* (
  blocks: AsyncIterable<Buffer>,
  encoding: Encoding,
): AsyncGenerator<string, void, undefined> {
  if (encoding !== 'utf-8') {
    const decoder = new TextDecoder(encoding)
    for await (const block of blocks) yield decoder.decode(block, { stream: true })
    return
  }
  let rest: Uint8Array = Buffer.alloc(0)
  let place: Place = { line: 1, charactersBefore: 0, isUtf8Text: false, isAfterReturn: false }
  let isFirst = true
  for await (const block of blocks) {
    if (isFirst && isUtf16(block)) {
      throw refused('csv_encoding', 'Line 1, column 1: the file is UTF-16. Save it as UTF-8.')
    }
    isFirst = false
    const bytes = rest.length === 0 ? block : Buffer.concat([rest, block])
    const whole = bytes.subarray(0, bytes.length - incompleteTail(bytes))
    if (!isUtf8(whole)) failAt(whole, place)
    const text = whole.toString('utf8')
    yield text
    place = placeBehind(place, whole, text)
    rest = bytes.subarray(whole.length)
  }
  if (rest.length > 0) failAt(rest, place)
}
