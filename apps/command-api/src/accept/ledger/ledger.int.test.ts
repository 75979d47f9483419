/**
 * The ledger in PostgreSQL: the contract suite, and what its transactions do when others run at the
 * same time.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { decodeId, encodeId } from '@hub/domain'
import { layerSimulatedPayloadKeys } from '@hub/kafka/testing'
import { makeSql, MasterKeyEncryption, PayloadEncryption, type Queries, Sql, type SqlShape } from '@hub/store'
import { type FreshDatabase, freshDatabase } from '@hub/testkit'
import { ConfigProvider, Deferred, Effect, Fiber, Layer, Redacted } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import type { Owner } from '../../accounts/account.ts'
import { idempotencyKeysLayer, lockKeysInUse } from '../../idempotency/idempotency-keys.ts'
import { IdempotencyKeys, type IdempotencyLock, newToken } from '../../idempotency/idempotency-keys.port.ts'
import { freshId } from '../../ids/ids.ts'
import { Messages } from '../../messages/messages.ts'
import {
  againIn,
  codeIn,
  commitOf,
  entryOf,
  ledgerContract,
  ledgerNow,
  newOwner,
  openBatch,
  recordInBatch,
  sealBatch,
  TestLedger,
} from './ledger.contract.ts'
import { ledgerLayer } from './ledger.ts'
import { Ledger } from './ledger.port.ts'
import { lockBatchesOf } from './tables/batches.ts'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const testLedgerLayer = Layer.effect(
  TestLedger,
  Effect.gen(function* () {
    const sql = yield* Sql
    const run = <A>(body: (q: Queries) => PromiseLike<A>) => Effect.orDie(sql.run(async (q) => body(q)))
    return {
      project: ({ fact, owner }) =>
        Effect.asVoid(
          run(
            (q) => q`INSERT INTO read.messages (id, account, mode, updated_at, status, rank, final)
                     VALUES (${decodeId('msg', fact.messageId)}, ${owner.accountUuid}, 'live', now(), 'accepted', 0, false)`,
          ),
        ),
      optOut: (recipient) =>
        Effect.asVoid(
          run(
            (q) =>
              q`INSERT INTO command.opt_outs (recipient, source) VALUES (decode(${recipient}, 'hex'), 'operator')`,
          ),
        ),
      lostLock: ({ accountUuid, mode }) =>
        Effect.sync(() => ({ accountUuid, mode, key: randomUUID(), token: newToken() })),
      outboxRow: (id) =>
        Effect.map(
          run((q) => q<{ records: Buffer }[]>`SELECT records FROM command.outbox WHERE id = ${id}`),
          ([row]) => row?.records.toString(),
        ),
      acceptances: (owner) =>
        Effect.map(
          run(
            (q) => q<{ id: string }[]>`
              SELECT message_id AS id FROM command.acceptances WHERE account = ${owner.accountUuid}`,
          ),
          (rows) => new Set(rows.map(({ id }) => encodeId('msg', id))),
        ),
      spent: (owner) =>
        Effect.map(
          run(
            (q) => q<{ spent: string }[]>`
              SELECT spent::numeric(18, 2)::text FROM command.spend_periods WHERE account = ${owner.accountUuid}`,
          ),
          ([row]) => row?.spent ?? '0.00',
        ),
      batchOf: ({ fact }) =>
        Effect.map(
          run(
            (q) => q<{ batch_id: string | null }[]>`
              SELECT batch_id FROM command.acceptances WHERE message_id = ${decodeId('msg', fact.messageId)}`,
          ),
          ([row]) => (row?.batch_id == null ? null : encodeId('bat', row.batch_id)),
        ),
      hasBatch: ({ id }) =>
        Effect.map(
          run((q) => q`SELECT 1 FROM command.batches WHERE id = ${decodeId('bat', id)}`),
          (rows) => rows.length > 0,
        ),
    }
  }),
)

/** Transactions so far: each needs several round trips. */
let transactions = 0

const layer = Layer.unwrap(
  Effect.sync(() => {
    const encryption = MasterKeyEncryption.layer.pipe(
      Layer.provide(
        ConfigProvider.layer(
          ConfigProvider.fromUnknown({ HUB_MASTER_KEY: randomBytes(32).toString('base64') }),
        ),
      ),
    )
    const sql = Layer.effect(
      Sql,
      Effect.map(makeSql(Redacted.make(database.url), 6, 'ledger-test'), (pool) => ({
        ...pool,
        transaction: ((body, options) =>
          Effect.suspend(() => {
            transactions++
            return pool.transaction(body, options)
          })) satisfies SqlShape['transaction'],
      })),
    )
    return Layer.mergeAll(
      ledgerLayer.pipe(Layer.provide(Messages.layer)),
      idempotencyKeysLayer,
      testLedgerLayer,
    ).pipe(
      Layer.provideMerge(PayloadEncryption.layer),
      Layer.provide(layerSimulatedPayloadKeys),
      Layer.provideMerge(Layer.mergeAll(sql, encryption)),
    )
  }),
)
const test = (
  name: string,
  body: () => Effect.Effect<void, unknown, Ledger | TestLedger | Sql | IdempotencyKeys>,
) => it.live(name, () => body().pipe(Effect.provide(layer)))

