import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { assignShards, type Claim } from './assigner.ts'

const claim = (memberId: string, shards: ReadonlyArray<number> = [], generation = 1): Claim => ({
  memberId,
  generation,
  shards,
})
const shared = (claims: ReadonlyArray<Claim>, count: number) =>
  Object.fromEntries(assignShards(claims, count))

describe('assignShards', () => {
  it('leaves everything where it is when nothing changed', () => {
    const claims = [claim('a', [1, 4, 5]), claim('b', [0, 2, 3])]
    assert.deepStrictEqual(shared(claims, 6), { a: [1, 4, 5], b: [0, 2, 3] })
  })

  it('moves only what a newcomer gets', () => {
    assert.deepStrictEqual(shared([claim('a', [0, 1, 2, 3, 4, 5]), claim('b', [], -1)], 6), {
      a: [0, 1, 2],
      b: [3, 4, 5],
    })
  })

  it('believes the later of two that claim the same shard', () => {
    const zombie = claim('a', [0, 1, 2], 4)
    const owner = claim('b', [0, 1, 2, 3, 4, 5], 6)
    assert.deepStrictEqual(shared([zombie, owner], 6), { a: [3, 4, 5], b: [0, 1, 2] })
  })

  it('gives nobody nothing only where there are more members than shards', () => {
    const claims = ['a', 'b', 'c'].map((id) => claim(id))
    assert.deepStrictEqual(shared(claims, 2), { a: [0], b: [1], c: [] })
    assert.deepStrictEqual(shared([], 2), {})
  })

  it('always gives each shard once, evenly, and takes away no more than evenness asks for', () => {
    const arbitrary = fc.record({
      count: fc.integer({ min: 0, max: 50 }),
      members: fc.uniqueArray(
        fc.record({
          memberId: fc.string({ minLength: 1, maxLength: 3 }),
          generation: fc.integer({ min: -1, max: 9 }),
          // Stale, repeated and impossible claims as well.
          shards: fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 60 }),
        }),
        { selector: ({ memberId }) => memberId, minLength: 1, maxLength: 8 },
      ),
    })
    fc.assert(
      fc.property(arbitrary, ({ count, members }) => {
        const owned = assignShards(members, count)
        const all = [...owned.values()].flat()
        assert.sameMembers(
          all,
          Array.from({ length: count }, (_, shard) => shard),
        )
        const sizes = members.map(({ memberId }) => owned.get(memberId)!.length)
        assert.isAtMost(Math.max(...sizes) - Math.min(...sizes), 1)
        const newest = Math.max(...members.map(({ generation }) => generation))
        const first = members
          .filter(({ generation }) => generation === newest)
          .sort((a, b) => (a.memberId < b.memberId ? -1 : 1))[0]!
        const valid = new Set(first.shards.filter((shard) => shard < count))
        const keeps = owned.get(first.memberId)!.filter((shard) => valid.has(shard)).length
        assert.isAtLeast(keeps, Math.min(valid.size, Math.floor(count / members.length)))
        // The order in which members are listed does not matter.
        assert.deepStrictEqual(
          Object.fromEntries(assignShards([...members].reverse(), count)),
          Object.fromEntries(owned),
        )
      }),
    )
  })
})
