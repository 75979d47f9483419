/**
 * Prepares a hub in a process of its own. The packages that it needs take 70 MiB, which the supervisor
 * would keep as long as the hub runs.
 *
 *   prepare-process.ts [URL of the prepare.ts of another checkout]
 */
import type { prepareDatabase, prepareTopics } from './prepare.ts'

type PrepareDatabase = Parameters<typeof prepareDatabase>
type PrepareTopics = Parameters<typeof prepareTopics>

export type PreparationTask =
  | { readonly kind: 'database'; readonly of: readonly [PrepareDatabase[0], PrepareDatabase[1]] }
  | { readonly kind: 'topics'; readonly of: readonly [PrepareTopics[0], PrepareTopics[1]] }
  /** Looks for variables that look like settings and are none. */
  | { readonly kind: 'variables'; readonly of: readonly [names: ReadonlyArray<string>] }

export interface PreparationRequest {
  readonly number: number
  readonly task: PreparationTask
}

interface PreparationResult {
  readonly number: number
  /** The message of a `UserError`, or the stack of another error. */
  readonly failure: { readonly message: string; readonly isUserError: boolean } | null
}

/** What the process sends: a line for the user, or the result of a task. */
export type PreparationMessage = { readonly line: string } | PreparationResult

type Preparation = typeof import('./prepare.ts')

const send = (message: PreparationMessage): void => void process.send?.(message)
const report = (line: string): void => send({ line })

const perform = async ({ kind, of }: PreparationTask): Promise<void> => {
  if (kind === 'variables') {
    const { describeUnknown, unknownVariables } = await import('@hub/config')
    unknownVariables(of[0]).map(describeUnknown).forEach(report)
    return
  }
  const [url] = process.argv.slice(2)
  const prepare = (await (url === undefined ? import('./prepare.ts') : import(url))) as Preparation
  // The supervisor aborts a task by ending this process.
  const { signal } = new AbortController()
  if (kind === 'database') await prepare.prepareDatabase(...of, signal, report)
  else await prepare.prepareTopics(...of, signal)
}

const answer = async ({ number, task }: PreparationRequest): Promise<PreparationResult> => {
  try {
    await perform(task)
    return { number, failure: null }
  } catch (error) {
    // Another checkout has a class `UserError` of its own.
    const isUserError = error instanceof Error && error.name === 'Problem'
    const text = error instanceof Error ? (isUserError ? error.message : error.stack) : undefined
    return { number, failure: { message: text ?? String(error), isUserError } }
  }
}

process.on('message', (request: PreparationRequest) => {
  void answer(request).then(send)
})
