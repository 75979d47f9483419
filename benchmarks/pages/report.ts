/**
 * The results of the last runs, and the pages that are generated from them. `node scripts/run.mjs
 * benchmarks/pages/report.ts` only generates the pages.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { capacityPage } from './capacity-page.ts'
import { costPage } from './cost-page.ts'
import type { CostResults, GrowthResults } from './cost-results.ts'
import { flowPage, type FlowResults } from './flow-page.ts'
import { reflow } from './reflow.ts'
import { resultsPage } from './results-page.ts'
import type { Results } from './results.ts'

/** What is stored, by the name of its JSON file. */
interface Stored {
  readonly results: Results
  readonly flow: FlowResults
  readonly cost: CostResults
  readonly growth: GrowthResults
}

const fileOf = (name: keyof Stored): URL => new URL(`${name}.json`, import.meta.url)

export const stored = <Name extends keyof Stored>(name: Name): Stored[Name] =>
  JSON.parse(readFileSync(fileOf(name), 'utf8')) as Stored[Name]

/** The generated pages: path relative to the repository, and generator. */
export const PAGES: ReadonlyArray<{ readonly path: string; readonly generate: () => string }> = [
  { path: 'benchmarks/RESULTS.md', generate: () => resultsPage(stored('results')) },
  { path: 'benchmarks/FLOW.md', generate: () => flowPage(stored('flow')) },
  { path: 'benchmarks/COST.md', generate: () => costPage(stored('cost'), stored('growth')) },
  { path: 'docs/capacity.md', generate: () => capacityPage(stored('results'), stored('cost')) },
]

export const pageUrl = (path: string): URL => new URL(`../../${path}`, import.meta.url)

export const writePages = (): void => {
  for (const { generate, path } of PAGES) writeFileSync(pageUrl(path), reflow(generate()))
}

const LINE_WIDTH = 200

/** JSON in which a value that fits in a line has one line. */
export const jsonText = (value: unknown, indent = ''): string => {
  const line = JSON.stringify(value)
  if (typeof value !== 'object' || value === null || indent.length + line.length <= LINE_WIDTH) return line
  const inner = `${indent} `
  const isList = Array.isArray(value)
  const items = Object.entries(value).map(
    ([key, one]) => `${inner}${isList ? '' : `${JSON.stringify(key)}: `}${jsonText(one, inner)}`,
  )
  const [open, close] = isList ? '[]' : '{}'
  return `${open}\n${items.join(',\n')}\n${indent}${close}`
}

/** Stores the results of a run, and generates the pages again. */
export const store = <Name extends keyof Stored>(name: Name, results: Stored[Name]): void => {
  writeFileSync(fileOf(name), `${jsonText(results)}\n`)
  writePages()
}

/** Stores the figures of a benchmark that has no section. */
export const storeAlone = (benchmark: string, figures: Readonly<Record<string, number>>): void => {
  const results = stored('results')
  store('results', { ...results, alone: { ...results.alone, [benchmark]: figures } })
}

if (import.meta.main) writePages()
