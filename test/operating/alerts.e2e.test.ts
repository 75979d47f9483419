/** Checks the alert rules with promtool. */
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { unavailableReason } from '../support/prometheus.ts'
import { runTool } from '../support/external-tools.ts'

const FOLDER = join(import.meta.dirname, '../../infra/observability')
/** promtool takes 10 s of processor time for the unit tests, and more than a minute on a busy machine. */
const WITHIN = { withinMs: 180_000 } as const

describe('the alert rules', () => {
  it('are valid and pass their unit tests', async (context) => {
    const reason = await unavailableReason('promtool')
    if (reason !== null) {
      console.log(`Skipped, because promtool is not available: ${reason}`)
      context.skip(reason)
      return
    }
    const checked = await runTool('promtool', ['check', 'rules', join(FOLDER, 'alerts/hub.yml')], WITHIN)
    expect(checked.code, checked.text).toBe(0)
    const tested = await runTool('promtool', ['test', 'rules', join(FOLDER, 'tests/alerts.yml')], WITHIN)
    expect(tested.code, tested.text).toBe(0)
  })
})
