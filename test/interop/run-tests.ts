import { type ChildProcess, spawn, type StdioOptions } from 'node:child_process'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'

interface Run {
  readonly child: ChildProcess
  /** The exit code, when its output has ended. `null`: a signal ended it. */
  readonly ended: Promise<number | null>
}

/** Starts tests of a kind: those whose files begin with one of the filters. */
export const runTests = (
  kind: 'int' | 'e2e',
  filters: ReadonlyArray<string>,
  variables: Readonly<Record<string, string>>,
  stdio: StdioOptions,
): Run => {
  const child = spawn(process.execPath, [join(ROOT, 'scripts/test.ts'), kind, ...filters], {
    cwd: ROOT,
    stdio,
    env: { ...process.env, ...variables },
  })
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return { child, ended }
}
