import { describe, expect, it } from 'vitest'
import {
  countsOf,
  type Failure,
  failuresOf,
  fileTimesOf,
  listFailures,
  listSlowest,
  NOTHING,
  summarise,
  total,
} from './test-counts.ts'

const report = (
  counts: { passed?: number; failed?: number; pending?: number; todo?: number },
  files: ReadonlyArray<{ status: string; tests: ReadonlyArray<string> }> = [],
): string =>
  JSON.stringify({
    numPassedTests: counts.passed ?? 0,
    numFailedTests: counts.failed ?? 0,
    numPendingTests: counts.pending ?? 0,
    numTodoTests: counts.todo ?? 0,
    testResults: files.map(({ status, tests }) => ({
      status,
      assertionResults: tests.map((one) => ({ status: one })),
    })),
  })

describe('countsOf', () => {
  it('returns the reported counts', () => {
    expect(countsOf(report({ passed: 3, pending: 1, todo: 1 }), 0)).toEqual({
      passed: 3,
      failed: 0,
      skipped: 2,
    })
    const failed = report({ passed: 3, failed: 2 }, [{ status: 'failed', tests: ['failed', 'failed'] }])
    expect(countsOf(failed, 1)).toEqual({ passed: 3, failed: 2, skipped: 0 })
  })

  it('counts a file that does not load as a failure', () => {
    const broken = report({ passed: 3 }, [
      { status: 'passed', tests: ['passed'] },
      { status: 'failed', tests: [] },
    ])
    expect(countsOf(broken, 1)).toEqual({ passed: 3, failed: 1, skipped: 0 })
  })

  it('counts a failure for an unexplained exit code and for a missing report', () => {
    expect(countsOf(report({ passed: 3 }), 1).failed).toBe(1)
    expect(countsOf(null, null)).toEqual({ passed: 0, failed: 1, skipped: 0 })
  })
})

const failure = (file: string, test: string | null = 'a test'): Failure => ({
  file,
  test,
  message: 'AssertionError: expected 1 to be 2',
})

describe('failuresOf', () => {
  it('returns each failed test, and a file that failed without one', () => {
    const written = JSON.stringify({
      testResults: [
        { name: '/repository/a.unit.test.ts', status: 'passed', message: '', assertionResults: [] },
        {
          name: '/repository/b.int.test.ts',
          status: 'failed',
          message: '',
          assertionResults: [
            { fullName: 'b works', status: 'passed', failureMessages: [] },
            { fullName: 'b fails', status: 'failed', failureMessages: ['first', 'second'] },
          ],
        },
        {
          name: '/repository/c.e2e.test.ts',
          status: 'failed',
          message: 'does not load',
          assertionResults: [],
        },
      ],
    })
    expect(failuresOf(written, '/repository')).toEqual([
      { file: 'b.int.test.ts', test: 'b fails', message: 'first\nsecond' },
      { file: 'c.e2e.test.ts', test: null, message: 'does not load' },
    ])
    expect(failuresOf(null, '/repository')).toEqual([])
  })
})

describe('fileTimesOf', () => {
  it('returns the time of each file', () => {
    const written = JSON.stringify({
      testResults: [
        { name: '/repository/a.unit.test.ts', startTime: 1_000, endTime: 1_250 },
        { name: '/repository/b.int.test.ts', startTime: 1_100, endTime: 4_100 },
      ],
    })
    expect(fileTimesOf(written, '/repository')).toEqual([
      { file: 'a.unit.test.ts', milliseconds: 250 },
      { file: 'b.int.test.ts', milliseconds: 3_000 },
    ])
    expect(fileTimesOf(null, '/repository')).toEqual([])
  })
})

describe('listSlowest', () => {
  it('prints the ten slowest files with their seconds, the slowest one first', () => {
    const times = Array.from({ length: 12 }, (_, index) => ({
      file: `${index}.int.test.ts`,
      milliseconds: index * 1_000,
    }))
    const lines = listSlowest(times).split('\n')
    expect(lines.slice(0, 2)).toEqual(['Slowest files:', '    11.0 s  11.int.test.ts'])
    expect(lines).toHaveLength(1 + 10)
  })
})

describe('listFailures', () => {
  it('prints the file, the name of the test and the beginning of its message', () => {
    const long = { ...failure('b.int.test.ts', null), message: 'line\n'.repeat(100) }
    const lines = listFailures([failure('a.int.test.ts'), long]).split('\n')
    expect(lines.slice(0, 4)).toEqual([
      'Failed:',
      '  a.int.test.ts > a test',
      '    AssertionError: expected 1 to be 2',
      '  b.int.test.ts',
    ])
    expect(lines).toHaveLength(4 + 12)
  })
})

describe('summarise', () => {
  it('prints the sum, and skipped tests only if there are any', () => {
    const sum = total([
      { passed: 2, failed: 0, skipped: 0 },
      { passed: 3, failed: 1, skipped: 0 },
    ])
    expect(summarise(sum)).toBe('5 passed, 1 failed')
    expect(summarise({ ...sum, skipped: 4 })).toBe('5 passed, 1 failed, 4 skipped')
    expect(summarise(total([]))).toBe(summarise(NOTHING))
  })
})
