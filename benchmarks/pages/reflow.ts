/** Breaks the lines of generated markdown, so that figures of any length fit. */

const WIDTH = 100
/** Lines that must not be joined with others: tables, headings, code fences, empty lines. */
const FIXED = /^(?:\||#|```|$)/u
/** The beginning of a list item, and the indentation of its further lines. */
const ITEM = /^(?<indent> *)(?<marker>[-*]|\d+\.) /u

const wrap = (text: string): string => {
  const indent = ' '.repeat(ITEM.exec(text)?.[0].length ?? 0)
  const lines: Array<string> = []
  let line = ''
  // A space inside a code span or a link text does not separate words.
  for (const word of text.match(/(?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\S)+/gu) ?? []) {
    if (line !== '' && line.length + 1 + word.length > WIDTH) {
      lines.push(line)
      line = `${indent}${word}`
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].join('\n')
}

/** Joins and wraps paragraphs and list items at 100 columns. The page has no nested lists. */
export const reflow = (page: string): string => {
  const blocks: Array<string> = []
  let isOpen = false
  for (const line of page.split('\n')) {
    if (FIXED.test(line)) {
      blocks.push(line)
      isOpen = false
    } else if (isOpen && !ITEM.test(line)) blocks.push(`${blocks.pop()} ${line.trim()}`)
    else {
      blocks.push(line)
      isOpen = true
    }
  }
  return blocks.map((block) => (FIXED.test(block) ? block : wrap(block))).join('\n')
}
