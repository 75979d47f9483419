import { assert, describe, it } from '@effect/vitest'
import { encodeId } from '@hub/domain'
import { boundsOf, EVERYTHING, horizonOf, isFrom, monthOf, NIL, uuidFloor } from './horizon.ts'

const at = (text: string) => Date.parse(text)
const NOW = at('2026-11-21T12:00:00.000Z')

describe('what the topics can still tell', () => {
  it('is everything as long as nothing was removed from them', () => {
    assert.deepStrictEqual(horizonOf([], NOW), EVERYTHING)
    assert.deepInclude(boundsOf(EVERYTHING, NOW), { rows: NIL, batches: NIL, day: '0001-01-01' })
  })

  it('begins with the first month that no partition has lost anything of', () => {
    const horizon = horizonOf(
      [at('2025-10-20T00:00:00Z'), at('2025-10-22T10:00:00Z'), at('2025-09-01T00:00:00Z')],
      NOW,
    )
    // Sums begin where a message of before, accepted under its old id, can no longer add to them.
    assert.deepStrictEqual(horizon, {
      since: at('2025-11-01T00:00:00Z'),
      sumsSince: at('2025-12-02T00:00:00Z'),
    })
  })

  it('leaves a day for what waited before it was appended', () => {
    assert.strictEqual(horizonOf([at('2025-10-31T12:00:00Z')], NOW)?.since, at('2025-12-01T00:00:00Z'))
    assert.strictEqual(horizonOf([at('2025-10-30T23:59:59.999Z')], NOW)?.since, at('2025-11-01T00:00:00Z'))
  })

  it('is nothing where what is older may still change', () => {
    assert.isNull(horizonOf([at('2026-06-10T00:00:00Z')], NOW))
    assert.isNotNull(horizonOf([at('2026-05-10T00:00:00Z')], NOW))
    assert.isNull(horizonOf([NOW], NOW))
  })
})

describe('bounds', () => {
  const horizon = { since: at('2025-11-01T00:00:00Z'), sumsSince: at('2025-12-02T00:00:00Z') }

  it('are ids and days', () => {
    const kept = at('2026-08-23T12:00:00Z')
    assert.deepStrictEqual(boundsOf(horizon, kept), {
      rows: uuidFloor(horizon.since),
      operatorIds: uuidFloor(at('2026-08-01T00:00:00Z')),
      operatorIdsFrom: at('2026-08-01T00:00:00Z'),
      batches: uuidFloor(horizon.sumsSince),
      day: '2025-12-02',
    })
    assert.strictEqual(monthOf(kept), at('2026-08-01T00:00:00Z'))
  })

  it('part the ids of before from those of after, to the millisecond', () => {
    const idAt = (moment: number) => encodeId('msg', uuidFloor(moment).replace('-0000-0000', '-7000-8000'))
    assert.isTrue(isFrom(uuidFloor(horizon.since), 'msg', idAt(horizon.since)))
    assert.isFalse(isFrom(uuidFloor(horizon.since), 'msg', idAt(horizon.since - 1)))
    assert.isTrue(isFrom(NIL, 'msg', idAt(0)))
  })
})
