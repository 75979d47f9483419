import { assert, describe, it } from '@effect/vitest'
import { encodeId } from '@hub/domain'
import { Sql } from '@hub/store'
import { freshDatabase } from '@hub/testkit'
import { ConfigProvider, Effect, Layer } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import type { KnownMessage } from '../shard/message.ts'
import { KnownMessages } from './known-messages.port.ts'
import { knownMessagesPostgres } from './known-messages.postgres.ts'

let database: Awaited<ReturnType<typeof freshDatabase>>
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const layer = Layer.unwrap(
  Effect.sync(() =>
    knownMessagesPostgres.pipe(
      Layer.provideMerge(Sql.layer('known-int-test')),
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_DATABASE_URL: database.url }))),
    ),
  ),
)

const uuid = (n: number) => `0193a1b2-0000-7000-8000-${n.toString(16).padStart(12, '0')}`
const id = (n: number) => encodeId('msg', uuid(n))
const recipient = Buffer.alloc(32, 7)

const message = (n: number, status: string, reason: string | null = null) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) => q`
        INSERT INTO read.messages (id, account, mode, class, recipient, status, rank, final, reason_code, updated_at, attempts)
        VALUES (${uuid(n)}, ${uuid(1)}, 'live', 'otp', ${recipient}, ${status}, 0, ${status !== 'accepted'}, ${reason}, now(), 1)`,
    ),
  )
const operatorId = (n: number, given: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run((q) => q`INSERT INTO read.operator_ids VALUES ('http', ${given}, ${uuid(n)}, now())`),
  )
const checkpoint = (topic: string, position: number) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) => q`
        INSERT INTO read.checkpoints (projection, topic, partition, position, epoch)
        VALUES ('messages', ${topic}, 3, ${position}, 1)
        ON CONFLICT (projection, topic, partition) DO UPDATE SET position = excluded.position`,
    ),
  )

/** A question about a report that was read at log offset 0. */
const ask = { operator: 'http', reference: null, recipient: null, shard: 3, logOffset: 0 }
const idOf = (answer: KnownMessage | 'notFound' | null) =>
  answer === null || answer === 'notFound' ? answer : answer.id

describe('the read model', () => {
  it.live('answers only after the projector has passed the offsets of lane and log', () =>
    Effect.gen(function* () {
      const known = yield* KnownMessages
      yield* message(10, 'accepted')
      yield* message(11, 'sent')
      const ask = known.handedOver(
        [10, 11, 12].map((n) => ({ id: id(n), shard: 3, lane: 1, laneOffset: 5, logOffset: 8 })),
      )
      assert.deepStrictEqual(yield* ask, [null, null, null])
      yield* checkpoint('hub.accepted.service.v1', 5)
      yield* checkpoint('hub.messages.v1', 8)
      assert.deepStrictEqual(yield* ask, [null, null, null], 'position 5 is the next to be applied')
      yield* checkpoint('hub.accepted.service.v1', 6)
      assert.deepStrictEqual(yield* ask, [false, true, false])
      yield* checkpoint('hub.messages.v1', 7)
      assert.deepStrictEqual(yield* ask, [null, null, null])
    }).pipe(Effect.provide(layer)),
  )

  it.live('finds the message of a report by our reference or by the operator id', () =>
    Effect.gen(function* () {
      const known = yield* KnownMessages
      yield* message(20, 'expired', 'dlr_timeout_local')
      yield* operatorId(20, 'o1')
      yield* operatorId(20, 'o2')
      const found = yield* known.reportedOn([
        { ...ask, operatorId: 'o2' },
        { ...ask, operatorId: 'whatever', reference: id(20) },
        { ...ask, operatorId: 'o3' },
        { ...ask, operatorId: 'o1', operator: 'another' },
        { ...ask, operatorId: 'o1', reference: id(21) },
      ])
      assert.deepStrictEqual(found.map(idOf), [id(20), id(20), 'notFound', 'notFound', 'notFound'])
      assert.deepInclude(found[0], {
        reason: 'dlr_timeout_local',
        operator: 'http',
        class: 'otp',
        attempts: 1,
      })
      const [first] = found as ReadonlyArray<KnownMessage>
      assert.sameMembers([...(first?.operatorIds ?? [])], ['o1', 'o2'])
    }).pipe(Effect.provide(layer)),
  )

  it.live('finds the message of a report, or nobody, after the projector has passed the log offset', () =>
    Effect.gen(function* () {
      const known = yield* KnownMessages
      yield* message(50, 'expired', 'dlr_timeout_local')
      yield* operatorId(50, 'o50')
      yield* checkpoint('hub.messages.v1', 99)
      const questions = [
        { ...ask, operatorId: 'o50', logOffset: 100 },
        { ...ask, operatorId: 'o51', logOffset: 100 },
        { ...ask, operatorId: 'o50', logOffset: 99 },
        { ...ask, operatorId: 'o51', logOffset: 99 },
      ]
      assert.deepStrictEqual((yield* known.reportedOn(questions)).map(idOf), [null, null, id(50), 'notFound'])
      yield* checkpoint('hub.messages.v1', 100)
      assert.deepStrictEqual((yield* known.reportedOn(questions)).map(idOf), [
        id(50),
        'notFound',
        id(50),
        'notFound',
      ])
    }).pipe(Effect.provide(layer)),
  )

  it.live('distinguishes messages with a reused operator id by their recipient', () =>
    Effect.gen(function* () {
      const known = yield* KnownMessages
      const sql = yield* Sql
      yield* message(40, 'sent')
      yield* message(41, 'sent')
      const other = Buffer.alloc(32, 9)
      yield* sql.run((q) => q`UPDATE read.messages SET recipient = ${other} WHERE id = ${uuid(41)}`)
      yield* operatorId(40, 'reused')
      yield* operatorId(41, 'reused')
      const reused = { ...ask, operatorId: 'reused' }
      const found = yield* known.reportedOn([
        { ...reused, recipient: recipient.toString('hex') },
        { ...reused, recipient: other.toString('hex') },
        { ...reused, recipient: 'ab'.repeat(32) },
        { ...reused, recipient: null },
        { ...reused, reference: id(40), recipient: other.toString('hex') },
      ])
      assert.deepStrictEqual(found.map(idOf), [id(40), id(41), 'notFound', id(41), 'notFound'])
    }).pipe(Effect.provide(layer)),
  )

  it.live('finds recipients, also of messages that are not projected yet', () =>
    Effect.gen(function* () {
      const known = yield* KnownMessages
      const sql = yield* Sql
      yield* message(30, 'sent')
      yield* sql.run(
        (q) => q`
          INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender,
                                           parts, price, currency, variables, created_at, expires_at)
          VALUES (${uuid(31)}, ${uuid(1)}, 'live', 'otp', ${recipient}, '', 't', 's', 1, 0, 'RUB', '{}', now(), now())`,
      )
      const found = yield* known.recipients([
        { operator: 'http', operatorId: 'x', reference: id(30), recipient: null },
        { operator: 'http', operatorId: 'x', reference: id(31), recipient: null },
        { operator: 'http', operatorId: 'x', reference: id(32), recipient: null },
        { operator: 'http', operatorId: 'x', reference: 'not one of ours', recipient: null },
      ])
      const hash = recipient.toString('hex')
      assert.deepStrictEqual(found, [hash, hash, null, null])
    }).pipe(Effect.provide(layer)),
  )
})
