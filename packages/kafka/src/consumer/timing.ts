/** Time functions of the consumer. All of them use the monotonic clock. */

export const now = (): number => performance.now()

/** The delay before a retry: it doubles from the first to the longest delay. Milliseconds. */
const BACKOFF_MS = { first: 200, longest: 5000 }

/** The delay after this number of failures in a row, of a batch or an instance. Milliseconds. */
export const backoffMs = (failures: number): number =>
  Math.min(BACKOFF_MS.longest, BACKOFF_MS.first * 2 ** Math.min(10, failures - 1))

/** Resolves when the promise is settled, whatever its outcome, or after this time. */
export const waitAtMost = (ms: number, promise: Promise<unknown>): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    const settled = () => {
      clearTimeout(timer)
      resolve()
    }
    promise.then(settled, settled)
  })
