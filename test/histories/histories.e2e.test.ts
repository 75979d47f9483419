/** A short run of `npm run histories`: two processes of each app, three brokers, and two faults. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { makeRun } from './run.ts'

const parent = process.env['HUB_TEST_DIR'] ?? tmpdir()
const out = mkdtempSync(join(parent, 'histories-pages-'))
afterAll(() => rmSync(out, { recursive: true, force: true }))

describe('a recorded history of a short run under faults', () => {
  it('violates no guarantee', async () => {
    const lines: Array<string> = []
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
  }, 600_000)
})
