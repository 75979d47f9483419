import { assert, describe, it } from '@effect/vitest'
import { decodeId, encodeId, eventIdOf, type MessageAccepted, type MessageFact } from '@hub/domain'
import {
  deadLetterTopic,
  decodeEventRecorded,
  EventLog,
  type OutgoingRecord,
  type Position,
  shardOpenedRecord,
} from '@hub/kafka'
import { PayloadEncryption, Sql, countOutboxRows } from '@hub/store'
import { blockableProxy } from '@hub/testkit'
import { Deferred, Effect, Exit, Fiber, Result, Scope } from 'effect'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { makeProjector } from './projector.ts'
import type { OwnedPartition } from './record-buffer.ts'
import { applyBatch } from './transaction.ts'
import { acquireCheckpoints } from '../tables/checkpoints.ts'
import {
  acceptanceOf,
  append,
  applied,
  deliveryOf,
  follow,
  laneRecord,
  logRecords,
  makeTestEnvironment,
  PARTITIONS,
  snapshot,
  startProcess,
  until,
  type TestEnvironment,
} from '../testing/harness.ts'

let world: TestEnvironment
beforeAll(async () => {
  world = await makeTestEnvironment('projector')
})
afterAll(() => world.remove())

const account = (n: number) => encodeId('acc', `0193a1b2-0000-7000-8000-${n.toString(16).padStart(12, '0')}`)
const projector = (of: TestEnvironment, maxBatchRecords?: number) =>
  makeProjector({
    prefix: of.prefix,
    partitions: PARTITIONS,
    ...(maxBatchRecords === undefined ? {} : { maxBatchRecords }),
  })

const rowOf = (messageId: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => {
      const [row] = await q`
        SELECT m.*, (SELECT json_agg(json_build_object('status', h.status, 'reason', h.reason_code) ORDER BY h.at)
                       FROM read.message_history h WHERE h.message_id = m.id) AS history
          FROM read.messages m WHERE id = ${decodeId('msg', messageId)}`
      return row
    }),
  )

const journalOf = (owner: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) => q<{ sequence: string; id: string; type: string; created_at: Date; body: string }[]>`
        SELECT sequence, id, type, created_at, body FROM read.events
         WHERE account = ${decodeId('acc', owner)} ORDER BY mode, sequence`,
    ),
  )

/** A journal is dense from 1 and its moments never go back. */
const assertJournal = (journal: Effect.Success<ReturnType<typeof journalOf>>) => {
  assert.deepStrictEqual(
    journal.map(({ sequence }) => Number(sequence)),
    journal.map((_, i) => i + 1),
  )
  const moments = journal.map(({ created_at }) => created_at.getTime())
  assert.deepStrictEqual(
    moments,
    moments.toSorted((a, b) => a - b),
  )
  for (const { body, created_at, id } of journal) {
    assert.deepInclude(JSON.parse(body), { id: encodeId('evt', id), created_at: created_at.toISOString() })
  }
}

