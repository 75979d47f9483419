/** Renders and lints the Helm chart with the packages of Helm. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CHART } from '../../../infra/helm/generated.ts'
import { cachedTool, type Found, runTool } from '../../support/external-tools.ts'
import { KUBERNETES } from '../manifests/tools.ts'

/** Compiling takes a minute of processor time, and minutes on a busy machine. */
export const COMPILED_WITHIN_MS = 600_000
const RUN_WITHIN_MS = 60_000

export type Values = Readonly<Record<string, unknown>>

export interface Run {
  /** `helm lint` in place of `helm template`. */
  readonly lint?: boolean
  /** Later ones win. */
  readonly values: ReadonlyArray<Values>
  readonly release?: string
  readonly kubernetes?: string
  /** What the cluster has: `group/version/kind`. */
  readonly apiVersions?: ReadonlyArray<string>
  /** Objects of the cluster. */
  readonly existing?: ReadonlyArray<Values>
}

export interface Output {
  readonly text: string
  readonly error: string
}

const sources = (): ReadonlyArray<string> =>
  readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(?:go|mod|sum)$/u.test(file))
    .sort()

/** The program of this folder. The cache keeps one for each state of its sources. */
const program = (): Promise<Found<{ readonly folder: string }>> => {
  const hash = createHash('sha256')
  for (const file of sources()) hash.update(readFileSync(join(import.meta.dirname, file)))
  return cachedTool(`helm-chart-${hash.digest('hex').slice(0, 16)}`, (folder) =>
    runTool('go', ['build', '-buildvcs=false', '-ldflags', '-s -w', '-o', join(folder, 'chart'), '.'], {
      cwd: import.meta.dirname,
      withinMs: COMPILED_WITHIN_MS,
    }),
  )
}

/** Runs the chart several times. `folder`: for a temporary file. */
export const runChart = async (
  runs: ReadonlyArray<Run>,
  folder: string,
): Promise<Found<ReadonlyArray<Output>>> => {
  const built = await program()
  if ('missing' in built) return { missing: `${built.missing} (Helm is compiled with Go: https://go.dev/dl)` }
  const input = join(folder, 'runs.json')
  const all = runs.map((one) => ({
    release: 'hub',
    namespace: 'sms-hub',
    kubernetes: KUBERNETES,
    apiVersions: [],
    existing: [],
    ...one,
  }))
  writeFileSync(input, JSON.stringify(all))
  const { code, text } = await runTool(join(built.folder, 'chart'), [CHART, input], {
    withinMs: RUN_WITHIN_MS,
  })
  if (code !== 0) throw new Error(text)
  return JSON.parse(text) as ReadonlyArray<Output>
}
