/** Rules for texts that clients send. */

/** Counts code points, like JSON Schema and PostgreSQL. */
export const characterCount = (text: string): number => {
  let count = 0
  for (let i = 0; i < text.length; count++) i += text.codePointAt(i)! > 0xffff ? 2 : 1
  return count
}

const CONTROL = /[\p{Cc}--[\n]]/v

/** True if a text contains a control character other than the line feed. */
export const hasControlCharacters = (text: string): boolean => CONTROL.test(text)

/** True if somebody can read something in a text: a letter or a digit, and not only characters that nobody sees. */
export const hasVisibleText = (text: string): boolean =>
  /[\p{L}\p{N}]/u.test(text.replaceAll(/\p{Default_Ignorable_Code_Point}/gu, ''))
