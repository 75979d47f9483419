/** Reads the reports of test runs: counts, failed tests, and the files that run a second time. */
import { relative } from 'node:path'

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
    /** The path of the test file. */
    readonly name: string
    readonly status: string
    readonly message: string
    readonly assertionResults: ReadonlyArray<{
      readonly fullName: string
      readonly status: string
      readonly failureMessages: ReadonlyArray<string>
    }>
  }>
}

export interface Failure {
  /** The path of the test file, relative to the repository. */
  readonly file: string
  /** The full name of the test, or null if the file itself failed. */
  readonly test: string | null
  readonly message: string
}

/** Returns the failed tests of a JSON report of vitest, and the files that failed without one. */
export const failuresOf = (report: string | null, root: string): ReadonlyArray<Failure> => {
  const parsed = report === null ? null : (JSON.parse(report) as VitestReport)
  return (parsed?.testResults ?? []).flatMap((result): ReadonlyArray<Failure> => {
    if (result.status !== 'failed') return []
    const file = relative(root, result.name)
    const tests = result.assertionResults.filter(({ status }) => status === 'failed')
    if (tests.length === 0) return [{ file, test: null, message: result.message }]
    return tests.map((test) => ({ file, test: test.fullName, message: test.failureMessages.join('\n') }))
  })
}

/** More failed files than this are no accident: then none of them runs again. */
const MAX_REPEATED_FILES = 3
/** A random fault that loses a message once is a defect, whatever a second run shows. */
const NEVER_REPEATED = 'test/chaos/'

/**
 * Returns the test files that run a second time (decision 51): the files of integration and
 * end-to-end tests that failed, if they are few. Unit tests depend on nothing outside of their
 * process, so they never run again.
 */
export const filesToRepeat = (failures: ReadonlyArray<Failure>): ReadonlyArray<string> => {
  const files = [...new Set(failures.map(({ file }) => file))]
  const repeatable = files.every(
    (file) => /\.(?:int|e2e)\.test\.ts$/u.test(file) && !file.startsWith(NEVER_REPEATED),
  )
  return repeatable && files.length <= MAX_REPEATED_FILES ? files : []
}

/** The lines of a failure's message that the end of the output shows. */
const MESSAGE_LINES = 12

/** Lists the failed tests with the beginnings of their messages. */
export const listFailures = (title: string, failures: ReadonlyArray<Failure>): string =>
  [
    title,
    ...failures.flatMap(({ file, test, message }) => [
      `  ${file}${test === null ? '' : ` > ${test}`}`,
      ...message
        .split('\n')
        .slice(0, MESSAGE_LINES)
        .map((line) => `    ${line}`),
    ]),
  ].join('\n')

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
