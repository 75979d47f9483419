/** The seed that finds each mutation, as `run-mutations.ts` wrote it. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Found {
  readonly seed: number
  /** The guarantee that did not hold. */
  readonly violation: string
}

/** By the name of the mutation. `null`: no seed found it. */
type Results = Readonly<Record<string, Found | null>>

export const RESULTS = join(import.meta.dirname, 'results.json')

export const readResults = (): Results =>
  existsSync(RESULTS) ? (JSON.parse(readFileSync(RESULTS, 'utf8')) as Results) : {}
