import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { anchorsOf, brokenLinks, brokenPages, constantsOf, wrongConstants } from './links.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Files of this repository, without dependencies and hidden folders. */
const filesOf = (pattern: string): ReadonlyArray<string> =>
  globSync(pattern, {
    cwd: ROOT,
    exclude: (path) => /(?:^|\/)(?:node_modules|\..+)(?:\/|$)/u.test(path),
  })

const pages = filesOf('**/*.md')
const MIGRATIONS = 'packages/store/migrations/'

let folder: string | null = null
afterEach(() => {
  if (folder !== null) rmSync(folder, { recursive: true })
  folder = null
})

/** A folder with these files. */
const withFiles = (files: Readonly<Record<string, string>>): string => {
  folder = mkdtempSync(join(tmpdir(), 'markdown-links-'))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

describe('markdown links', () => {
  it('point to existing files and headings in all pages', () => {
    expect(pages.length).toBeGreaterThan(50)
    expect(pages.flatMap((file) => brokenLinks(ROOT, file))).toEqual([])
  })

  it('find headings by the anchors of GitHub', () => {
    const page = '# Where `x` is: a / b\n\n## Live keys\n\n```sh\n# no heading\n```\n\n## Live keys\n'
    expect([...anchorsOf(page)]).toEqual(['where-x-is-a--b', 'live-keys', 'live-keys-1'])
  })
})

describe('pages that sources name', () => {
  it('exist, with their headings', () => {
    // A test of this tool needs names of pages that do not exist. A migration is never edited.
    const sources = filesOf('**/*.{ts,tsx,mjs,sql,yaml,yml,sh}').filter(
      (file) => !file.startsWith('tools/markdown-links/') && !file.startsWith(MIGRATIONS),
    )
    expect(sources.length).toBeGreaterThan(500)
    expect(sources.flatMap((file) => brokenPages(ROOT, file))).toEqual([])
  })

  it('are found for the old numbers in migrations', () => {
    const numbers = filesOf(`${MIGRATIONS}*.sql`).flatMap((file) =>
      [...readFileSync(join(ROOT, file), 'utf8').matchAll(/docs\/decisions\/(\d{4})/gu)].map(([, n]) => n!),
    )
    expect(numbers.length).toBeGreaterThan(10)
    const readme = readFileSync(join(ROOT, 'docs/decisions/README.md'), 'utf8')
    expect(numbers.filter((number) => !readme.includes(number))).toEqual([])
  })

  it('are reported if they, or their headings, do not exist', () => {
    const root = withFiles({
      'docs/decisions/overload.md': '# Overload\n\n## Limits\n',
      'a.ts':
        '// docs/decisions/overload.md, docs/decisions/overload.md#limits, ../docs/gone.md (of another folder)\n' +
        '// docs/decisions/0047, docs/decisions/overload.md#slices; see docs/gone.md.\n',
    })
    expect(brokenPages(root, 'a.ts')).toEqual([
      'a.ts: docs/decisions/0047',
      'a.ts: docs/decisions/overload.md#slices',
      'a.ts: docs/gone.md',
    ])
  })
})

describe('constants in pages', () => {
  it('have the values of the code', () => {
    const stated = pages.flatMap((file) => constantsOf(readFileSync(join(ROOT, file), 'utf8')))
    expect(stated.length).toBeGreaterThanOrEqual(20)
    expect(pages.flatMap((file) => wrongConstants(ROOT, file))).toEqual([])
  })

  const SOURCE =
    "export const ROWS = 20_000\nconst LIMITS: Limits = { otp: 400, service: 750 }\nconst LEASE = '10 seconds'\n" +
    'export const DEFAULTS = {\n  stallMs: 2000,\n  quick: { least: 250 },\n} as const\n'

  it('are right in each form of a declaration', () => {
    const root = withFiles({
      'src/a.ts': SOURCE,
      'docs/page.md':
        '[`ROWS = 20_000`](../src/a.ts) [`ROWS = 20000`](../src) [`LIMITS = { otp: 400, service: 750 }`](../src/a.ts)\n' +
        "[`LEASE = '10 seconds'`](../src/a.ts) [`stallMs = 2000`](../src/a.ts) [`quick = { least: 250 }`](../src/a.ts)\n",
    })
    expect(wrongConstants(root, 'docs/page.md')).toEqual([])
  })

  it('are reported with a wrong value, a wrong name, a missing file, and two values', () => {
    const root = withFiles({
      'src/a.ts': SOURCE,
      'src/b.ts': 'const ROWS = 5\n',
      'src/b.unit.test.ts': 'const LEASE = 1\n',
      'docs/page.md':
        '[`ROWS = 8`](../src/a.ts) [`ROW = 20_000`](../src/a.ts) [`ROWS = 5`](../c.ts) [`ROWS = 5`](../src)\n' +
        "[`LEASE = '10 seconds'`](../src)\n",
    })
    expect(wrongConstants(root, 'docs/page.md')).toEqual([
      'docs/page.md: ROWS = 8, but ../src/a.ts has 20_000',
      'docs/page.md: ROW = 20_000, but ../src/a.ts has no such constant',
      'docs/page.md: ROWS = 5, but ../c.ts has no such constant',
      'docs/page.md: ROWS = 5, but ../src has 20_000 and 5',
    ])
  })
})
