/**
 * Lets as many batches be sent at the same time as the pace allows. One more may wait for its turn, so that it
 * begins in the moment in which another one is answered.
 */
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
  /** Whether no batch waits for its turn. */
  readonly isEmpty: () => boolean
  /**
   * `isRepeat`: the wait of a refused batch is over, and it comes before one that was not sent yet. Rejects when
   * the signal aborts.
   */
  readonly take: (isRepeat: boolean) => Promise<Turn>
}

/** `onEmpty`: called when no batch waits for its turn. */
export const makeTurns = (most: number, signal: AbortSignal, onEmpty: () => void): Turns => {
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
    if (waiting.length === 0) onEmpty()
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
    isEmpty: () => waiting.length === 0,
    take: (isRepeat) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason)
        const asking = { begin: () => resolve(begin()), fail: () => reject(signal.reason) }
        if (isRepeat) {
          isPaused = false
          waiting.unshift(asking)
        } else waiting.push(asking)
        beginNext()
      }),
  }
}