describe('a projector', () => {
  it.live('turns facts into rows, history, personal data and events, and publishes the events', () =>
    Effect.gen(function* () {
      const payloadEncryption = yield* PayloadEncryption
      const sql = yield* Sql
      const owner = account(1)
      const service = yield* acceptanceOf({ account: owner, number: '+79001234567' })
      const otp = yield* acceptanceOf({ account: owner, class: 'otp', mode: 'test', number: '+79001234568' })
      yield* projector(world)
      const positions = yield* append([
        laneRecord(world, service),
        laneRecord(world, otp),
        ...logRecords(world, service, deliveryOf(service)),
        ...logRecords(world, otp, [
          {
            type: 'MessageRejected',
            messageId: otp.messageId,
            at: otp.at + 5,
            reason: 'spam_filter_content',
          },
        ]),
      ])
      yield* applied(world.prefix, positions)

      const row = yield* rowOf(service.messageId)
      assert.deepInclude(row, {
        account: decodeId('acc', owner),
        mode: 'live',
        class: 'service',
        status: 'delivered',
        rank: 3,
        final: true,
        reason_code: null,
        attempts: 1,
        price: '2.00',
        parts: 1,
      })
      assert.isDefined(row)
      assert.deepInclude(row, {
        variables: ['order'],
        recipient: Buffer.from(service.recipient, 'hex'),
        updated_at: new Date(service.at + 3),
      })
      assert.deepStrictEqual(row['history'], [
        { status: 'accepted', reason: null },
        { status: 'sent', reason: null },
        { status: 'delivered', reason: null },
      ])
      assert.deepInclude(yield* rowOf(otp.messageId), {
        status: 'rejected',
        reason_code: 'spam_filter_content',
        price: '0.00',
        attempts: 0,
      })

      const personal = (messageId: string) =>
        Effect.gen(function* () {
          const [found] = yield* sql.run(
            (q) =>
              q<
                { sealing_key: string; sealed: Buffer }[]
              >`SELECT sealing_key, sealed FROM read.personal_data WHERE message_id = ${decodeId('msg', messageId)}`,
          )
          assert.isDefined(found)
          const plain = yield* payloadEncryption.decrypt(found.sealing_key, messageId, found.sealed)
          assert.isNotNull(plain)
          return JSON.parse(plain.toString()) as unknown
        })
      assert.deepStrictEqual(yield* personal(service.messageId), {
        to: '+79001234567',
        text: `Заказ ${service.messageId} готов`,
        variables: { order: service.messageId },
      })
      assert.deepStrictEqual(yield* personal(otp.messageId), { to: '+79001234568' })
      const ids = yield* sql.run((q) => q`SELECT operator, operator_id, message_id FROM read.operator_ids`)
      assert.deepStrictEqual(
        [...ids],
        [
          {
            operator: 'http',
            operator_id: `op-${service.messageId}`,
            message_id: decodeId('msg', service.messageId),
          },
        ],
      )

      const journal = yield* journalOf(owner)
      const told = (mode: string) =>
        journal
          .map(({ body }) => JSON.parse(body) as { type: string; mode: string })
          .filter((event) => event.mode === mode)
          .map(({ type }) => type)
      assert.deepStrictEqual(told('live'), ['message.accepted', 'message.sent', 'message.delivered'])
      assert.deepStrictEqual(told('test'), ['message.accepted', 'message.rejected'])

      const seen = yield* follow(`${world.prefix}reader`, [world.topics.webhooks])
      yield* until(async () => seen.length >= journal.length)
      const records = seen.map((record) => Result.getOrThrow(decodeEventRecorded(record)))
      assert.deepStrictEqual(
        records.map(({ body }) => body).toSorted(),
        journal.map(({ body }) => body).toSorted(),
      )
      assert.isTrue(seen.every(({ key }) => key === `${owner}:live` || key === `${owner}:test`))
      yield* until(async (q) => (await q`SELECT 1 FROM read.event_outbox`).length === 0)
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )

  it.live('keeps what comes before its acceptance, unseen and untold, until it comes', () =>
    Effect.gen(function* () {
      const owner = account(2)
      const fact = yield* acceptanceOf({ account: owner })
      yield* projector(world)
      yield* applied(world.prefix, yield* append(logRecords(world, fact, deliveryOf(fact))))
      assert.deepInclude(yield* rowOf(fact.messageId), { account: null, status: 'delivered' })
      assert.deepStrictEqual([...(yield* journalOf(owner))], [])
      yield* applied(world.prefix, yield* append([laneRecord(world, fact)]))
      assert.deepInclude(yield* rowOf(fact.messageId), { status: 'delivered', attempts: 1, price: '2.00' })
      assert.deepStrictEqual(
        (yield* journalOf(owner)).map(({ type }) => type),
        ['message.accepted', 'message.sent', 'message.delivered'],
      )
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )

  it.live('leaves out what a fence has made void, also when the fence was read before', () =>
    Effect.gen(function* () {
      const fact = yield* acceptanceOf({ account: account(3) })
      const log = yield* EventLog
      const shard = log.partitionOf(fact.recipient)
      const opened = { type: 'ShardOpened', shard, epoch: 7, member: 'a', at: fact.at } as const
      yield* projector(world)
      yield* applied(
        world.prefix,
        yield* append([laneRecord(world, fact), shardOpenedRecord(world.topics, opened)]),
      )
      const claim = (epoch: number, attempt: number) =>
        logRecords(world, fact, [
          {
            type: 'HandoverStarted',
            messageId: fact.messageId,
            at: fact.at + 1,
            epoch,
            attempt,
            operator: 'http',
          },
        ])
      yield* applied(world.prefix, yield* append(claim(6, 2)))
      assert.deepInclude(yield* rowOf(fact.messageId), { attempts: 0 })
      yield* applied(world.prefix, yield* append(claim(7, 1)))
      assert.deepInclude(yield* rowOf(fact.messageId), { attempts: 1 })
      // Whoever lost the shard believes that it was never handed over.
      const expired = (epoch: number) =>
        logRecords(world, fact, [
          {
            type: 'MessageExpired',
            messageId: fact.messageId,
            at: fact.at + 2,
            reason: 'ttl_expired_before_submit',
            epoch,
          },
        ])
      yield* applied(world.prefix, yield* append(expired(6)))
      assert.deepInclude(yield* rowOf(fact.messageId), { status: 'accepted' })
      yield* applied(world.prefix, yield* append(expired(7)))
      assert.deepInclude(yield* rowOf(fact.messageId), { status: 'expired' })
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )

  it.live('puts aside what cannot be read or applied, says why, and goes on', () =>
    Effect.gen(function* () {
      const owner = account(4)
      const good = yield* Effect.forEach(Array.from({ length: 20 }), () => acceptanceOf({ account: owner }))
      const refused = yield* acceptanceOf({ account: owner, template: 'a\u0000b' })
      const first = good[0]
      assert.isDefined(first)
      const junk = (id: string, value: Uint8Array): OutgoingRecord => ({
        ...laneRecord(world, first),
        id,
        value,
      })
      const records = [
        ...good.slice(0, 5).map((fact) => laneRecord(world, fact)),
        junk('not-avro', Buffer.from('{"hello":1}')),
        ...good.slice(5, 12).map((fact) => laneRecord(world, fact)),
        laneRecord(world, refused),
        junk('unknown-schema', Buffer.from([0, 0, 0, 3, 231, 1])),
        ...good.slice(12).map((fact) => laneRecord(world, fact)),
      ]
      const dead = yield* follow(`${world.prefix}dead-reader`, [
        deadLetterTopic(world.topics.acceptedService),
      ])
      // Appended before the projector starts, so that good and bad are in one poll.
      const positions = yield* append(records)
      yield* projector(world)
      yield* applied(world.prefix, positions)
      yield* until(async () => dead.length >= 3)
      assert.deepStrictEqual(
        dead.map(({ id }) => id).toSorted(),
        [laneRecord(world, refused).id, 'not-avro', 'unknown-schema'].toSorted(),
      )
      const headers = dead.map(({ value }) => Buffer.from(value).toString('hex'))
      assert.include(headers, Buffer.from('{"hello":1}').toString('hex'))
      assert.strictEqual((yield* journalOf(owner)).length, good.length)
      assert.isUndefined(yield* rowOf(refused.messageId))
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )

  it.live('goes on where it was when the database comes back', () =>
    Effect.gen(function* () {
      const owner = account(5)
      const proxy = yield* blockableProxy(world.url)
      const other = world.layerThrough(proxy.url)
      const facts = yield* Effect.forEach(Array.from({ length: 50 }), () => acceptanceOf({ account: owner }))
      const running = yield* Effect.forkScoped(
        Effect.provide(Effect.scoped(Effect.andThen(projector(world), Effect.never)), other),
      )
      yield* applied(world.prefix, yield* append(facts.slice(0, 25).map((fact) => laneRecord(world, fact))))
      proxy.block()
      const positions = yield* append(facts.slice(25).map((fact) => laneRecord(world, fact)))
      yield* proxy.connectionRefused
      proxy.unblock()
      yield* applied(world.prefix, positions)
      assert.strictEqual((yield* journalOf(owner)).length, 50)
      yield* Fiber.interrupt(running)
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )

  it.live('publishes the events that a crash left in the outbox', () =>
    Effect.gen(function* () {
      const owner = account(6)
      const fact = yield* acceptanceOf({ account: owner })
      const sql = yield* Sql
      // A projector that dies between commit and publication: its transaction, and nothing after
      // it.
      const [checkpoint] = yield* sql.run((q) =>
        acquireCheckpoints(q, [{ topic: 'elsewhere', partition: 0 }]),
      )
      assert.isDefined(checkpoint)
      const owned: OwnedPartition = { ...checkpoint, source: 'elsewhere', nextOffset: 0, buffered: [] }
      const outcome = yield* applyBatch(world.topics, {
        advances: [{ owned, to: 1, fence: 0 }],
        facts: [fact],
        seals: [],
        personalData: new Map(),
      })
      assert.strictEqual(outcome.kind, 'applied')
      assert.isAtLeast(yield* countOutboxRows('read.event_outbox'), 1)
      const seen = yield* follow(`${world.prefix}outbox-reader`, [world.topics.webhooks])
      yield* projector(world)
      yield* until(async () => seen.some(({ key }) => key === `${owner}:live`))
      yield* until(async (q) => (await q`SELECT 1 FROM read.event_outbox`).length === 0)
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )

  it.live('takes what is left in the inbox into the journal, once, and publishes it', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(61)
      const leave = (subject: string, mode: 'live' | 'test') =>
        sql.run((q) => {
          const id = decodeId('evt', eventIdOf(subject, 'webhook.endpoint_disabled'))
          return q`
            INSERT INTO command.event_inbox (id, account, mode, type, object)
            VALUES (${id}, ${decodeId('acc', owner)}, ${mode}, 'webhook.endpoint_disabled',
                    ${JSON.stringify({ id: subject, object: 'webhook_endpoint' })}::text::json)`
        })
      yield* leave('we_1', 'live')
      yield* leave('we_2', 'live')
      yield* leave('we_3', 'test')
      const seen = yield* follow(`${world.prefix}inbox-reader`, [world.topics.webhooks])
      yield* projector(world)
      yield* projector(world)
      const emptied = until(async (q) => (await q`SELECT 1 FROM command.event_inbox`).length === 0)
      yield* emptied
      // As after a transaction whose outcome its writer did not learn.
      yield* leave('we_1', 'live')
      yield* emptied
      const journal = yield* journalOf(owner)
      assert.deepStrictEqual(
        journal.map(({ body, sequence }) => {
          const event = JSON.parse(body) as { type: string; mode: string; data: { object: { id: string } } }
          return [Number(sequence), event.type, event.mode, event.data.object.id]
        }),
        [
          [1, 'webhook.endpoint_disabled', 'live', 'we_1'],
          [2, 'webhook.endpoint_disabled', 'live', 'we_2'],
          [1, 'webhook.endpoint_disabled', 'test', 'we_3'],
        ],
      )
      const ours = () =>
        seen
          .filter(({ key }) => key.startsWith(owner))
          .map((record) => Result.getOrThrow(decodeEventRecorded(record)).body)
      yield* until(async () => new Set(ours()).size === 3)
      assert.deepStrictEqual([...new Set(ours())].toSorted(), journal.map(({ body }) => body).toSorted())
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )

  it.live('changes nothing when all topics are read again from the beginning', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(7)
      const facts = yield* Effect.forEach(Array.from({ length: 100 }), () => acceptanceOf({ account: owner }))
      const scope = yield* Scope.make()
      yield* Scope.provide(projector(world), scope)
      const positions = yield* append([
        ...facts.map((fact) => laneRecord(world, fact)),
        ...facts.flatMap((fact) => logRecords(world, fact, deliveryOf(fact, 100))),
      ])
      yield* applied(world.prefix, positions)
      yield* Scope.close(scope, Exit.void)
      const before = yield* snapshot
      assert.strictEqual((yield* journalOf(owner)).length, 300)
      const ends = yield* sql.run(
        (q) => q<{ topic: string; partition: number; position: string }[]>`
        SELECT topic, partition, position FROM read.checkpoints WHERE topic <> 'elsewhere'`,
      )
      yield* sql.run((q) => q`UPDATE read.checkpoints SET position = 0, fence = 0 WHERE topic <> 'elsewhere'`)
      yield* projector(world, 37)
      yield* applied(
        world.prefix,
        ends
          .filter(({ position }) => Number(position) > 0)
          .map(({ partition, position, topic }) => ({
            topic: world.prefix + topic,
            partition,
            offset: Number(position) - 1,
          })),
      )
      assert.deepStrictEqual(yield* snapshot, before)
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )
})

describe('a projector that has lost its partition', () => {
  it.live('changes nothing any more', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(8)
      const fact = yield* acceptanceOf({ account: owner })
      const partitions = [{ topic: 'contested', partition: 0 }]
      const [zombie] = yield* sql.run((q) => acquireCheckpoints(q, partitions))
      const [successor] = yield* sql.run((q) => acquireCheckpoints(q, partitions))
      assert.isDefined(zombie)
      assert.isDefined(successor)
      const batchOf = (
        owned: OwnedPartition,
        facts: ReadonlyArray<MessageFact>,
        to = owned.position + facts.length,
      ) => ({
        advances: [{ owned, to, fence: 0 }],
        facts,
        seals: [],
        personalData: new Map(),
      })
      const ownedFrom = (checkpoint: typeof zombie): OwnedPartition => ({
        ...checkpoint,
        source: 'contested',
        nextOffset: 0,
        buffered: [],
      })
      const late = yield* applyBatch(world.topics, batchOf(ownedFrom(zombie), [fact]))
      assert.deepStrictEqual(late, { kind: 'superseded' })
      assert.isUndefined(yield* rowOf(fact.messageId))
      assert.strictEqual(
        (yield* applyBatch(world.topics, batchOf(ownedFrom(successor), [fact]))).kind,
        'applied',
      )
      // The same transaction again, after its outcome was not known: it was committed.
      assert.deepStrictEqual(yield* applyBatch(world.topics, batchOf(ownedFrom(successor), [fact])), {
        kind: 'applied_before',
      })
      assert.strictEqual((yield* journalOf(owner)).length, 1)
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )

  it.live('takes it back when it is still the owner', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(9)
      yield* projector(world)
      yield* applied(
        world.prefix,
        yield* append([laneRecord(world, yield* acceptanceOf({ account: owner }))]),
      )
      // A claim out of the past, of a member that has died since.
      yield* sql.run((q) => q`UPDATE read.checkpoints SET epoch = epoch + 1`)
      yield* applied(
        world.prefix,
        yield* append([laneRecord(world, yield* acceptanceOf({ account: owner }))]),
      )
      assert.strictEqual((yield* journalOf(owner)).length, 2)
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )
})

describe('the journal', () => {
  it.live('skips nothing for a reader that follows it while several write', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(10)
      const [writers, turns] = [4, 25]
      const done = yield* Deferred.make<void>()
      const reader = yield* Effect.forkScoped(
        Effect.gen(function* () {
          const read: Array<number> = []
          const next = sql.run(
            (q) => q<{ sequence: string }[]>`
              SELECT sequence FROM read.events
               WHERE account = ${decodeId('acc', owner)} AND mode = 'live' AND sequence > ${read.at(-1) ?? 0}
               ORDER BY sequence LIMIT 7`,
          )
          let last = false
          for (;;) {
            const page = yield* Effect.suspend(() => next)
            read.push(...page.map(({ sequence }) => Number(sequence)))
            if (page.length > 0) continue
            if (last) return read
            last = yield* Deferred.isDone(done)
          }
        }),
      )
      yield* Effect.forEach(
        Array.from({ length: writers }, (_, partition) => partition),
        Effect.fnUntraced(function* (partition) {
          const [checkpoint] = yield* sql.run((q) => acquireCheckpoints(q, [{ topic: 'cursor', partition }]))
          assert.isDefined(checkpoint)
          const owned: OwnedPartition = { ...checkpoint, source: 'cursor', nextOffset: 0, buffered: [] }
          for (let turn = 0; turn < turns; turn++) {
            const facts: ReadonlyArray<MessageAccepted> = yield* Effect.forEach([1, 2, 3], () =>
              acceptanceOf({ account: owner }),
            )
            const to = owned.position + facts.length
            const outcome = yield* applyBatch(world.topics, {
              advances: [{ owned, to, fence: 0 }],
              facts,
              seals: [],
              personalData: new Map(),
            })
            assert.strictEqual(outcome.kind, 'applied')
            owned.position = to
          }
        }),
        { concurrency: writers },
      )
      yield* Deferred.succeed(done, undefined)
      const read = yield* Fiber.join(reader)
      assert.deepStrictEqual(
        read,
        Array.from({ length: writers * turns * 3 }, (_, i) => i + 1),
      )
      assertJournal(yield* journalOf(owner))
    }).pipe(Effect.scoped, Effect.provide(world.layer)),
  )
})

describe('two projectors, one of them killed', () => {
  it.live(
    'leave a dense journal with every event once, in the order of each message',
    () =>
      Effect.gen(function* () {
        const home = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(join(tmpdir(), 'hub-projector-'))),
          (path) => Effect.sync(() => rmSync(path, { recursive: true })),
        )
        const owner = account(11)
        const facts = yield* Effect.forEach(Array.from({ length: 1500 }), () =>
          acceptanceOf({ account: owner }),
        )
        const first = yield* startProcess(world, home, 'one')
        yield* startProcess(world, home, 'two')
        const positions: Array<Position> = []
        for (let at = 0; at < facts.length; at += 100) {
          const some = facts.slice(at, at + 100)
          positions.push(
            ...(yield* append(some.map((fact) => laneRecord(world, fact)))),
            ...(yield* append(some.flatMap((fact) => logRecords(world, fact, deliveryOf(fact, 1000))))),
          )
          if (at === 700) {
            yield* until(
              async (q) =>
                (await q`SELECT 1 FROM read.events WHERE account = ${decodeId('acc', owner)} LIMIT 100`)
                  .length === 100,
            )
            yield* first.kill('SIGKILL')
          }
        }
        yield* applied(world.prefix, positions)
        const journal = yield* journalOf(owner)
        assertJournal(journal)
        assert.strictEqual(journal.length, 3 * facts.length)
        assert.strictEqual(new Set(journal.map(({ id }) => id)).size, journal.length)
        const told = new Map<string, Array<string>>()
        for (const { body } of journal) {
          const event = JSON.parse(body) as { type: string; data: { object: { id: string } } }
          told.set(event.data.object.id, [...(told.get(event.data.object.id) ?? []), event.type])
        }
        for (const types of told.values()) {
          assert.deepStrictEqual(types, ['message.accepted', 'message.sent', 'message.delivered'])
        }
        const seen = yield* follow(`${world.prefix}kill-reader`, [world.topics.webhooks])
        const published = () => new Set(seen.filter(({ key }) => key === `${owner}:live`).map(({ id }) => id))
        yield* until(async () => published().size === journal.length)
      }).pipe(Effect.scoped, Effect.provide(world.layer)),
    60_000,
  )
})
