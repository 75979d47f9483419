/** A short run of `npm run histories`: two processes of each app, three brokers, and two faults. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { makeRun } from './run.ts'

describe('a recorded history of a short run under faults', () => {
  it('violates no guarantee', async () => {
    // It is outside of the folder of the test run, because it stays if the test fails: nobody can make this history again.
    const out = mkdtempSync(join(tmpdir(), 'hub-history-'))
    const lines: Array<string> = [`history and logs: ${out}`]
    const { page, result } = await makeRun(
      {
        seed: 1,
        rate: 20,
        seconds: 20,
        faults: ['kill', 'broker-loss'],
        out,
        keep: false,
        maxBytes: 64 * 1024 * 1024,
      },
      (line) => lines.push(line),
      new AbortController().signal,
    )
    const { availability, counts, findings } = result.verdict
    // A busy machine may need longer until a code is accepted again.
    const violations = findings.filter(({ guarantee }) => guarantee !== 'unavailable')
    expect({ violations, unsettled: result.unsettled }, lines.join('\n')).toEqual({
      violations: [],
      unsettled: [],
    })
    expect(availability.map(({ name }) => name).toSorted(), lines.join('\n')).toEqual(['broker-loss', 'kill'])
    expect(counts.accepted).toBeGreaterThan(0)
    expect(counts.submits).toBeGreaterThan(0)
    expect(counts.webhooks).toBeGreaterThan(0)
    expect(existsSync(page)).toBe(true)
    rmSync(out, { recursive: true })
  }, 600_000)
})
