/**
 * The results of the benchmark: their shape, `results.json`, and the two pages that are generated
 * from it, `RESULTS.md` and `docs/capacity.md`. `node benchmarks/report.ts` generates both pages
 * again.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { capacityPage } from './capacity-page.ts'
import { reflow } from './reflow.ts'
import { resultsPage } from './results-page.ts'

/** One requirement: `value` must be at most `atMost`. */
export interface Target {
  readonly what: string
  readonly value: number
  readonly atMost: number
}

/** What one section of the benchmark measured. */
export interface Section {
  /** Raw figures by name. The generated pages read these. */
  readonly figures: Readonly<Record<string, number>>
  /**
   * Lines of the table in `RESULTS.md`. `ratio` relates the figure to the bare limit of the same
   * run.
   */
  readonly rows: ReadonlyArray<readonly [what: string, figure: string, ratio: string]>
  readonly targets: ReadonlyArray<Target>
}

/** The sections of `npm run bench`, in the order in which it runs them. */
export const SECTIONS = ['accepting', 'dispatching', 'webhooks', 'read-models'] as const
export type SectionName = (typeof SECTIONS)[number]

export interface Results {
  /** Cores, memory and Node version of the machine. */
  readonly machine: string
  /** Duration of the whole run. */
  readonly seconds: number
  readonly sections: Readonly<Record<SectionName, Section>>
  /** Figures of the scripts that run alone (`disk.ts`, `scaling.ts`) and of profiles, by script. */
  readonly alone: Readonly<Record<string, Readonly<Record<string, number>>>>
}

const RESULTS_JSON = new URL('results.json', import.meta.url)

/** The generated pages: path relative to the repository, and generator. */
export const PAGES: ReadonlyArray<{
  readonly path: string
  readonly generate: (results: Results) => string
}> = [
  { path: 'benchmarks/RESULTS.md', generate: (results) => reflow(resultsPage(results)) },
  { path: 'docs/capacity.md', generate: (results) => reflow(capacityPage(results)) },
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
