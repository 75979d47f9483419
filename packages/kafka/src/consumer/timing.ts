/** Time functions of the consumer. All of them use the monotonic clock. */

export const now = (): number => performance.now()

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
