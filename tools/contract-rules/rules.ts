/**
 * The rules of docs/contract, and the tests and comments that name them. Pure.
 *
 * A rule is a list item that begins with its number in bold. A test names rules in a comment directly
 * above it: `// Rules: MSG-1, MSG-4`. Any other text may cite a number.
 */

/** A file of the repository. */
export interface Page {
  readonly file: string
  readonly text: string
}

export interface Rule {
  readonly number: string
  /** `file:line`. */
  readonly at: string
  readonly text: string
}

/** A test, or a group of tests, that names a rule. */
export interface Check {
  readonly rule: string
  readonly at: string
  readonly title: string
}

const NUMBER = /[A-Z]+-\d+/gu
const ITEM = /^- /u
const RULE = /^- \*\*(?<number>[A-Z]+-\d+)\*\* (?<text>\S.*)$/u
const MARK = /^\s*\/\/ Rules: (?<numbers>.*)$/u
const COMMENT = /^\s*(?:\/\/|\/\*|\*)/u
/** The functions that declare a test or a group of tests, also those of suites of this repository. */
const TEST = /^\s*(?:check|describe|it|ready|slowTest|test)\b/u
/** The first string of a call, or the one after the cases of `each`. */
const TITLE = /^\s*[\w.]+\(\s*(?<quote>['"`])(?<title>.*?)\k<quote>/su
const TITLE_AFTER_CASES = /\)\(\s*(?<quote>['"`])(?<title>.*?)\k<quote>/su

const lineAt = (page: Page, index: number): string => `${page.file}:${index + 1}`

/** The rules of a page, and the items without a number. */
export const rulesIn = (
  page: Page,
): { readonly rules: ReadonlyArray<Rule>; readonly faults: ReadonlyArray<string> } => {
  const rules: Array<Rule> = []
  const faults: Array<string> = []
  for (const [index, line] of page.text.split('\n').entries()) {
    if (!ITEM.test(line)) continue
    const { number, text } = RULE.exec(line)?.groups ?? {}
    if (number === undefined || text === undefined)
      faults.push(`${lineAt(page, index)}: an item without a number`)
    else rules.push({ number, at: lineAt(page, index), text })
  }
  const prefixes = new Set(rules.map(({ number }) => prefixOf(number)))
  if (prefixes.size > 1) faults.push(`${page.file}: more than one prefix: ${[...prefixes].join(', ')}`)
  return { rules, faults }
}

const prefixOf = (number: string): string => number.slice(0, number.indexOf('-'))

const titleOf = (code: string): string =>
  (TITLE.exec(code) ?? TITLE_AFTER_CASES.exec(code))?.groups?.['title'] ?? ''

/** The tests of a file that name rules, and the comments that are not above a test. */
export const checksIn = (
  page: Page,
): { readonly checks: ReadonlyArray<Check>; readonly faults: ReadonlyArray<string> } => {
  const lines = page.text.split('\n')
  const checks: Array<Check> = []
  const faults: Array<string> = []
  for (const [index, line] of lines.entries()) {
    const numbers = MARK.exec(line)?.groups?.['numbers']
    if (numbers === undefined) continue
    const next = lines.findIndex((other, at) => at > index && !COMMENT.test(other))
    if (!/^[A-Z]+-\d+(?:, [A-Z]+-\d+)*$/u.test(numbers))
      faults.push(`${lineAt(page, index)}: not a list of numbers`)
    else if (!TEST.test(lines[next] ?? '')) faults.push(`${lineAt(page, index)}: not above a test`)
    else {
      const title = titleOf(lines.slice(next).join('\n'))
      checks.push(...numbers.split(', ').map((rule) => ({ rule, at: lineAt(page, next), title })))
    }
  }
  return { checks, faults }
}

/** Everything that is wrong with the rules, the tests and the citations together. */
export const faultsOf = (
  rules: ReadonlyArray<Rule>,
  checks: ReadonlyArray<Check>,
  pages: ReadonlyArray<Page>,
): ReadonlyArray<string> => {
  const known = new Map<string, Rule>()
  const faults: Array<string> = []
  for (const rule of rules) {
    const first = known.get(rule.number)
    if (first === undefined) known.set(rule.number, rule)
    else faults.push(`${rule.at}: ${rule.number} is also at ${first.at}`)
  }
  const prefixes = new Set(rules.map(({ number }) => prefixOf(number)))
  for (const page of pages) {
    for (const [index, line] of page.text.split('\n').entries()) {
      for (const [number] of line.matchAll(NUMBER)) {
        if (prefixes.has(prefixOf(number)) && !known.has(number)) {
          faults.push(`${lineAt(page, index)}: there is no rule ${number}`)
        }
      }
    }
  }
  const checked = new Set(checks.map(({ rule }) => rule))
  for (const { at, number } of known.values()) {
    if (!checked.has(number)) faults.push(`${at}: no test names ${number}`)
  }
  return faults
}
