/** Adds up the results of test runs. */

export interface Counts {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

export const NOTHING: Counts = { passed: 0, failed: 0, skipped: 0 }

/**
 * Returns the counts of one run, from the JSON report of vitest and its exit code. A run that fails
 * without a failed test (a file that does not load, an error outside of tests, a missing report)
 * counts as at least one failure.
 */
export const countsOf = (report: string | null, exitCode: number | null): Counts => {
  const parsed = report === null ? null : (JSON.parse(report) as VitestReport)
  const broken = (parsed?.testResults ?? []).filter(
    (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
  ).length
  const failed = (parsed?.numFailedTests ?? 0) + broken
  return {
    passed: parsed?.numPassedTests ?? 0,
    failed: exitCode === 0 ? failed : Math.max(1, failed),
    skipped: (parsed?.numPendingTests ?? 0) + (parsed?.numTodoTests ?? 0),
  }
}

interface VitestReport {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numTodoTests: number
  readonly testResults: ReadonlyArray<{
    readonly status: string
    readonly assertionResults: ReadonlyArray<{ readonly status: string }>
  }>
}

export const total = (all: ReadonlyArray<Counts>): Counts =>
  all.reduce(
    (sum, one) => ({
      passed: sum.passed + one.passed,
      failed: sum.failed + one.failed,
      skipped: sum.skipped + one.skipped,
    }),
    NOTHING,
  )

/** The last line of `npm test`. */
export const summarise = ({ failed, passed, skipped }: Counts): string =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
