import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { assignShards, type Claim, NEWCOMER, shareOf, shareOut } from './assignor.ts'

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

describe('shareOut', () => {
  const newcomer = (memberId: string): Claim => claim(memberId, [], NEWCOMER)
  const shared = (claims: ReadonlyArray<Claim>, count: number) => Object.fromEntries(shareOut(claims, count))
  const at = (shards: ReadonlyArray<number>, standby: ReadonlyArray<number> = []) => ({ shards, standby })

  it('leaves everything with its owners, and a newcomer reads ahead what it is to get', () => {
    assert.deepStrictEqual(shared([claim('a', [0, 1, 2, 3, 4, 5]), newcomer('b')], 6), {
      a: at([0, 1, 2, 3, 4, 5]),
      b: at([], [3, 4, 5]),
    })
  })

  it('has the others take what a member left whose place a newcomer takes', () => {
    assert.deepStrictEqual(shared([claim('a', [0, 1]), claim('b', [2, 3]), newcomer('c')], 6), {
      a: at([0, 1, 4]),
      b: at([2, 3, 5]),
      c: at([], [4, 5]),
    })
  })

  it('gives just what was read ahead to who asks for it, whatever the others have by then', () => {
    const claims = [claim('a', [0, 2, 5], 7), claim('b', [1, 3, 4], 7), claim('c', [0, 3], 8)]
    assert.deepStrictEqual(shared(claims, 6), { a: at([2, 5]), b: at([1, 4]), c: at([0, 3]) })
  })

  it('shares everything among newcomers where there is nobody else', () => {
    assert.deepStrictEqual(shared([newcomer('a'), newcomer('b')], 3), { a: at([0, 2]), b: at([1]) })
    assert.deepStrictEqual(shared([], 3), {})
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
        let claims: ReadonlyArray<Claim> = [
          ...Array.from({ length: settled }, (_, n) => claim(`old-${n}`)),
          ...Array.from({ length: newcomers }, (_, n) => newcomer(`new-${n}`)),
        ]
        // Newcomers ask in any order, in the end all of them.
        for (const asking of [...order, 0, 1, 2, 3]) {
          const shares = shareOut(claims, count)
          const owned = [...shares.values()].flatMap(({ shards }) => shards)
          assert.sameMembers(
            owned,
            claims.length === 0 ? [] : Array.from({ length: count }, (_, shard) => shard),
          )
          const standby = [...shares.values()].flatMap((share) => share.standby)
          assert.strictEqual(new Set(standby).size, standby.length)
          for (const share of shares.values())
            assert.isTrue(share.shards.length === 0 || share.standby.length === 0)
          generation++
          claims = claims.map((was) => {
            const share = shares.get(was.memberId)!
            if (was.generation !== NEWCOMER || share.shards.length > 0)
              return claim(was.memberId, share.shards, generation)
            return was.memberId === `new-${asking}` && share.standby.length > 0
              ? claim(was.memberId, share.standby, generation + 1)
              : was
          })
        }
        const last = shareOut(claims, count)
        const sizes = [...last.values()].map(({ shards }) => shards.length)
        if (sizes.length > 0 && count >= sizes.length)
          assert.isAtMost(Math.max(...sizes) - Math.min(...sizes), 1)
      }),
    )
  })
})

describe('shareOf', () => {
  it('knows shards on standby by the one topic that they come with', () => {
    const given = { log: [0, 1, 4], lane: [0, 1], reports: [0, 1] }
    assert.deepStrictEqual(shareOf(given, 'log'), { shards: new Set([0, 1]), standby: new Set([4]) })
    assert.deepStrictEqual(shareOf(given, undefined), {
      shards: new Set([0, 1, 4]),
      standby: new Set<number>(),
    })
  })
})
