import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { reflow } from './reflow.ts'
import { jsonText, PAGES, pageUrl } from './report.ts'
import { SECTIONS } from './results.ts'

describe('the pages generated from the stored results', () => {
  it.each(PAGES.map(({ generate, path }) => [path, generate] as const))(
    '%s equals what the generator makes of the results (to update: node scripts/run.mjs benchmarks/pages/report.ts)',
    (path, generate) => {
      expect(readFileSync(pageUrl(path), 'utf8')).toBe(reflow(generate()))
    },
  )

  it('RESULTS.md names every section', () => {
    const page = readFileSync(pageUrl('benchmarks/RESULTS.md'), 'utf8')
    for (const section of SECTIONS) expect(page).toContain(`\`${section}\``)
  })
})

describe('the stored results', () => {
  it('are the same values', () => {
    const results = {
      text: 'a "quoted" one',
      nothing: null,
      empty: { list: [], object: {} },
      numbers: [123_456_789, 1234.567_890_123, true],
      long: Array.from({ length: 100 }, (_, i) => ({ i, name: `number ${i}` })),
    }
    expect(JSON.parse(jsonText(results))).toEqual(results)
  })
})
