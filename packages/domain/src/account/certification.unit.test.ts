import { assert, describe, it } from 'vitest'
import { CONFIRMATION_NAMES, certificationChecklist, type ObservedActivity } from './certification.ts'

const ALL: ObservedActivity = {
  testKeys: 1,
  delivered: 1,
  failed: 1,
  references: 1,
  webhooksReceived: 1,
  liveSenders: 1,
  liveTemplates: 1,
}
const open = (observed: ObservedActivity, confirmed: ReadonlyArray<string>) =>
  certificationChecklist(observed, new Set(confirmed)).flatMap(({ fulfilled, name }) =>
    fulfilled ? [] : [name],
  )

describe('the certification checklist', () => {
  it('is fulfilled by observations and confirmations together', () => {
    assert.deepStrictEqual(open(ALL, CONFIRMATION_NAMES), [])
    assert.deepStrictEqual(open(ALL, []), [...CONFIRMATION_NAMES])
  })

  it('lists each missing observation, and a confirmation cannot replace it', () => {
    const points = Object.keys(ALL) as ReadonlyArray<keyof ObservedActivity>
    const missed = points.map((name) => open({ ...ALL, [name]: 0 }, [...CONFIRMATION_NAMES, name]))
    assert.deepStrictEqual(missed, [
      ['test_key'],
      ['delivered'],
      ['failed'],
      ['references'],
      ['webhooks'],
      ['live_sender'],
      ['live_template'],
    ])
  })
})
