/**
 * The longest time until the answer to a single request, as a test measures it, ms. The contract
 * promises 3 s, which the unit test of the request pipeline proves with a virtual clock. A busy machine
 * needs longer. A step without a deadline of its own would only end with the outage, or at the hard
 * deadline of a request, 20 s.
 * Source: AVL-4.
 */
export const ANSWERED_WITHIN_MS = 15_000

const STEP_MS = 20

/**
 * Begins to measure a time of this process, ms. The time in which the machine does not run the process does
 * not count: two steps of an interval are apart by as much, and only a part of it is taken. So a deadline
 * of this process is never late by this measure because others use the machine.
 */
export const beginTime = (): (() => number) => {
  let elapsed = 0
  let at = performance.now()
  const step = (): void => {
    const now = performance.now()
    elapsed += Math.min(now - at, 2 * STEP_MS)
    at = now
  }
  const interval = setInterval(step, STEP_MS).unref()
  return () => {
    clearInterval(interval)
    step()
    return elapsed
  }
}
