import { assert, describe, it } from 'vitest'
import { lagAt } from './projection.ts'
import type { ReadModelEnvironment } from './read-model-environment.ts'

describe('the lag at a steady rate', () => {
  it('is not measured further after an append was rejected', async () => {
    let appends = 0
    const environment = {
      prefix: '',
      start: async () => ({ pid: process.pid }),
      postgresCpu: () => 0,
      checkpoints: async () => new Map(),
      delivered: () => ({ messageId: '', records: [] }),
      append: async () => {
        appends += 1
        throw new Error('the broker rejected it')
      },
    } as unknown as ReadModelEnvironment
    const failure = await lagAt(environment, { perSecond: 1000, durationMs: 5000 }).catch(
      (error: unknown) => error,
    )
    assert.strictEqual(String(failure), 'Error: the broker rejected it')
    // Of 200 in all.
    assert.isBelow(appends, 100)
  })
})
