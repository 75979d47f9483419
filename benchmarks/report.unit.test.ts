import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { PAGES, pageUrl, readResults } from './report.ts'
import { SECTIONS } from './results.ts'

describe('the pages generated from results.json', () => {
  it.each(PAGES.map(({ generate, path }) => [path, generate] as const))(
    '%s equals what the generator makes of the results (to update: node scripts/run.mjs benchmarks/report.ts)',
    (path, generate) => {
      expect(readFileSync(pageUrl(path), 'utf8')).toBe(generate(readResults()))
    },
  )

  it('RESULTS.md names every section', () => {
    const page = readFileSync(pageUrl('benchmarks/RESULTS.md'), 'utf8')
    for (const section of SECTIONS) expect(page).toContain(`\`${section}\``)
  })
})
