/** Lets as many batches be sent at the same time as the pace allows, in the order in which they ask. */
import { afterAccepted, afterRefused, firstPace, type Pace } from './pace.ts'

/** The right to send one batch. Exactly one of the methods ends it. */
export interface Turn {
  readonly accepted: () => void
  /** The batch is sent again after a wait. Until its end, or until another one is accepted, none begins. */
  readonly refused: () => void
  /** The batch ends without an answer that says something about the load. */
  readonly failed: () => void
}

export interface Turns {
  /** Whether a batch that asks now could begin at once. */
  readonly isFree: () => boolean
  /** Rejects when the signal aborts. */
  readonly take: () => Promise<Turn>
  /** The wait of a refused batch is over. */
  readonly resume: () => void
}

/** `onFree`: called when a batch may begin. */
export const makeTurns = (most: number, signal: AbortSignal, onFree: () => void): Turns => {
  let pace: Pace = firstPace(most)
  let inProgress = 0
  let isPaused = false
  const waiting: Array<{ readonly begin: () => void; readonly fail: () => void }> = []
  signal.addEventListener('abort', () => {
    for (const { fail } of waiting.splice(0)) fail()
  })

  const mayBegin = (): boolean => !isPaused && inProgress < pace.limit
  const beginNext = (): void => {
    while (mayBegin() && waiting.length > 0) waiting.shift()?.begin()
    if (mayBegin()) onFree()
  }
  const begin = (): Turn => {
    const { reductions } = pace
    inProgress += 1
    const end = (): void => {
      inProgress -= 1
      beginNext()
    }
    return {
      accepted: () => {
        pace = afterAccepted(pace)
        isPaused = false
        end()
      },
      refused: () => {
        pace = afterRefused(pace, reductions)
        isPaused = true
        end()
      },
      failed: end,
    }
  }
  return {
    isFree: mayBegin,
    take: () =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason)
        waiting.push({ begin: () => resolve(begin()), fail: () => reject(signal.reason) })
        beginNext()
      }),
    resume: () => {
      isPaused = false
      beginNext()
    },
  }
}
