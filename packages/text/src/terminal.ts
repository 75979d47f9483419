/**
 * Text for a terminal. A server, a file name or a cell may contain characters that a terminal obeys
 * (ECMA-48: C0, DEL, C1 and the sequences that begin with them), that change the order of the text on the
 * screen (the property Bidi_Control of Unicode's UAX #9), that end a line (UAX #14), or that have no width.
 */
const UNSAFE = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\u200b\u2060\ufeff]/gu

/** In the form of JSON, so that a JSON document stays one, with the same values. */
const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

/** Text with its lines and tabs. Other unsafe characters become visible, such as `\u001b`. */
export const printable = (text: string): string =>
  text.replace(UNSAFE, (character) =>
    character === '\n' || character === '\t' ? character : escaped(character),
  )

/** A value that must stay on its line: `printable`, also without line feeds and tabs. */
export const onOneLine = (text: string): string => text.replace(UNSAFE, escaped)
