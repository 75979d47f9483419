/** Checks the tables "Three request paths" of docs/architecture.md against the sources. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const page = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8')
const numbered = page.split('\n## Three request paths\n')[1]?.match(/^\| \d+ .*$/gmu) ?? []

/** A row: number, link to a file, function (`f`, `Class.f` or `makeX: f`), description. */
const ROW = /^\| \d+ +\| \[[^\]]+\]\(\.\.\/(?<file>[^)]+)\) +\| `(?<name>[^`]+)` +\|/u

const withoutComments = (source: string): string =>
  source.replaceAll(/\/\*.*?\*\//gsu, '').replaceAll(/^\s*\/\/.*$/gmu, '')

describe('the request paths of docs/architecture.md', () => {
  it('have many rows', () => {
    expect(numbered.length).toBeGreaterThan(50)
  })

  it.each(numbered)('name a function of the linked file: %s', (row) => {
    const { file, name } = ROW.exec(row)?.groups ?? {}
    const source = withoutComments(readFileSync(join(ROOT, file ?? 'missing'), 'utf8'))
    const missing = name?.split(/: |\./u).filter((part) => !new RegExp(`\\b${part}\\b`, 'u').test(source))
    expect(missing).toEqual([])
  })
})
