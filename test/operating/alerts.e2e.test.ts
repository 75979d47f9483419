/** Alert rules, as Prometheus' own tool sees them. */
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { unavailableReason } from '../support/prometheus.ts'
import { runTool } from '../support/external-tools.ts'

const FOLDER = join(import.meta.dirname, '../../infra/observability')
const WITHIN = { withinMs: 60_000 } as const

describe('the alert rules', () => {
  it('are well formed, fire when they should, and stay quiet when they should', async (context) => {
    const reason = await unavailableReason('promtool')
    if (reason !== null) {
      console.log(`The alert rules were not tried: ${reason}`)
      context.skip(reason)
      return
    }
    const checked = await runTool('promtool', ['check', 'rules', join(FOLDER, 'alerts/hub.yml')], WITHIN)
    expect(checked.code, checked.text).toBe(0)
    const tested = await runTool('promtool', ['test', 'rules', join(FOLDER, 'tests/alerts.yml')], WITHIN)
    expect(tested.code, tested.text).toBe(0)
  })
})
