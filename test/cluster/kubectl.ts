/** Runs kubectl against one cluster. */
import { attempt, type Ended, run } from '../support/shell.ts'

export interface Kubectl {
  readonly kubeconfig: string
  /** Returns the standard output. Fails with the answer of kubectl. */
  readonly run: (args: ReadonlyArray<string>, withinMs?: number) => Promise<string>
  /** Returns with any exit code. */
  readonly attempt: (args: ReadonlyArray<string>, withinMs?: number) => Promise<Ended>
  /** The answer as JSON. */
  readonly get: (...args: ReadonlyArray<string>) => Promise<any>
  /** Waits until the pods of a workload are replaced and ready. */
  readonly rolledOut: (namespace: string, workload: string, seconds: number) => Promise<void>
  /** Applies manifests, which are given as text. */
  readonly apply: (manifests: string, ...options: ReadonlyArray<string>) => Promise<string>
}

/** `path` returns the path of kubectl, which may not be built yet. */
export const makeKubectl = (path: () => string, kubeconfig: string): Kubectl => {
  const withConfig = (args: ReadonlyArray<string>): ReadonlyArray<string> => [
    '--kubeconfig',
    kubeconfig,
    ...args,
  ]
  const options = (withinMs?: number) => (withinMs === undefined ? {} : { withinMs })
  return {
    kubeconfig,
    run: (args, withinMs) => run(path(), withConfig(args), options(withinMs)),
    attempt: (args, withinMs) => attempt(path(), withConfig(args), options(withinMs)),
    get: async (...args) => JSON.parse(await run(path(), withConfig(['get', ...args, '--output=json']))),
    rolledOut: async (namespace, workload, seconds) => {
      const status = ['--namespace', namespace, 'rollout', 'status', workload, `--timeout=${seconds}s`]
      // kubectl ends by itself at its limit, and says what it waited for.
      await run(path(), withConfig(status), { withinMs: (seconds + 10) * 1000 })
    },
    apply: (manifests, ...more) =>
      run(path(), withConfig(['apply', '--filename=-', ...more]), { input: manifests }),
  }
}
