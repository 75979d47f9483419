/** Reads the reports of test runs: counts, failed tests and the slowest files. */
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
    /** In milliseconds since 1970. */
    readonly startTime: number
    readonly endTime: number
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

export interface FileTime {
  /** The path of the test file, relative to the repository. */
  readonly file: string
  readonly milliseconds: number
}

/** Returns the time from the first to the last test of each file of a JSON report of vitest. */
export const fileTimesOf = (report: string | null, root: string): ReadonlyArray<FileTime> => {
  const parsed = report === null ? null : (JSON.parse(report) as VitestReport)
  return (parsed?.testResults ?? []).map(({ endTime, name, startTime }) => ({
    file: relative(root, name),
    milliseconds: endTime - startTime,
  }))
}

/** The number of files that the end of the output lists. */
const SLOWEST_FILES = 10

/** Lists the files that took longest, with the slowest one first. */
export const listSlowest = (times: ReadonlyArray<FileTime>): string =>
  [
    'Slowest files:',
    ...times
      .toSorted((a, b) => b.milliseconds - a.milliseconds)
      .slice(0, SLOWEST_FILES)
      .map(({ file, milliseconds }) => `  ${(milliseconds / 1_000).toFixed(1).padStart(6)} s  ${file}`),
  ].join('\n')

/** The lines of a failure's message that the end of the output shows. */
const MESSAGE_LINES = 12

/** Lists the failed tests with the beginnings of their messages. */
export const listFailures = (failures: ReadonlyArray<Failure>): string =>
  [
    'Failed:',
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
