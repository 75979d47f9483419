import { randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { freshDatabase } from '@hub/testkit'
import { Effect, Layer, Redacted } from 'effect'
import { afterAll } from 'vitest'
import { makeSql, ReadEvents, Sql } from '../../index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)
const layer = Layer.effect(Sql, makeSql(Redacted.make(url), 2, 'events-test'))

const AT = Date.now() - 60_000
describe('the event journal', () => {
  it.effect('finds the first event after a moment, also if the oldest months are deleted', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = { account: randomUUID(), mode: 'live' } as const
      const empty = yield* sql.run((q) => ReadEvents.positionBefore(q, owner, AT))
      assert.isNull(empty)
      yield* sql.run((q) => q`SELECT command.ensure_months('read.event_journal', now() - interval '3 months', 4)`)
      // Each two events have one time. They are from three months, and the first ten are deleted.
      const times = Array.from(
        { length: 60 },
        (_, index) => AT - (60 - (index - (index % 2))) * 36 * 3_600_000,
      )
      const events = times.map((createdAt, index) => ({
        ...owner,
        sequence: index + 1,
        id: randomUUID(),
        type: 'message.sent',
        createdAt,
        body: '{}',
      }))
      const left = events.slice(10)
      yield* sql.run((q) => ReadEvents.insert(q, left))
      for (const moment of [0, ...times.flatMap((at) => [at - 1, at]), Date.now()]) {
        const position = yield* sql.run((q) => ReadEvents.positionBefore(q, owner, moment))
        assert.isNotNull(position)
        const page = yield* sql.run((q) =>
          ReadEvents.readRange(q, owner, {
            afterSequence: Number(position!.sequence),
            createdUntil: new Date(),
            limit: 100,
          }),
        )
        assert.deepStrictEqual(
          page.map(({ id }) => id),
          left.filter(({ createdAt }) => createdAt > moment).map(({ id }) => id),
        )
      }
    }).pipe(Effect.provide(layer)),
  )
})
