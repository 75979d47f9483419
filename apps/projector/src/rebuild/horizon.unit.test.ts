import { assert, describe, it } from '@effect/vitest'
import { encodeId } from '@hub/domain'
import { NIL_UUID, uuidFloor } from '@hub/store'
import { boundsOf, EVERYTHING, horizonOf, isFrom, monthOf } from './horizon.ts'

const at = (text: string) => Date.parse(text)
const NOW = at('2026-11-21T12:00:00.000Z')

describe('the horizon of a rebuild', () => {
  it('includes everything while the topics contain all records', () => {
    assert.deepStrictEqual(horizonOf([], NOW), EVERYTHING)
    assert.deepInclude(boundsOf(EVERYTHING, NOW), { rows: NIL_UUID, batches: NIL_UUID, day: '0001-01-01' })
  })

  it('begins with the first month of which every partition contains all records', () => {
    const horizon = horizonOf(
      [at('2025-10-20T00:00:00Z'), at('2025-10-22T10:00:00Z'), at('2025-09-01T00:00:00Z')],
      NOW,
    )
    // Aggregates begin where no message with an older id can contribute to them.
    assert.deepStrictEqual(horizon, {
      since: at('2025-11-01T00:00:00Z'),
      sumsSince: at('2025-12-02T00:00:00Z'),
    })
  })

  it('allows one day between a fact and its append', () => {
    assert.strictEqual(horizonOf([at('2025-10-31T12:00:00Z')], NOW)?.since, at('2025-12-01T00:00:00Z'))
    assert.strictEqual(horizonOf([at('2025-10-30T23:59:59.999Z')], NOW)?.since, at('2025-11-01T00:00:00Z'))
  })

  it('does not exist while older aggregates may change', () => {
    assert.isNull(horizonOf([at('2026-06-10T00:00:00Z')], NOW))
    assert.isNotNull(horizonOf([at('2026-05-10T00:00:00Z')], NOW))
    assert.isNull(horizonOf([NOW], NOW))
  })
})

describe('bounds', () => {
  const horizon = { since: at('2025-11-01T00:00:00Z'), sumsSince: at('2025-12-02T00:00:00Z') }

  it('express the horizon as ids and days', () => {
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

  it('separate ids before and after the horizon, to the millisecond', () => {
    const idAt = (moment: number) => encodeId('msg', uuidFloor(moment).replace('-0000-0000', '-7000-8000'))
    assert.isTrue(isFrom(uuidFloor(horizon.since), 'msg', idAt(horizon.since)))
    assert.isFalse(isFrom(uuidFloor(horizon.since), 'msg', idAt(horizon.since - 1)))
    assert.isTrue(isFrom(NIL_UUID, 'msg', idAt(0)))
  })
})
