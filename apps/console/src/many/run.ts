/**
 * One action on many items: what is done, what waits, and how it goes on. Pure, apart from `drive`, which gets all that
 * it needs. The items are ids, which are no personal data, so that the browser may keep them.
 */

export const KINDS = ['retry', 'resend'] as const
/** `retry`: dead letters. `resend`: the webhook batches of a subscription. */
export type Kind = (typeof KINDS)[number]

/** An item without success: why, in a sentence. */
interface Failure {
  readonly id: string
  readonly message: string
}

/**
 * `stopping`: the stop waits for the answers of the items in progress. `stopped`: it can go on. `interrupted`: the page was
 * closed, or the session ended; it can go on. `failing`: it has stopped itself because one item after another failed.
 */
export type Phase = 'running' | 'stopping' | 'stopped' | 'failing' | 'interrupted' | 'ended'

export interface Run {
  readonly kind: Kind
  /** The subscription of the batches; `null`: the items need none. */
  readonly of: string | null
  /** Who has begun it: on the same device, another person must not continue it. */
  readonly by: string
  readonly phase: Phase
  readonly total: number
  readonly done: number
  /** Not begun yet. */
  readonly waiting: ReadonlyArray<string>
  /** Begun, and not answered yet. */
  readonly begun: ReadonlyArray<string>
  readonly failures: ReadonlyArray<Failure>
  /** Begun before the page was closed: the audit trail knows their outcome. */
  readonly unknown: ReadonlyArray<string>
}

export const newRun = (is: Pick<Run, 'kind' | 'of' | 'by'>, ids: ReadonlyArray<string>): Run => ({
  ...is,
  phase: 'running',
  total: ids.length,
  done: 0,
  waiting: ids,
  begun: [],
  failures: [],
  unknown: [],
})

const without = (ids: ReadonlyArray<string>, id: string): ReadonlyArray<string> =>
  ids.filter((one) => one !== id)

/** Takes the next item; `null`: nothing may begin. */
export const begin = (run: Run): readonly [id: string, run: Run] | null => {
  const [id, ...waiting] = run.waiting
  if (id === undefined || run.phase !== 'running') return null
  return [id, { ...run, waiting, begun: [...run.begun, id] }]
}

/** The phase when no item is in progress any more. */
const settled = (run: Run): Run => {
  if (run.begun.length > 0) return run
  if (run.waiting.length === 0 && run.phase !== 'interrupted') return { ...run, phase: 'ended' }
  return run.phase === 'stopping' ? { ...run, phase: 'stopped' } : run
}

export const succeed = (run: Run, id: string): Run =>
  settled({ ...run, done: run.done + 1, begun: without(run.begun, id) })

export const fail = (run: Run, id: string, message: string): Run =>
  settled({ ...run, failures: [...run.failures, { id, message }], begun: without(run.begun, id) })

/** The item was not begun after all: it waits again, and nothing else begins. */
export const putBack = (run: Run, id: string): Run => ({
  ...run,
  phase: 'interrupted',
  waiting: [id, ...run.waiting],
  begun: without(run.begun, id),
})

/** Lets nothing begin any more. */
export const stop = (run: Run, phase: 'stopping' | 'failing' = 'stopping'): Run =>
  run.phase === 'running' ? settled({ ...run, phase }) : run

/** Phases in which nothing is in progress. */
const AT_REST: ReadonlyArray<Phase> = ['stopped', 'failing', 'ended']

/** A run whose page was closed. */
export const interrupted = (run: Run): Run =>
  run.begun.length === 0 && AT_REST.includes(run.phase)
    ? run
    : { ...run, phase: 'interrupted', begun: [], unknown: [...run.unknown, ...run.begun] }

export const goOn = (run: Run): Run =>
  run.waiting.length === 0 ? { ...run, phase: 'ended' } : { ...run, phase: 'running' }

/** The items that failed wait again. */
export const failedAgain = (run: Run): Run =>
  goOn({ ...run, waiting: [...run.waiting, ...run.failures.map(({ id }) => id)], failures: [] })

const isText = (value: unknown): value is string => typeof value === 'string'
const areTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText)

/** The run in a stored text; `null`: there is none, or another version has written it. */
export const parseRun = (text: string | null): Run | null => {
  try {
    const run = JSON.parse(text ?? 'null') as Run | null
    const isRun =
      run !== null &&
      KINDS.includes(run.kind) &&
      (run.of === null || isText(run.of)) &&
      isText(run.by) &&
      Number.isInteger(run.total) &&
      Number.isInteger(run.done) &&
      [run.waiting, run.begun, run.unknown].every(areTexts) &&
      Array.isArray(run.failures) &&
      run.failures.every(({ id, message }) => isText(id) && isText(message))
    return isRun ? run : null
  } catch {
    return null
  }
}

/** What came of one item. */
export type Outcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly message: string }
  /** The hub has too much to do: the same item again, after a pause. */
  | { readonly kind: 'busy'; readonly message: string }
  /** The session has ended. */
  | { readonly kind: 'signed_out' }

/** The fan-out makes four resends of an account at a time, and others need one of these places. */
const RESENDS_AT_ONCE = 3
/** Dead letters of one recipient must keep their order. */
const AT_ONCE: Readonly<Record<Kind, number>> = { retry: 1, resend: RESENDS_AT_ONCE }
/** Ten items begin in a second at most. */
const BEGIN_EVERY_MS = 100
/** A resend takes up to ten seconds, and the hub has places for four. */
const PAUSE_MS = 1000
const MOST_PAUSES = 20
/** Then something is wrong with all of them, such as the receiver: more of the same helps nobody. */
export const MOST_FAILURES_IN_A_ROW = 10

interface Driver {
  readonly run: () => Run
  /** Shows and stores a changed run. */
  readonly save: (run: Run) => void
  readonly perform: (id: string) => Promise<Outcome>
  readonly sleep: (ms: number) => Promise<void>
}

/** Performs the items of a run until nothing is left, or it is stopped. */
export const drive = async ({ perform, run, save, sleep }: Driver): Promise<void> => {
  const workers = AT_ONCE[run().kind]
  let failedInARow = 0

  const performOne = async (id: string): Promise<void> => {
    for (let pauses = 0; ; pauses++) {
      const outcome = await perform(id)
      if (outcome.kind === 'busy' && pauses < MOST_PAUSES) {
        await sleep(PAUSE_MS)
        continue
      }
      if (outcome.kind === 'signed_out') return save(putBack(run(), id))
      if (outcome.kind === 'done') {
        failedInARow = 0
        return save(succeed(run(), id))
      }
      failedInARow += 1
      save(fail(run(), id, outcome.message))
      if (failedInARow >= MOST_FAILURES_IN_A_ROW) save(stop(run(), 'failing'))
      return
    }
  }

  const work = async (): Promise<void> => {
    for (;;) {
      const next = begin(run())
      if (next === null) return
      const [id, begun] = next
      // Stored before the request: after the end of the page, its outcome is unknown.
      save(begun)
      await Promise.all([performOne(id), sleep(workers * BEGIN_EVERY_MS)])
    }
  }
  await Promise.all(Array.from({ length: workers }, work))
}