ledgerContract('PostgreSQL', layer)

/** A transaction that has run its statements and is still open. `end` commits it. */
const openTransaction = Effect.fnUntraced(function* (work: (q: Queries) => Promise<unknown>) {
  const sql = yield* Sql
  const done = yield* Deferred.make<void>()
  const end = yield* Deferred.make<void>()
  const services = yield* Effect.context()
  const transaction = yield* Effect.forkChild(
    sql.transaction(
      async (q) => {
        await work(q)
        Deferred.doneUnsafe(done, Effect.void)
        await Effect.runPromiseWith(services)(Deferred.await(end))
      },
      { deadline: '30 seconds' },
    ),
  )
  yield* Deferred.await(done)
  return { end: Effect.andThen(Deferred.succeed(end, undefined), Fiber.join(transaction)) }
})

/** Waits until so many transactions of this database are blocked by others. */
const untilSomeBlocked = Effect.fnUntraced(function* (count: number) {
  const sql = yield* Sql
  yield* sql
    .run(
      (q) =>
        q<[{ blocked: number }]>`
          SELECT count(*)::integer AS blocked FROM pg_stat_activity
           WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`,
    )
    .pipe(Effect.repeat({ until: ([row]) => row.blocked >= count }), Effect.timeout('5 seconds'))
})
const untilBlocked = untilSomeBlocked(1)

describe('a commit', () => {
  test('waits for a transaction that inserts the same reference, and then loses it', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const owner = newOwner()
      const at = yield* ledgerNow
      const theirs = freshId('msg', at)
      const taking = yield* openTransaction(
        (q) => q`
          INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
          VALUES (${owner.accountUuid}, 'live', 'order-1', ${decodeId('msg', theirs)}, now())`,
      )
      const mine = entryOf(owner, at, { clientRef: 'order-1' })
      const committing = yield* Effect.forkChild(ledger.commit(commitOf([mine])))
      yield* taking.end
      const committed = yield* Fiber.join(committing)
      assert.deepStrictEqual([...committed.takenElsewhere], [mine.fact.messageId])
      assert.strictEqual((yield* (yield* TestLedger).acceptances(owner)).size, 0)
    }))
})

describe('a refunded code', () => {
  test('that two processes publish again at the same time is charged once', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const owner = newOwner()
      const at = yield* ledgerNow
      const code = entryOf(owner, at, { class: 'otp', template: 'otp_code' })
      const { messageId } = code.fact
      yield* ledger.commit(commitOf([code]))
      yield* ledger.refund([{ messageId, at }])
      const testLedger = yield* TestLedger
      assert.strictEqual(yield* testLedger.spent(owner), '0.00')

      const again = { ...code, fact: { ...code.fact, at: at + 1, republished: true } }
      const locking = yield* openTransaction(
        (q) => q`
          SELECT 1 FROM command.acceptances WHERE message_id = ${decodeId('msg', messageId)} FOR UPDATE`,
      )
      const committing = yield* Effect.forEach([1, 2], () =>
        Effect.forkChild(ledger.commit(commitOf([], [again]))),
      )
      yield* untilSomeBlocked(2)
      yield* locking.end
      const taken = (yield* Effect.forEach(committing, (one) => Fiber.join(one))).flatMap(
        ({ takenElsewhere }) => [...takenElsewhere],
      )
      assert.strictEqual(yield* testLedger.spent(owner), '2.00')
      assert.deepStrictEqual(taken, [messageId])
    }))
})

/** Takes the lock of a new idempotency key. */
const lockOf = Effect.fnUntraced(function* (owner: Owner) {
  const keys = yield* IdempotencyKeys
  const at = yield* ledgerNow
  const key = randomUUID()
  const messageId = freshId('msg', at)
  const wanted = { owner, key, fingerprint: Buffer.from('request'), messageId }
  const acquired = yield* keys.acquire(wanted, newToken())
  if (acquired.type !== 'first') return yield* Effect.die(acquired.type)
  return { lock: acquired.lock, again: keys.acquire(wanted, newToken()) }
})

