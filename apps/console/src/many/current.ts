/**
 * The run of this browser. It goes on while the person opens other pages of the console, and ends with the tab: then it is
 * kept, and can go on later. Another tab does not touch it.
 */
import { effect, signal } from '@preact/signals'
import { request, RequestFailed, session } from '../api/client.ts'
import type { Attempt } from '../api/types.ts'
import { wordsOf } from '../format/number.ts'
import { durationText } from '../format/time.ts'
import { readChoice, writeChoice } from '../storage.ts'
import { strings } from '../strings.ts'
import { drive, goOn, interrupted, type Kind, newRun, type Outcome, parseRun, type Run, stop } from './run.ts'

const KEY = 'run'

/** Held by the tab that performs the run. */
const LOCK = 'run'

/** The run of this tab, or the one that another tab has left. */
export const currentRun = signal<Run | null>(null)

/** The name of the person; '' while nobody is signed in. */
export const personName = (): string => (session.value.state === 'signed_in' ? session.value.me.name : '')

const save = (run: Run | null): void => {
  currentRun.value = run
  writeChoice(KEY, JSON.stringify(run))
}

/** Calls `work` as the only tab. Returns false if another tab performs a run. */
const asOnlyTab = async (work: () => Promise<void>): Promise<boolean> => {
  // Without a secure context there are no locks, and there is only one person at one tab.
  if (navigator.locks === undefined) {
    await work()
    return true
  }
  return navigator.locks.request(LOCK, { ifAvailable: true }, async (lock) => {
    if (lock === null) return false
    await work()
    return true
  })
}

/** Codes of the API after which the same request succeeds later. Nothing was done. */
const BUSY: ReadonlySet<string> = new Set(['too_many', 'overloaded'])

const failureOf = (error: unknown): Outcome => {
  if (!(error instanceof RequestFailed)) throw error
  const { failure } = error
  if (failure.kind === 'signed_out') return { kind: 'signed_out' }
  if (failure.kind === 'unavailable') return { kind: 'failed', message: strings.failures.unavailable.title }
  return { kind: BUSY.has(failure.code) ? 'busy' : 'failed', message: failure.message }
}

const post = <A>(path: string, body: unknown): Promise<A> => request<A>(path, { method: 'POST', body })

/** The existing operation for one item, so it has the same permission and the same line in the audit trail. */
const PERFORM: Readonly<Record<Kind, (id: string, of: string) => Promise<Outcome>>> = {
  retry: async (id) => {
    await post('/v1/dead_letters/retry', { id })
    return { kind: 'done' }
  },
  resend: async (id, of) => {
    const path = `/v1/webhook_endpoints/${encodeURIComponent(of)}/resend`
    const made = await post<Attempt>(path, { event_batch: id })
    return made.status === 'succeeded'
      ? { kind: 'done' }
      : {
          kind: 'failed',
          message: strings.webhooks.outcome(
            made.response_code,
            wordsOf(made.reason ?? ''),
            durationText(made.duration_ms),
          ),
        }
  },
}

const warn = (event: BeforeUnloadEvent): void => event.preventDefault()

/**
 * Performs a run in this tab. Returns false if another tab performs one. `next`: the run, when no other tab has one; `null`:
 * there is nothing to do any more.
 */
const perform = async (next: () => Run | null): Promise<boolean> => {
  const { promise: begun, resolve } = Promise.withResolvers<boolean>()
  const only = asOnlyTab(async () => {
    const run = next()
    save(run)
    if (run === null) return
    window.addEventListener('beforeunload', warn)
    resolve(true)
    try {
      await drive({
        run: () => currentRun.value ?? run,
        save,
        perform: (id) => PERFORM[run.kind](id, run.of ?? '').catch(failureOf),
        sleep: (ms) =>
          new Promise((done) => {
            setTimeout(done, ms)
          }),
      })
    } finally {
      window.removeEventListener('beforeunload', warn)
    }
  })
  return Promise.race([begun, only])
}

export const startRun = (kind: Kind, of: string | null, ids: ReadonlyArray<string>): Promise<boolean> =>
  perform(() => newRun({ kind, of, by: personName() }, ids))

export const stopRun = (): void => {
  if (currentRun.value !== null) save(stop(currentRun.value))
}

/** What the last tab has stored: another one may have continued the run, or closed it. */
const storedRun = (): Run | null => {
  const text = readChoice(KEY)
  // Storage can be forbidden.
  return text === null ? currentRun.value : parseRun(text)
}

/** Performs those that wait, or also those that failed. */
export const continueRun = async (next: (run: Run) => Run = goOn): Promise<void> => {
  const isHere = await perform(() => {
    const run = storedRun()
    return run === null ? null : next(interrupted(run))
  })
  // The other tab shows it.
  if (!isHere) currentRun.value = null
}

/** Forgets a run that is not in progress. What it has done stays done. */
export const closeRun = (): void => save(null)

/** Shows the run that a closed page has left, to the person who began it. */
export const findRun = (): void => {
  const run = parseRun(readChoice(KEY))
  if (run === null || currentRun.value !== null || run.by !== personName()) return
  // If another tab performs it, it is not interrupted.
  void asOnlyTab(async () => save(interrupted(run)))
}

/** Calls `changed` when items of a run have been performed and nothing is in progress any more. */
export const onRunEnd = (changed: () => void): (() => void) => {
  let wasBusy = false
  return effect(() => {
    const phase = currentRun.value?.phase
    const isBusy = phase === 'running' || phase === 'stopping'
    if (wasBusy && !isBusy) changed()
    wasBusy = isBusy
  })
}
