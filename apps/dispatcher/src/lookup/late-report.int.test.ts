import { assert, describe, it } from '@effect/vitest'
import { decodeId, newId, recipientHash } from '@hub/domain'
import { deliveryReportRecord, type ReportedOutcome, topicNames } from '@hub/kafka'
import { SANDBOX } from '@hub/operator'
import { Sql } from '@hub/store'
import { eventually } from '@hub/testkit'
import { Effect, Exit, Scope } from 'effect'
import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll } from 'vitest'
import { type DispatcherOptions, makeDispatcher } from '../app.ts'
import { HASH_SECRET, makeTestHub, PARTITIONS, settingsIn, type TestHub } from '../testing/environment.ts'

let hub: TestHub
beforeAll(async () => {
  hub = await makeTestHub()
})
afterAll(() => hub.remove())

const DAY = 24 * 3_600_000

const options = (): DispatcherOptions => ({
  ...settingsIn(hub),
  live: null,
})

/** A message of some days ago without a report in time. Only the read model knows it. */
const givenUpOn = (recipient: string, operatorIds: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* Sql
    const at = Date.now() - 3 * DAY
    const id = newId('msg', at, randomBytes(10))
    const uuid = decodeId('msg', id)!
    yield* sql.run(
      (q) => q`
        INSERT INTO read.messages (id, account, mode, class, recipient, status, rank, final, reason_code, updated_at, attempts)
        VALUES (${uuid}, ${randomUUID()}, 'live', 'service', decode(${recipient}, 'hex'), 'expired', 2, true,
                'dlr_timeout_local', ${new Date(at)}, 1)`,
    )
    yield* sql.run(
      (q) => q`
        INSERT INTO read.operator_ids (operator, operator_id, message_id, sent_at)
        SELECT ${SANDBOX}, given, ${uuid}, ${new Date(at)} FROM unnest(${[...operatorIds]}::text[]) AS given`,
    )
    return id
  })

/** No projector runs here. The test marks the log as applied. */
const projectorIsAhead = Effect.flatMap(Sql, (sql) =>
  sql.run(
    (q) => q`
      INSERT INTO read.checkpoints (projection, topic, partition, position, epoch)
      SELECT 'messages', ${topicNames('').messages}, partition, 1000000, 1
      FROM generate_series(0, ${PARTITIONS - 1}) AS partition`,
  ),
)

const report = (recipient: string, operatorId: string, outcome: ReportedOutcome) =>
  deliveryReportRecord(hub.topics, {
    type: 'DeliveryReportReceived',
    operator: SANDBOX,
    operatorId,
    reference: null,
    recipient,
    outcome,
    reason: null,
    at: Date.now(),
    receivedAt: Date.now(),
    rawKey: null,
    rawCiphertext: null,
  })

describe('a report that arrives days later', () => {
  it.live('corrects the message once for all parts, also with repeated reports and a new owner', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const log = yield* hub.follow(hub.topics.messages)
      const recipient = recipientHash(HASH_SECRET, '+79005550001')
      const other = recipientHash(HASH_SECRET, '+79005550002')
      const whole = yield* givenUpOn(recipient, ['late-1', 'late-2'])
      // The operator has reused an id for another recipient.
      const another = yield* givenUpOn(other, ['late-1'])
      const stories = () => {
        const facts = hub.factsOf(log)
        return [whole, another].map((id) => (facts.get(id) ?? []).map(({ type }) => type))
      }

      yield* projectorIsAhead

      const first = yield* Scope.fork(yield* Effect.scope)
      yield* makeDispatcher(options()).pipe(Scope.provide(first))
      yield* hub.append([report(recipient, 'late-1', 'delivered'), report(other, 'late-1', 'undelivered')])
      yield* Effect.promise(() => eventually(() => stories()[1]!.length > 0))
      yield* hub.append([report(recipient, 'late-2', 'delivered')])
      yield* Effect.promise(() => eventually(() => stories()[0]!.length > 0))
      assert.deepStrictEqual(stories(), [['MessageDelivered'], ['MessageUndelivered']])
      yield* Scope.close(first, Exit.void)

      // The projector has caught up, another process owns the shards, and the operator repeats
      // everything.
      yield* sql.run(
        (q) => q`
          UPDATE read.messages SET status = 'delivered', rank = 3, reason_code = NULL
          WHERE id = ${decodeId('msg', whole)!}`,
      )
      yield* makeDispatcher(options())
      const seen = yield* givenUpOn(recipient, ['late-3'])
      yield* hub.append([
        report(recipient, 'late-1', 'undelivered'),
        report(recipient, 'late-2', 'delivered'),
        // A read receipt proves the delivery without a delivery report.
        report(recipient, 'late-3', 'seen'),
      ])
      yield* Effect.promise(() => eventually(() => (hub.factsOf(log).get(seen)?.length ?? 0) === 2))
      assert.deepStrictEqual(
        hub
          .factsOf(log)
          .get(seen)
          ?.map(({ type }) => type),
        ['MessageDelivered', 'MessageSeen'],
      )
      assert.deepStrictEqual(stories(), [['MessageDelivered'], ['MessageUndelivered']])
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )
})
