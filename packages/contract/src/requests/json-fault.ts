/** Finds where a text stops being JSON. The error of `JSON.parse` has no position in most cases. */

const TAB = 0x09
const LINE_FEED = 0x0a
const RETURN = 0x0d
const SPACE = 0x20
const ZERO = 0x30
const NINE = 0x39

/** The position in a text where a value, or what follows it, is not JSON. */
class Reader {
  readonly text: string
  at = 0
  constructor(text: string) {
    this.text = text
  }

  /** Each method returns whether it read what it names. If not, `at` is the position of the fault. */
  value(): boolean {
    this.space()
    switch (this.text[this.at]) {
      case '{':
        return this.list('}', () => this.string() && this.token(':') && this.value())
      case '[':
        return this.list(']', () => this.value())
      case '"':
        return this.string()
      case 't':
        return this.word('true')
      case 'f':
        return this.word('false')
      case 'n':
        return this.word('null')
      default:
        return this.number()
    }
  }

  space(): void {
    for (;;) {
      const letter = this.text.charCodeAt(this.at)
      if (letter !== SPACE && letter !== LINE_FEED && letter !== RETURN && letter !== TAB) return
      this.at++
    }
  }

  token(expected: string): boolean {
    this.space()
    if (this.text[this.at] !== expected) return false
    this.at++
    return true
  }

  list(end: string, element: () => boolean): boolean {
    this.at++
    if (this.token(end)) return true
    for (;;) {
      this.space()
      if (!element()) return false
      if (this.token(end)) return true
      if (!this.token(',')) return false
    }
  }

  word(expected: string): boolean {
    for (const letter of expected) {
      if (this.text[this.at] !== letter) return false
      this.at++
    }
    return true
  }

  digits(): boolean {
    const from = this.at
    for (;;) {
      const letter = this.text.charCodeAt(this.at)
      if (!(letter >= ZERO && letter <= NINE)) return this.at > from
      this.at++
    }
  }

  number(): boolean {
    if (this.text[this.at] === '-') this.at++
    if (this.text[this.at] === '0') this.at++
    else if (!this.digits()) return false
    if (this.text[this.at] === '.') {
      this.at++
      if (!this.digits()) return false
    }
    if (this.text[this.at] !== 'e' && this.text[this.at] !== 'E') return true
    this.at++
    if (this.text[this.at] === '+' || this.text[this.at] === '-') this.at++
    return this.digits()
  }

  string(): boolean {
    if (this.text[this.at] !== '"') return false
    for (this.at++; this.at < this.text.length; this.at++) {
      const letter = this.text[this.at]!
      if (letter === '"') {
        this.at++
        return true
      }
      if (letter < ' ') return false
      if (letter !== '\\') continue
      const escape = /^(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/u.exec(this.text.slice(this.at + 1, this.at + 6))?.[0]
      if (escape === undefined) return false
      this.at += escape.length
    }
    return false
  }
}

/** `line 3, column 14`, or that the text ends too early. Contains nothing of the text. */
export const describeFault = (text: string): string => {
  const reader = new Reader(text)
  // A byte order mark is skipped by the decoder.
  if (reader.value()) reader.space()
  if (reader.at >= text.length) return 'it ends too early'
  const before = text.slice(0, reader.at)
  const line = before.split('\n').length
  return `line ${line}, column ${reader.at - before.lastIndexOf('\n')}`
}
