import { assert, describe, it } from '@effect/vitest'
import { type GroupControl, KafkaUnavailable, type Position } from '@hub/kafka'
import { Effect } from 'effect'
import { TestClock } from 'effect/testing'
import { runLagReport } from './lag-report.ts'
import type { Membership } from './ownership.ts'
import type { OwnedPartition } from './record-buffer.ts'

const ownedAt = (position: number): OwnedPartition => ({
  source: 'test.topic',
  topic: 'topic',
  partition: 0,
  epoch: 1,
  position,
  fence: 0,
  nextOffset: position,
  buffered: [],
})

describe('the report of the lag', () => {
  it.effect('commits a position again only if it has changed, was not committed, or has a new owner', () =>
    Effect.gen(function* () {
      const commits: Array<number> = []
      let isAvailable = false
      let owned = ownedAt(5)
      const control: Pick<GroupControl, 'commit' | 'ends'> = {
        commit: (positions: ReadonlyArray<Position>) =>
          Effect.suspend(() => {
            commits.push(...positions.map(({ offset }) => offset))
            return isAvailable
              ? Effect.void
              : Effect.fail(new KafkaUnavailable({ reason: 'timeout', detail: 'no answer' }))
          }),
        ends: () => Effect.succeed(new Map([[0, 10]])),
      }
      const membership = { assignment: { shards: [0] }, control } as unknown as Membership
      yield* runLagReport(
        new Map([['test.topic', 'topic']]),
        () => membership,
        () => [owned],
      )
      yield* TestClock.adjust('5 seconds')
      assert.deepStrictEqual(commits, [5])
      isAvailable = true
      yield* TestClock.adjust('10 seconds')
      assert.deepStrictEqual(commits, [5, 5])
      owned.position = 7
      yield* TestClock.adjust('10 seconds')
      assert.deepStrictEqual(commits, [5, 5, 7])
      owned = ownedAt(7)
      yield* TestClock.adjust('10 seconds')
      assert.deepStrictEqual(commits, [5, 5, 7, 7])
    }),
  )
})
