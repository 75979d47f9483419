/** The conditions of a run, for the pages of results. */
import { execFileSync } from 'node:child_process'
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os'

export interface Conditions {
  /** Cores, memory and Node version of the machine. */
  readonly machine: string
  /** The commit that is measured. */
  readonly commit: string
  /** Of the machine over the minute before the run: processes that use a core or wait for one. */
  readonly loadBefore: number
}

export const MACHINE = `${availableParallelism()} cores (${cpus()[0]?.model ?? 'unknown'}), ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}`

const git = (...args: ReadonlyArray<string>): string =>
  execFileSync('git', args, { encoding: 'utf8', cwd: new URL('.', import.meta.url) }).trim()

/** The end of the name of a commit that is not all that is measured. */
export const UNCOMMITTED = ' with uncommitted changes'

/** What a run writes. A run that follows another one measures the same program. */
const GENERATED = ['benchmarks/pages/*.json', 'benchmarks/*.md', 'benchmarks/charts', 'docs/capacity.md']

const commit = (): string => {
  const paths = GENERATED.map((path) => `:(top,exclude)${path}`)
  const changed = git('status', '--porcelain', '--untracked-files=no', '--', ':(top)', ...paths) !== ''
  return `${git('rev-parse', '--short', 'HEAD')}${changed ? UNCOMMITTED : ''}`
}

/** The conditions now, before the run. */
export const conditions = (): Conditions => ({
  machine: MACHINE,
  commit: commit(),
  loadBefore: loadavg()[0] ?? Number.NaN,
})

/** Above this load average before the run, the machine was not quiet. */
const QUIET_LOAD = 0.5

/** A sentence of a page if other work disturbed the run, else an empty text. */
export const disturbance = (loadBefore: number): string =>
  loadBefore > QUIET_LOAD
    ? ' **Other work disturbed this run.** Its figures are not those of the hub alone.'
    : ''
