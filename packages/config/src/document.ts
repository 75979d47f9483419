/** The catalogue as a page for people: `docs/configuration.md`. */
import { catalogue } from './catalogue/index.ts'
import { rules } from './rules.ts'
import { GROUPS, type Group, type Setting } from './setting.ts'

/** A pipe would end the cell of a table. */
const cell = (text: string): string => text.replaceAll('|', '\\|')

const defaultOf = ({ need, otherwise }: Setting<unknown>): string => {
  switch (need) {
    case 'required':
      return '**required**'
    case 'default':
      return otherwise === '' ? 'empty' : `\`${otherwise}\``
    case 'optional':
      return otherwise ?? ''
  }
}

const valueOf = ({ kind, unit }: Setting<unknown>): string =>
  `${kind.secret ? 'secret: ' : ''}${kind.expected}${unit === null ? '' : ` (${unit})`}`

const HEAD = ['variable', 'value', 'without it', 'read by', 'what it is']

const row = (setting: Setting<unknown>): ReadonlyArray<string> =>
  [`\`${setting.name}\``, valueOf(setting), defaultOf(setting), setting.readBy.join(', '), setting.doc].map(
    cell,
  )

/** With columns of one width each, as the formatter has them. */
const table = (rows: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const widths = HEAD.map((_, column) =>
    Math.max(...[HEAD, ...rows].map((cells) => cells[column]?.length ?? 0)),
  )
  const line = (cells: ReadonlyArray<string>): string =>
    `| ${cells.map((text, column) => text.padEnd(widths[column] ?? 0)).join(' | ')} |`
  return [line(HEAD), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)]
}

const section = (group: Group): string => {
  const own = catalogue.filter((setting) => setting.group === group)
  const between = rules.filter(({ about }) => about.every((setting) => setting.group === group))
  return [
    `## ${GROUPS[group]}`,
    '',
    ...table(own.map(row)),
    ...between.flatMap(({ sentence }) => ['', sentence]),
    '',
  ].join('\n')
}

/** Rules between settings of several headings. */
const across = (): string =>
  rules
    .filter(({ about }) => new Set(about.map(({ group }) => group)).size > 1)
    .map(({ sentence }) => `${sentence}\n`)
    .join('\n')

export const configurationPage = (): string =>
  [
    '# Configuration',
    '',
    'This page is made from the catalogue of settings (`packages/config`) by `node packages/config/scripts/generate.ts`.',
    '',
    'Everything is set by environment variables. An empty variable is an absent one. Each process looks at all of its settings before it',
    'connects to anything, and tells every mistake at once, by the name of the variable and never by its value; it then ends with exit',
    'code 1. A variable that begins with `HUB_` and is not on this page is warned of. `hubctl config` prints what is in force.',
    '',
    across(),
    ...(Object.keys(GROUPS) as ReadonlyArray<Group>).map(section),
  ].join('\n')
