import { describe, expect, it } from 'vitest'
import { countsOf, NOTHING, summarise, total } from './test-counts.ts'

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
