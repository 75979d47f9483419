import { describe, expect, it } from 'vitest'
import { changeBehaviour, DEFAULT_BEHAVIOUR, plannedReports, share } from './behaviour.ts'

describe('behaviour', () => {
  it('changes what is named and keeps the rest', () => {
    const changed = changeBehaviour(DEFAULT_BEHAVIOUR, { silent_percent: 50, throttle_per_second: 10 })
    expect(changed).toEqual({ ...DEFAULT_BEHAVIOUR, silent_percent: 50, throttle_per_second: 10 })
    expect(changeBehaviour(DEFAULT_BEHAVIOUR, { throttle_per_second: null })).toEqual(DEFAULT_BEHAVIOUR)
  })

  const refused: ReadonlyArray<{ readonly change: unknown }> = [
    { change: null },
    { change: [] },
    { change: 'fast' },
    { change: { speed: 1 } },
    { change: { toString: 1 } },
    { change: { silent_percent: 101 } },
    { change: { report_delay_ms: '1' } },
    { change: { report_delay_ms: -1 } },
    { change: { report_delay_ms: null } },
    { change: { silent_percent: 60, undelivered_percent: 60 } },
  ]
  it.each(refused)('refuses $change', ({ change }) => {
    expect(changeBehaviour(DEFAULT_BEHAVIOUR, change)).toHaveProperty('error')
  })

  it('hits about as many references as it says, always the same ones', () => {
    const references = Array.from({ length: 2000 }, (_, index) => `msg_${index}`)
    const silent = { ...DEFAULT_BEHAVIOUR, silent_percent: 25 }
    const hit = references.filter((reference) => plannedReports(silent, reference).length === 0)
    expect(hit.length).toBeGreaterThan(400)
    expect(hit.length).toBeLessThan(600)
    expect(references.filter((reference) => plannedReports(silent, reference).length === 0)).toEqual(hit)
  })

  it('gives shares of different questions that do not follow each other', () => {
    expect(share('msg_1', 'report')).not.toBe(share('msg_1', 'answer'))
  })

  it('reports a message that is seen twice, delivered first', () => {
    const reports = plannedReports({ ...DEFAULT_BEHAVIOUR, seen_percent: 100 }, 'msg_1')
    expect(reports.map(({ status }) => status)).toEqual(['delivered', 'seen'])
  })
})
