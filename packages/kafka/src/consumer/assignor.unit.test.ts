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
  it('moves no shard when nothing has changed', () => {
    const userData = [member('a', [1, 4, 5]), member('b', [0, 2, 3])]
    assert.deepStrictEqual(assigned(userData, 6), { a: [1, 4, 5], b: [0, 2, 3] })
  })

  it('moves only the shards that a new member gets', () => {
    assert.deepStrictEqual(assigned([member('a', [0, 1, 2, 3, 4, 5]), member('b', [], -1)], 6), {
      a: [0, 1, 2],
      b: [3, 4, 5],
    })
  })

  it('gives a shard that two members report to the later generation', () => {
    const zombie = member('a', [0, 1, 2], 4)
    const owner = member('b', [0, 1, 2, 3, 4, 5], 6)
    assert.deepStrictEqual(assigned([zombie, owner], 6), { a: [3, 4, 5], b: [0, 1, 2] })
  })

  it('leaves members without shards only if there are more members than shards', () => {
    const userData = ['a', 'b', 'c'].map((id) => member(id))
    assert.deepStrictEqual(assigned(userData, 2), { a: [0], b: [1], c: [] })
    assert.deepStrictEqual(assigned([], 2), {})
  })

  it('assigns each shard once, evenly, and moves no more shards than necessary', () => {
    const arbitrary = fc.record({
      count: fc.integer({ min: 0, max: 50 }),
      members: fc.uniqueArray(
        fc.record({
          memberId: fc.string({ minLength: 1, maxLength: 3 }),
          generation: fc.integer({ min: -1, max: 9 }),
          // Includes outdated, repeated and invalid shards.
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
        // The order of the members does not matter.
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

  it('leaves all shards with their owners, and puts the shards of a new member on standby', () => {
    assert.deepStrictEqual(assigned([member('a', [0, 1, 2, 3, 4, 5]), newMember('b')], 6), {
      a: at([0, 1, 2, 3, 4, 5]),
      b: at([], [3, 4, 5]),
    })
  })

  it('gives the shards of a member that left to the other established members', () => {
    assert.deepStrictEqual(assigned([member('a', [0, 1]), member('b', [2, 3]), newMember('c')], 6), {
      a: at([0, 1, 4]),
      b: at([2, 3, 5]),
      c: at([], [4, 5]),
    })
  })

  it('gives a member exactly the standby shards that it takes over', () => {
    const userData = [member('a', [0, 2, 5], 7), member('b', [1, 3, 4], 7), member('c', [0, 3], 8)]
    assert.deepStrictEqual(assigned(userData, 6), { a: at([2, 5]), b: at([1, 4]), c: at([0, 3]) })
  })

  it('assigns all shards to new members if there are no other members', () => {
    assert.deepStrictEqual(assigned([newMember('a'), newMember('b')], 3), { a: at([0, 2]), b: at([1]) })
    assert.deepStrictEqual(assigned([], 3), {})
  })

  it('puts no shard on standby twice or with its owner, and is even after all members took over', () => {
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
        // New members take over in any order, and finally all of them do.
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
  it('recognizes a standby shard by its only topic', () => {
    const given = { log: [0, 1, 4], lane: [0, 1], reports: [0, 1] }
    assert.deepStrictEqual(shardsOf(given, 'log'), { shards: new Set([0, 1]), standby: new Set([4]) })
    assert.deepStrictEqual(shardsOf(given, undefined), {
      shards: new Set([0, 1, 4]),
      standby: new Set<number>(),
    })
  })
})
