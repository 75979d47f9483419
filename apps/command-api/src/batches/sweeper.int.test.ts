/** The batch sweeper with PostgreSQL: the counts of a batch that a crash left open. */
import { randomBytes, randomUUID } from 'node:crypto'
import { assert, it } from '@effect/vitest'
import { decodeId, encodeId } from '@hub/domain'
import { topicNames } from '@hub/kafka'
import { makeSql, Sql } from '@hub/store'
import { type FreshDatabase, freshDatabase } from '@hub/testkit'
import { Effect, Layer, Redacted } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { freshId } from '../ids/ids.ts'
import { sealOpenBatches } from './sweeper.ts'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const layer = Layer.unwrap(
  Effect.sync(() => Layer.effect(Sql, makeSql(Redacted.make(database.url), 2, 'sweeper-test'))),
)

it.live(
  'a code counts in the batch in which it was published, not in a later one whose process crashed',
  () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const account = randomUUID()
      const [published, crashed] = [randomUUID(), randomUUID()]
      const code = decodeId('msg', freshId('msg', Date.now()))
      yield* sql.transaction(async (q) => {
        await q`
        INSERT INTO command.batches (id, account, mode, total, accepted, duplicate, rejected, created_at)
        SELECT id, ${account}, 'live', 1, 0, 0, 0, now() - interval '1 hour'
          FROM unnest(${[published, crashed]}::uuid[]) AS b (id)`
        // Recorded again in the second batch. The read model contains the publication in the first
        // one.
        await q`
        INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender, batch_id, parts,
                                         price, currency, variables, created_at, expires_at)
        VALUES (${code}, ${account}, 'live', 'otp', ${randomBytes(32)}, '+7900***0000', 'otp_code', 'HUB', ${crashed}, 1, 2.5, 'RUB',
                '{code}', now(), now() + interval '5 minutes')`
        await q`
        INSERT INTO read.messages (id, account, mode, class, batch_id, updated_at, status, rank, final)
        VALUES (${code}, ${account}, 'live', 'otp', ${published}, now(), 'accepted', 0, false)`
      })
      const done = yield* sealOpenBatches(sql, topicNames(''))
      assert.strictEqual(done?.sealed, 2)
      const rows = yield* sql.run(
        (q) =>
          q<{ id: string; accepted: number }[]>`SELECT id, accepted FROM command.batches ORDER BY accepted`,
      )
      assert.deepStrictEqual(
        rows.map(({ accepted, id }) => [encodeId('bat', id), accepted]),
        [
          [encodeId('bat', crashed), 0],
          [encodeId('bat', published), 1],
        ],
      )
    }).pipe(Effect.provide(layer)),
)
