import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { assignShards, type AssignmentUserData, NEW_MEMBER, shardsOf, assignWithStandby } from './assignor.ts'

const member = (
  memberId: string,
  shards: ReadonlyArray<number> = [],
  generation = 1,
): AssignmentUserData => ({
  memberId,
  generation,
  shards,
})
const assigned = (userData: ReadonlyArray<AssignmentUserData>, count: number) =>
  Object.fromEntries(assignShards(userData, count))

describe('assignShards', () => {
  it('leaves everything where it is when nothing changed', () => {
    const userData = [member('a', [1, 4, 5]), member('b', [0, 2, 3])]
    assert.deepStrictEqual(assigned(userData, 6), { a: [1, 4, 5], b: [0, 2, 3] })
  })

  it('moves only what a newcomer gets', () => {
    assert.deepStrictEqual(assigned([member('a', [0, 1, 2, 3, 4, 5]), member('b', [], -1)], 6), {
      a: [0, 1, 2],
      b: [3, 4, 5],
    })
  })

  it('believes the later of two that claim the same shard', () => {
    const zombie = member('a', [0, 1, 2], 4)
    const owner = member('b', [0, 1, 2, 3, 4, 5], 6)
    assert.deepStrictEqual(assigned([zombie, owner], 6), { a: [3, 4, 5], b: [0, 1, 2] })
  })

  it('gives nobody nothing only where there are more members than shards', () => {
    const userData = ['a', 'b', 'c'].map((id) => member(id))
    assert.deepStrictEqual(assigned(userData, 2), { a: [0], b: [1], c: [] })
    assert.deepStrictEqual(assigned([], 2), {})
  })

  it('always gives each shard once, evenly, and takes away no more than evenness asks for', () => {
    const arbitrary = fc.record({
      count: fc.integer({ min: 0, max: 50 }),
      members: fc.uniqueArray(
        fc.record({
          memberId: fc.string({ minLength: 1, maxLength: 3 }),
          generation: fc.integer({ min: -1, max: 9 }),
          // Stale, repeated and impossible userData as well.
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

describe('assignWithStandby', () => {
  const newMember = (memberId: string): AssignmentUserData => member(memberId, [], NEW_MEMBER)
  const assigned = (userData: ReadonlyArray<AssignmentUserData>, count: number) =>
    Object.fromEntries(assignWithStandby(userData, count))
  const at = (shards: ReadonlyArray<number>, standby: ReadonlyArray<number> = []) => ({ shards, standby })

  it('leaves everything with its owners, and a newcomer reads ahead what it is to get', () => {
    assert.deepStrictEqual(assigned([member('a', [0, 1, 2, 3, 4, 5]), newMember('b')], 6), {
      a: at([0, 1, 2, 3, 4, 5]),
      b: at([], [3, 4, 5]),
    })
  })

  it('has the others take what a member left whose place a newcomer takes', () => {
    assert.deepStrictEqual(assigned([member('a', [0, 1]), member('b', [2, 3]), newMember('c')], 6), {
      a: at([0, 1, 4]),
      b: at([2, 3, 5]),
      c: at([], [4, 5]),
    })
  })

  it('gives just what was read ahead to who asks for it, whatever the others have by then', () => {
    const userData = [member('a', [0, 2, 5], 7), member('b', [1, 3, 4], 7), member('c', [0, 3], 8)]
    assert.deepStrictEqual(assigned(userData, 6), { a: at([2, 5]), b: at([1, 4]), c: at([0, 3]) })
  })

  it('shares everything among newcomers where there is nobody else', () => {
    assert.deepStrictEqual(assigned([newMember('a'), newMember('b')], 3), { a: at([0, 2]), b: at([1]) })
    assert.deepStrictEqual(assigned([], 3), {})
  })

  it('puts no shard on standby twice, nor with its owner, and all come to rest when all have asked', () => {
    const arbitrary = fc.record({
      count: fc.integer({ min: 0, max: 20 }),
      settled: fc.integer({ min: 0, max: 4 }),
      newcomers: fc.integer({ min: 0, max: 4 }),
      order: fc.array(fc.nat(3), { maxLength: 8 }),
    })
    fc.assert(
      fc.property(arbitrary, ({ count, newcomers, order, settled }) => {
        let generation = 1
        let userData: ReadonlyArray<AssignmentUserData> = [
          ...Array.from({ length: settled }, (_, n) => member(`old-${n}`)),
          ...Array.from({ length: newcomers }, (_, n) => newMember(`new-${n}`)),
        ]
        // Newcomers ask in any order, in the end all of them.
        for (const asking of [...order, 0, 1, 2, 3]) {
          const shares = assignWithStandby(userData, count)
          const owned = [...shares.values()].flatMap(({ shards }) => shards)
          assert.sameMembers(
            owned,
            userData.length === 0 ? [] : Array.from({ length: count }, (_, shard) => shard),
          )
          const standby = [...shares.values()].flatMap((share) => share.standby)
          assert.strictEqual(new Set(standby).size, standby.length)
          for (const share of shares.values())
            assert.isTrue(share.shards.length === 0 || share.standby.length === 0)
          generation++
          userData = userData.map((was) => {
            const share = shares.get(was.memberId)!
            if (was.generation !== NEW_MEMBER || share.shards.length > 0)
              return member(was.memberId, share.shards, generation)
            return was.memberId === `new-${asking}` && share.standby.length > 0
              ? member(was.memberId, share.standby, generation + 1)
              : was
          })
        }
        const last = assignWithStandby(userData, count)
        const sizes = [...last.values()].map(({ shards }) => shards.length)
        if (sizes.length > 0 && count >= sizes.length)
          assert.isAtMost(Math.max(...sizes) - Math.min(...sizes), 1)
      }),
    )
  })
})

describe('shardsOf', () => {
  it('knows shards on standby by the one topic that they come with', () => {
    const given = { log: [0, 1, 4], lane: [0, 1], reports: [0, 1] }
    assert.deepStrictEqual(shardsOf(given, 'log'), { shards: new Set([0, 1]), standby: new Set([4]) })
    assert.deepStrictEqual(shardsOf(given, undefined), {
      shards: new Set([0, 1, 4]),
      standby: new Set<number>(),
    })
  })
})
