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
import { PayloadEncryption, Sql } from '@hub/store'
import { faultProxy } from '@hub/testkit'
import { Deferred, Effect, Exit, Fiber, Result, Scope } from 'effect'
import type { OwnedPartition } from './record-buffer.ts'
import { applyBatch } from './transaction.ts'
import { acquireCheckpoints } from '../tables/checkpoints.ts'
import {
  acceptanceOf,
  account,
  append,
  applied,
  deliveryOf,
  follow,
  laneRecord,
  logRecords,
  snapshot,
  startProcess,
  startProjector,
  subscribe,
  until,
  useTestEnvironment,
} from '../testing/harness.ts'

const environment = await useTestEnvironment('projector')

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

/** Asserts that sequence numbers are dense from 1, and that times never decrease. */
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
      for (const mode of ['live', 'test'] as const) yield* subscribe(owner, mode)
      yield* startProjector(environment)
      const positions = yield* append([
        laneRecord(environment, service),
        laneRecord(environment, otp),
        ...logRecords(environment, service, deliveryOf(service)),
        ...logRecords(environment, otp, [
          {
            type: 'MessageRejected',
            messageId: otp.messageId,
            at: otp.at + 5,
            reason: 'spam_filter_content',
          },
        ]),
      ])
      yield* applied(environment.prefix, positions)

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
      const eventTypes = (mode: string) =>
        journal
          .map(({ body }) => JSON.parse(body) as { type: string; mode: string })
          .filter((event) => event.mode === mode)
          .map(({ type }) => type)
      assert.deepStrictEqual(eventTypes('live'), ['message.accepted', 'message.sent', 'message.delivered'])
      assert.deepStrictEqual(eventTypes('test'), ['message.accepted', 'message.rejected'])

      const seen = yield* follow(`${environment.prefix}reader`, [environment.topics.webhooks])
      yield* until(async () => seen.length >= journal.length)
      const records = seen.map((record) => Result.getOrThrow(decodeEventRecorded(record)))
      assert.deepStrictEqual(
        records.map(({ body }) => body).toSorted(),
        journal.map(({ body }) => body).toSorted(),
      )
      assert.isTrue(seen.every(({ key }) => key === `${owner}:live` || key === `${owner}:test`))
      yield* until(async (q) => (await q`SELECT 1 FROM read.event_outbox`).length === 0)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('applies facts before their acceptance, invisible and without events until it arrives', () =>
    Effect.gen(function* () {
      const owner = account(2)
      const fact = yield* acceptanceOf({ account: owner })
      yield* startProjector(environment)
      yield* applied(environment.prefix, yield* append(logRecords(environment, fact, deliveryOf(fact))))
      assert.deepInclude(yield* rowOf(fact.messageId), { account: null, status: 'delivered' })
      assert.deepStrictEqual([...(yield* journalOf(owner))], [])
      yield* applied(environment.prefix, yield* append([laneRecord(environment, fact)]))
      assert.deepInclude(yield* rowOf(fact.messageId), { status: 'delivered', attempts: 1, price: '2.00' })
      assert.deepStrictEqual(
        (yield* journalOf(owner)).map(({ type }) => type),
        ['message.accepted', 'message.sent', 'message.delivered'],
      )
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('ignores facts that a fence made void, also when the fence was in an earlier batch', () =>
    Effect.gen(function* () {
      const fact = yield* acceptanceOf({ account: account(3) })
      const log = yield* EventLog
      const shard = log.partitionOf(fact.recipient)
      const opened = { type: 'ShardOpened', shard, epoch: 7, member: 'a', at: fact.at } as const
      yield* startProjector(environment)
      yield* applied(
        environment.prefix,
        yield* append([laneRecord(environment, fact), shardOpenedRecord(environment.topics, opened)]),
      )
      const claim = (epoch: number, attempt: number) =>
        logRecords(environment, fact, [
          {
            type: 'HandoverStarted',
            messageId: fact.messageId,
            at: fact.at + 1,
            epoch,
            attempt,
            operator: 'http',
          },
        ])
      yield* applied(environment.prefix, yield* append(claim(6, 2)))
      assert.deepInclude(yield* rowOf(fact.messageId), { claims: null, claim_open: null })
      yield* applied(environment.prefix, yield* append(claim(7, 1)))
      assert.deepInclude(yield* rowOf(fact.messageId), { attempts: 0, claims: 1, claim_open: true })
      // The zombie believes that the message was never submitted.
      const expired = (epoch: number) =>
        logRecords(environment, fact, [
          {
            type: 'MessageExpired',
            messageId: fact.messageId,
            at: fact.at + 2,
            reason: 'ttl_expired_before_submit',
            epoch,
          },
        ])
      yield* applied(environment.prefix, yield* append(expired(6)))
      assert.deepInclude(yield* rowOf(fact.messageId), { status: 'accepted' })
      yield* applied(environment.prefix, yield* append(expired(7)))
      assert.deepInclude(yield* rowOf(fact.messageId), { status: 'expired' })
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('dead-letters records that cannot be decoded or applied, with a reason, and continues', () =>
    Effect.gen(function* () {
      const owner = account(4)
      const good = yield* Effect.forEach(Array.from({ length: 20 }), () => acceptanceOf({ account: owner }))
      const refused = yield* acceptanceOf({ account: owner, template: 'a\u0000b' })
      const first = good[0]
      assert.isDefined(first)
      const junk = (id: string, value: Uint8Array): OutgoingRecord => ({
        ...laneRecord(environment, first),
        id,
        value,
      })
      const records = [
        ...good.slice(0, 5).map((fact) => laneRecord(environment, fact)),
        junk('not-avro', Buffer.from('{"hello":1}')),
        ...good.slice(5, 12).map((fact) => laneRecord(environment, fact)),
        laneRecord(environment, refused),
        junk('unknown-schema', Buffer.from([0, 0, 0, 3, 231, 1])),
        ...good.slice(12).map((fact) => laneRecord(environment, fact)),
      ]
      const dead = yield* follow(`${environment.prefix}dead-reader`, [
        deadLetterTopic(environment.topics.acceptedService),
      ])
      // Appended before the projector starts, so that one batch contains valid and invalid records.
      const positions = yield* append(records)
      yield* startProjector(environment)
      yield* applied(environment.prefix, positions)
      yield* until(async () => dead.length >= 3)
      assert.deepStrictEqual(
        dead.map(({ id }) => id).toSorted(),
        [laneRecord(environment, refused).id, 'not-avro', 'unknown-schema'].toSorted(),
      )
      const headers = dead.map(({ value }) => Buffer.from(value).toString('hex'))
      assert.include(headers, Buffer.from('{"hello":1}').toString('hex'))
      assert.strictEqual((yield* journalOf(owner)).length, good.length)
      assert.isUndefined(yield* rowOf(refused.messageId))
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('continues at its position when PostgreSQL is available again', () =>
    Effect.gen(function* () {
      const owner = account(5)
      const proxy = yield* faultProxy(environment.url)
      const other = environment.layerThrough(proxy.url)
      const facts = yield* Effect.forEach(Array.from({ length: 50 }), () => acceptanceOf({ account: owner }))
      const running = yield* Effect.forkScoped(
        Effect.provide(Effect.scoped(Effect.andThen(startProjector(environment), Effect.never)), other),
      )
      yield* applied(
        environment.prefix,
        yield* append(facts.slice(0, 25).map((fact) => laneRecord(environment, fact))),
      )
      proxy.block()
      const positions = yield* append(facts.slice(25).map((fact) => laneRecord(environment, fact)))
      yield* proxy.connectionRefused
      proxy.unblock()
      yield* applied(environment.prefix, positions)
      assert.strictEqual((yield* journalOf(owner)).length, 50)
      yield* Fiber.interrupt(running)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('publishes the events that a crash left in the outbox', () =>
    Effect.gen(function* () {
      const owner = account(6)
      yield* subscribe(owner)
      const fact = yield* acceptanceOf({ account: owner })
      const sql = yield* Sql
      // The state after a crash between commit and publication: only the transaction was executed.
      const [checkpoint] = yield* sql.run((q) =>
        acquireCheckpoints(q, [{ topic: 'elsewhere', partition: 0 }]),
      )
      assert.isDefined(checkpoint)
      const owned: OwnedPartition = { ...checkpoint, source: 'elsewhere', nextOffset: 0, buffered: [] }
      const outcome = yield* applyBatch(environment.topics, {
        advances: [{ owned, to: 1, fence: 0 }],
        facts: [fact],
        seals: [],
        personalData: new Map(),
      })
      assert.strictEqual(outcome.kind, 'applied')
      assert.isAtLeast((yield* sql.run((q) => q`SELECT 1 FROM read.event_outbox`)).length, 1)
      const seen = yield* follow(`${environment.prefix}outbox-reader`, [environment.topics.webhooks])
      yield* startProjector(environment)
      yield* until(async () => seen.some(({ key }) => key === `${owner}:live`))
      yield* until(async (q) => (await q`SELECT 1 FROM read.event_outbox`).length === 0)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('records each event of the event inbox once, and publishes it', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(61)
      for (const mode of ['live', 'test'] as const) yield* subscribe(owner, mode)
      const insertEvent = (subject: string, mode: 'live' | 'test') =>
        sql.run((q) => {
          const id = decodeId('evt', eventIdOf(subject, 'webhook.endpoint_disabled'))
          return q`
            INSERT INTO command.event_inbox (id, account, mode, type, object)
            VALUES (${id}, ${decodeId('acc', owner)}, ${mode}, 'webhook.endpoint_disabled',
                    ${JSON.stringify({ id: subject, object: 'webhook_endpoint' })}::text::json)`
        })
      yield* insertEvent('we_1', 'live')
      yield* insertEvent('we_2', 'live')
      yield* insertEvent('we_3', 'test')
      const seen = yield* follow(`${environment.prefix}inbox-reader`, [environment.topics.webhooks])
      yield* startProjector(environment)
      yield* startProjector(environment)
      const emptied = until(async (q) => (await q`SELECT 1 FROM command.event_inbox`).length === 0)
      yield* emptied
      // A writer that does not know the outcome of its transaction inserts the event again.
      yield* insertEvent('we_1', 'live')
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
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('changes nothing in a complete replay of all topics', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(7)
      const facts = yield* Effect.forEach(Array.from({ length: 100 }), () => acceptanceOf({ account: owner }))
      const scope = yield* Scope.make()
      yield* Scope.provide(startProjector(environment), scope)
      const positions = yield* append([
        ...facts.map((fact) => laneRecord(environment, fact)),
        ...facts.flatMap((fact) => logRecords(environment, fact, deliveryOf(fact, 100))),
      ])
      yield* applied(environment.prefix, positions)
      yield* Scope.close(scope, Exit.void)
      const before = yield* snapshot
      assert.strictEqual((yield* journalOf(owner)).length, 300)
      const ends = yield* sql.run(
        (q) => q<{ topic: string; partition: number; position: string }[]>`
        SELECT topic, partition, position FROM read.checkpoints WHERE topic <> 'elsewhere'`,
      )
      yield* sql.run((q) => q`UPDATE read.checkpoints SET position = 0, fence = 0 WHERE topic <> 'elsewhere'`)
      yield* startProjector(environment, 37)
      yield* applied(
        environment.prefix,
        ends
          .filter(({ position }) => Number(position) > 0)
          .map(({ partition, position, topic }) => ({
            topic: environment.prefix + topic,
            partition,
            offset: Number(position) - 1,
          })),
      )
      assert.deepStrictEqual(yield* snapshot, before)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})

describe('a projector that lost a partition', () => {
  it.live('changes nothing', () =>
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
      const late = yield* applyBatch(environment.topics, batchOf(ownedFrom(zombie), [fact]))
      assert.deepStrictEqual(late, { kind: 'superseded' })
      assert.isUndefined(yield* rowOf(fact.messageId))
      assert.strictEqual(
        (yield* applyBatch(environment.topics, batchOf(ownedFrom(successor), [fact]))).kind,
        'applied',
      )
      // The retry of a transaction with an unknown outcome, which was committed.
      assert.deepStrictEqual(yield* applyBatch(environment.topics, batchOf(ownedFrom(successor), [fact])), {
        kind: 'applied_before',
      })
      assert.strictEqual((yield* journalOf(owner)).length, 1)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('acquires the partition again while it is a member with a valid lease', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(9)
      yield* startProjector(environment)
      yield* applied(
        environment.prefix,
        yield* append([laneRecord(environment, yield* acceptanceOf({ account: owner }))]),
      )
      // The epoch of a member that has died since.
      yield* sql.run((q) => q`UPDATE read.checkpoints SET epoch = epoch + 1`)
      yield* applied(
        environment.prefix,
        yield* append([laneRecord(environment, yield* acceptanceOf({ account: owner }))]),
      )
      assert.strictEqual((yield* journalOf(owner)).length, 2)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})

describe('the event journal', () => {
  it.live('hides no event from a reader that follows it during concurrent writes', () =>
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
            const outcome = yield* applyBatch(environment.topics, {
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
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})

describe('two projectors, one of them killed', () => {
  it.live(
    'leave a dense journal with every event once, in the order of each message',
    () =>
      Effect.gen(function* () {
        const owner = account(11)
        yield* subscribe(owner)
        const facts = yield* Effect.forEach(Array.from({ length: 1500 }), () =>
          acceptanceOf({ account: owner }),
        )
        const first = yield* startProcess(environment, 'one')
        yield* startProcess(environment, 'two')
        const positions: Array<Position> = []
        for (let at = 0; at < facts.length; at += 100) {
          const some = facts.slice(at, at + 100)
          positions.push(
            ...(yield* append(some.map((fact) => laneRecord(environment, fact)))),
            ...(yield* append(some.flatMap((fact) => logRecords(environment, fact, deliveryOf(fact, 1000))))),
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
        yield* applied(environment.prefix, positions)
        const journal = yield* journalOf(owner)
        assertJournal(journal)
        assert.strictEqual(journal.length, 3 * facts.length)
        assert.strictEqual(new Set(journal.map(({ id }) => id)).size, journal.length)
        const eventTypes = new Map<string, Array<string>>()
        for (const { body } of journal) {
          const event = JSON.parse(body) as { type: string; data: { object: { id: string } } }
          eventTypes.set(event.data.object.id, [...(eventTypes.get(event.data.object.id) ?? []), event.type])
        }
        for (const types of eventTypes.values()) {
          assert.deepStrictEqual(types, ['message.accepted', 'message.sent', 'message.delivered'])
        }
        const seen = yield* follow(`${environment.prefix}kill-reader`, [environment.topics.webhooks])
        const published = () => new Set(seen.filter(({ key }) => key === `${owner}:live`).map(({ id }) => id))
        yield* until(async () => published().size === journal.length)
      }).pipe(Effect.scoped, Effect.provide(environment.layer)),
    60_000,
  )
})
