/**
 * Writes `results.json`, and generates `RESULTS.md` and, together with `cost.json`, `docs/capacity.md`. `node
 * benchmarks/report.ts` only generates the pages.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { capacityPage } from './capacity-page.ts'
import type { CostResults } from './cost-results.ts'
import { reflow } from './reflow.ts'
import { resultsPage } from './results-page.ts'
import type { Results } from './results.ts'

const RESULTS_JSON = new URL('results.json', import.meta.url)
const COST_JSON = new URL('cost.json', import.meta.url)

const readCost = (): CostResults => JSON.parse(readFileSync(COST_JSON, 'utf8')) as CostResults

/** The generated pages: path relative to the repository, and generator. */
export const PAGES: ReadonlyArray<{
  readonly path: string
  readonly generate: (results: Results) => string
}> = [
  { path: 'benchmarks/RESULTS.md', generate: (results) => reflow(resultsPage(results)) },
  { path: 'docs/capacity.md', generate: (results) => reflow(capacityPage(results, readCost())) },
]

export const pageUrl = (path: string): URL => new URL(`../${path}`, import.meta.url)

export const readResults = (): Results => JSON.parse(readFileSync(RESULTS_JSON, 'utf8')) as Results

export const writePages = (results: Results): void => {
  for (const { generate, path } of PAGES) writeFileSync(pageUrl(path), generate(results))
}

export const writeResults = (results: Results): void => {
  writeFileSync(RESULTS_JSON, `${JSON.stringify(results, null, 2)}\n`)
  writePages(results)
}

/** Stores the figures of a script that is not part of `npm run bench`. */
export const writeAlone = (script: string, figures: Readonly<Record<string, number>>): void => {
  const results = readResults()
  writeResults({ ...results, alone: { ...results.alone, [script]: figures } })
}

if (import.meta.main) writePages(readResults())
