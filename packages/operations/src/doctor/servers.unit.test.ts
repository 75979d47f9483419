import type { RedisState } from '@hub/counters'
import { assert, describe, it } from 'vitest'
import { assessRedis } from './servers.ts'

const RIGHT: RedisState = {
  version: '7.0.15',
  role: 'master',
  evictionPolicy: 'noeviction',
  latencyMs: 1,
  clockMs: 0,
  today: 0,
  primaries: null,
  sentinels: null,
}

describe('the finding about Redis', () => {
  it.each<readonly [Partial<RedisState>, 'well' | 'ill', RegExp]>([
    [{}, 'well', /^7\.0\.15, answers in 1 ms/u],
    [{ sentinels: { naming: 3, all: 3 } }, 'well', /^7\.0\.15, the primary of 3 Sentinels, answers in/u],
    [{ sentinels: { naming: 2, all: 3 } }, 'ill', /only 2 of 3 Sentinels say that it is the primary$/u],
    [{ primaries: 3 }, 'well', /^7\.0\.15, a cluster of 3 primaries, answers in/u],
    [{ role: 'slave' }, 'ill', /is a replica and refuses writes$/u],
    [{ evictionPolicy: 'allkeys-lru' }, 'ill', /can evict counters \(allkeys-lru\)$/u],
    [{ clockMs: 5000 }, 'ill', /its clock is 5000 ms ahead of ours$/u],
  ])('of %j', (change, verdict, said) => {
    const found = assessRedis({ ...RIGHT, ...change })
    assert.strictEqual(found.verdict, verdict)
    assert.match(found.said, said)
  })
})
