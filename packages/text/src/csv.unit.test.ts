/** The judge is Python's `csv`, for each character at which a spreadsheet may split a line. */
import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { csvLine } from './csv.ts'

/** Prints, for each delimiter, the cells of a document, as JSON. */
const PROGRAM = `
import csv, io, json, sys
text = json.load(sys.stdin)
read = lambda d: list(csv.reader(io.StringIO(text, newline=''), delimiter=d))
print(json.dumps({d: read(d) for d in ',;\\t|'}))
`

const readWithPython = (text: string): Record<string, ReadonlyArray<ReadonlyArray<string>>> | null => {
  const { error, status, stderr, stdout } = spawnSync('python3', ['-c', PROGRAM], {
    input: JSON.stringify(text),
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  if (error !== undefined) return null
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  return JSON.parse(stdout) as Record<string, ReadonlyArray<ReadonlyArray<string>>>
}

/** OWASP, "CSV Injection": the characters that begin a formula, and their full-width forms. */
const BEGINS_FORMULA = ['=', '+', '-', '@', '\t', '\r', '\uff1d', '\uff0b', '\uff0d', '\uff20']

const withoutApostrophes = (text: string): string => text.replaceAll("'", '')

const cell = fc.oneof(
  fc.string({ unit: fc.constantFrom(...BEGINS_FORMULA, ',', ';', '|', '"', "'", ' ', '\n', 'a', '1') }),
  fc.string({ unit: 'grapheme' }),
)

describe('a line of CSV', () => {
  it('is read by Python as the same values, and no cell begins a formula, whatever the delimiter', (context) => {
    const rows = fc.sample(fc.array(cell, { minLength: 2, maxLength: 4 }), { numRuns: 3000, seed: 35 })
    // Python takes a NUL for the end of a text in old versions.
    const given = rows.map((row) => row.map((text) => text.replaceAll('\0', '')))
    const written = given.map((row) => `${csvLine(row)}\r\n`).join('')
    const read = readWithPython(written)
    if (read === null) {
      console.log('Skipped: python3 is not installed')
      return context.skip()
    }
    expect(read[',']!.map((row) => row.map(withoutApostrophes))).toEqual(
      given.map((row) => row.map(withoutApostrophes)),
    )
    // Also for a reader that knows no quotes.
    const split = written.split(/[,;|\t\r\n]/u).map((one) => one.replace(/^[ "]+/u, ''))
    const formulas = [...Object.values(read).flat(2), ...split].filter((one) =>
      // A quote of the text that follows another delimiter makes the end of the line a part of the cell.
      BEGINS_FORMULA.includes(one.replace(/^[\r\n]+/u, '').charAt(0)),
    )
    expect(formulas).toEqual([])
  })

  it.each([
    ['=1+1', "'=1+1"],
    ['\uff1dcmd', "'\uff1dcmd"],
    ['a;=1', `"a;'=1"`],
    ['\t1', `"'\t1"`],
    ['\r1', `"'\r1"`],
    ['+79000000001', "'+79000000001"],
    ['Smith, "Bob"', '"Smith, ""Bob"""'],
    ['plain - text', 'plain - text'],
    [-1.5, '-1.5'],
    [null, ''],
  ])('%j is written as %j', (value, written) => {
    expect(csvLine([value])).toBe(written)
  })
})
