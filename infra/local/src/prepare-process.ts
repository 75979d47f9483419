/**
 * Prepares a hub in a process of its own. The packages that it needs take 70 MiB, which the supervisor
 * would keep as long as the hub runs.
 *
 *   prepare-process.ts [URL of the prepare.ts of another checkout]
 */
import type { prepareDatabase, prepareTopics } from './prepare.ts'

type Arguments<F extends (...args: never) => unknown> =
  Parameters<F> extends [...infer A, AbortSignal] ? A : never

export type PreparationTask =
  | { readonly kind: 'database'; readonly of: Arguments<typeof prepareDatabase> }
  | { readonly kind: 'topics'; readonly of: Arguments<typeof prepareTopics> }
  /** Looks for variables that look like settings and are none. */
  | { readonly kind: 'variables'; readonly of: readonly [names: ReadonlyArray<string>] }

export interface PreparationRequest {
  readonly number: number
  readonly task: PreparationTask
}

export interface PreparationResult {
  readonly number: number
  /** For the user. */
  readonly lines: ReadonlyArray<string>
  /** The message of a `UserError`, or the stack of another error. */
  readonly failure: { readonly message: string; readonly isUserError: boolean } | null
}

type Preparation = typeof import('./prepare.ts')

const perform = async ({ kind, of }: PreparationTask): Promise<ReadonlyArray<string>> => {
  if (kind === 'variables') {
    const { describeUnknown, unknownVariables } = await import('@hub/config')
    return unknownVariables(of[0]).map(describeUnknown)
  }
  const [url] = process.argv.slice(2)
  const prepare = (await (url === undefined ? import('./prepare.ts') : import(url))) as Preparation
  // The supervisor aborts a task by ending this process.
  const { signal } = new AbortController()
  if (kind === 'database') await prepare.prepareDatabase(...of, signal)
  else await prepare.prepareTopics(...of, signal)
  return []
}

const answer = async ({ number, task }: PreparationRequest): Promise<PreparationResult> => {
  try {
    return { number, lines: await perform(task), failure: null }
  } catch (error) {
    // Another checkout has a class `UserError` of its own.
    const isUserError = error instanceof Error && error.name === 'Problem'
    const text = error instanceof Error ? (isUserError ? error.message : error.stack) : undefined
    return { number, lines: [], failure: { message: text ?? String(error), isUserError } }
  }
}

process.on('message', (request: PreparationRequest) => {
  void answer(request).then((result) => process.send?.(result))
})