describe('a commit of requests under idempotency keys', () => {
  const response = { status: 202, contentType: 'application/json', headers: {}, body: '{}' }

  test('takes one round trip, and stores the response', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const owner = newOwner()
      const { again, lock } = yield* lockOf(owner)
      const { again: othersAgain, lock: others } = yield* lockOf(owner)
      const at = yield* ledgerNow
      const entries = [
        { ...entryOf(owner, at, { clientRef: 'keyed' }), lock },
        { ...entryOf(owner, at), lock: others },
      ]
      const before = transactions
      const commit = commitOf(entries)
      const committed = yield* ledger.commit({
        ...commit,
        extraWrites: (unrecorded) => ({
          ...commit.extraWrites(unrecorded),
          responses: [{ lock, response }],
        }),
      })
      assert.strictEqual(transactions, before)
      assert.strictEqual(committed.lockLost.size, 0)
      assert.strictEqual((yield* (yield* TestLedger).acceptances(owner)).size, 2)
      assert.strictEqual((yield* again).type, 'replay')
      // The request of the other one still runs.
      assert.strictEqual((yield* othersAgain).type, 'running')
    }))

  test('records the other requests if one has lost its lock', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const owner = newOwner()
      const at = yield* ledgerNow
      const kept = { ...entryOf(owner, at), lock: (yield* lockOf(owner)).lock }
      const lost = { ...entryOf(owner, at), lock: yield* (yield* TestLedger).lostLock(owner) }
      const committed = yield* ledger.commit(commitOf([kept, lost]))
      assert.deepStrictEqual([...committed.lockLost], [lost.fact.messageId])
      assert.deepStrictEqual(yield* (yield* TestLedger).acceptances(owner), new Set([kept.fact.messageId]))
    }))
})

describe('a batch', () => {
  test('that is being sealed blocks a commit that publishes its codes again, and keeps them', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const owner = newOwner()
      const at = yield* ledgerNow
      const batch = openBatch(owner, at, 1)
      const code = codeIn(batch)
      yield* recordInBatch(code, batch)
      const sealing = yield* openTransaction(
        (q) => q`UPDATE command.batches SET sealed_at = now() WHERE id = ${decodeId('bat', batch.id)}`,
      )
      const committing = yield* Effect.forkChild(ledger.commit(commitOf([], [againIn(code, batch)])))
      yield* untilBlocked
      yield* sealing.end
      assert.deepStrictEqual([...(yield* Fiber.join(committing)).takenElsewhere], [code.fact.messageId])
      assert.strictEqual(yield* (yield* TestLedger).spent(owner), '2.00')
    }))

  test('stays open when an open transaction moves a code of it to another batch', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = newOwner()
      const at = yield* ledgerNow
      const [batch, other] = [openBatch(owner, at, 1), openBatch(owner, at, 1)]
      const code = codeIn(batch)
      yield* recordInBatch(code, batch)
      const { messageId } = code.fact
      const publishing = yield* openTransaction(async (q) => {
        await lockBatchesOf(q, [messageId])
        await q`UPDATE command.acceptances SET batch_id = ${decodeId('bat', other.id)} WHERE message_id = ${decodeId('msg', messageId)}`
      })
      const sealing = yield* Effect.forkChild(sealBatch(batch))
      yield* untilBlocked
      yield* publishing.end
      assert.isNull(yield* Fiber.join(sealing))
      const [row] = yield* sql.run(
        (q) =>
          q<
            { sealed_at: Date | null }[]
          >`SELECT sealed_at FROM command.batches WHERE id = ${decodeId('bat', batch.id)}`,
      )
      assert.isNull(row?.sealed_at)
    }))
})

describe('an idempotency lock', () => {
  test('is refused at once while its first request runs, although a commit locks the row', () =>
    Effect.gen(function* () {
      const keys = yield* IdempotencyKeys
      const owner = newOwner()
      const wanted = { owner, key: 'k', fingerprint: Buffer.alloc(32), messageId: freshId('msg', Date.now()) }
      const first = yield* keys.acquire(wanted, newToken())
      assert.strictEqual(first.type, 'first')
      const { lock } = first as { readonly lock: IdempotencyLock }

      const commit = yield* openTransaction((q) => lockKeysInUse(q, [lock]))
      // If it waited, it would fail after its deadline.
      assert.deepStrictEqual(yield* keys.acquire(wanted, newToken()), {
        type: 'running',
        retryAfterSeconds: 1,
      })
      const other = { ...wanted, fingerprint: Buffer.alloc(32, 1) }
      assert.deepStrictEqual(yield* keys.acquire(other, newToken()), { type: 'reused' })
      yield* commit.end
    }))
})
