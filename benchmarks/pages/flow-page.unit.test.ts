import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type FlowResults, flowPage } from './flow-page.ts'
import { stored } from './report.ts'

const fileUrl = (path: string): URL => new URL(`../${path}`, import.meta.url)

const resultsWith = (targets: ReadonlyArray<{ what: string; value: number | null; atMost: number }>) =>
  ({
    machine: '2 cores',
    commit: 'abc',
    loadBefore: 0,
    seconds: 1,
    sections: [{ name: 'pacing', seconds: 1, figures: {}, rows: [], targets, charts: [] }],
  }) as unknown as FlowResults

describe('the page of the behaviour under load', () => {
  const results = stored('flow')

  it('shows charts that exist', () => {
    const charts = results.sections.flatMap((section) => section.charts)
    expect(charts.filter(({ file }) => !existsSync(fileUrl(file)))).toEqual([])
    expect(charts.length).toBeGreaterThan(0)
  })

  it('names each missed target at the top, also one that was not measured', () => {
    const page = flowPage(
      resultsWith([
        { what: 'first', value: 1, atMost: 1 },
        { what: 'second', value: 2, atMost: 1 },
        { what: 'third', value: null, atMost: 1 },
      ]),
    )
    expect(page).toContain('**1 of 3 targets are met.** Missed:')
    expect(page).toContain('- Pacing: second: 2 instead of at most 1\n')
    expect(page).toContain('- Pacing: third: not measured instead of at most 1\n')
  })
})
