/** Makes a message of a row: which column and which value goes where, and what is wrong with a row. */
import { refused, usageError } from '@hub/command-line'
import type { Row } from './rows.ts'

/** The part of a template that a mapping needs. */
export interface MappedTemplate {
  readonly name: string
  readonly class: string
  readonly placeholders: ReadonlyArray<string>
}

/** A message without its `client_ref`. */
export interface RowMessage {
  readonly to: string
  readonly class: 'otp' | 'service'
  readonly template: string
  readonly variables: Readonly<Record<string, string>>
}

export interface Mapping {
  /** Column index of the number, and of each placeholder that a column provides. */
  readonly to: number
  readonly variables: ReadonlyMap<string, number>
  /** Values that are the same in each row. */
  readonly constants: Readonly<Record<string, string>>
  readonly columns: ReadonlyArray<string>
  readonly template: MappedTemplate
}

/** A mistake in a row. `column`: from 1. It never contains the content of a cell. */
export interface RowProblem {
  readonly line: number
  readonly column: number
  readonly columnName: string
  readonly problem: string
}

/** The limit of the API for a variable. */
const MAX_VALUE_CHARACTERS = 500
const NUMBER = /^\+79\d{9}$/u

const quoted = (names: ReadonlyArray<string>): string => names.map((name) => `"${name}"`).join(', ')

/**
 * Finds the columns. `map`: from `--map`, the column of `to` and of placeholders. A column with the
 * name of a placeholder needs no `--map`.
 */
export const makeMapping = (
  columns: ReadonlyArray<string>,
  template: MappedTemplate,
  map: Readonly<Record<string, string>>,
  constants: Readonly<Record<string, string>>,
): Mapping => {
  const known = new Set(['to', ...template.placeholders])
  for (const [flag, names] of [
    ['--map', Object.keys(map)],
    ['-v', Object.keys(constants)],
  ] as const) {
    const unknown = names.find((name) => !known.has(name) || (flag === '-v' && name === 'to'))
    if (unknown === undefined) continue
    throw usageError(
      `${flag} ${unknown}: the template ${template.name} has no such placeholder. It has: ${template.placeholders.join(', ') || 'none'}.`,
    )
  }
  const columnOf = (target: string): number => {
    const name = map[target] ?? target
    const index = columns.indexOf(name)
    if (index === -1) {
      throw refused(
        'csv_columns',
        `Line 1: there is no column "${name}" for ${target}. The columns are ${quoted(columns)}. Name another one with --map ${target}=<column>${target === 'to' ? '' : `, or give one value with -v ${target}=<value>`}.`,
      )
    }
    const second = columns.indexOf(name, index + 1)
    if (second === -1) return index
    throw refused(
      'csv_columns',
      `Line 1: the columns ${index + 1} and ${second + 1} are both named "${name}".`,
    )
  }
  return {
    to: columnOf('to'),
    variables: new Map(
      template.placeholders
        .filter((placeholder) => constants[placeholder] === undefined)
        .map((placeholder) => [placeholder, columnOf(placeholder)]),
    ),
    constants,
    columns,
    template,
  }
}

export const columnOfVariable = (mapping: Mapping, variable: string): number =>
  mapping.variables.get(variable) ?? mapping.to

/** What is wrong with a row, as far as this program can find it; `null` if it can be sent. */
export const problemOf = (mapping: Mapping, { cells, line }: Row): RowProblem | null => {
  const at = (index: number, problem: string): RowProblem => ({
    line,
    column: index + 1,
    columnName: mapping.columns[index] ?? '',
    problem,
  })
  if (cells.length !== mapping.columns.length) {
    return at(
      Math.min(cells.length, mapping.columns.length) - 1,
      `the number of cells is ${cells.length}, and that of the heading is ${mapping.columns.length}`,
    )
  }
  const number = cells[mapping.to] ?? ''
  if (!NUMBER.test(number)) {
    return at(mapping.to, number === '' ? 'there is no number' : 'the number is not +79 and nine digits')
  }
  for (const [, index] of mapping.variables) {
    const value = cells[index] ?? ''
    if (value.length > MAX_VALUE_CHARACTERS) {
      return at(
        index,
        `the value has ${value.length} characters, and at most ${MAX_VALUE_CHARACTERS} are allowed`,
      )
    }
    // The hub refuses the whole request, and not only this row.
    if (value.includes('\0')) return at(index, 'the value contains a NUL character')
  }
  return null
}

export const messageOf = ({ constants, template, to, variables }: Mapping, { cells }: Row): RowMessage => {
  const values: Record<string, string> = { ...constants }
  for (const [placeholder, index] of variables) values[placeholder] = cells[index] ?? ''
  return {
    to: cells[to] ?? '',
    class: template.class as RowMessage['class'],
    template: template.name,
    variables: values,
  }
}
