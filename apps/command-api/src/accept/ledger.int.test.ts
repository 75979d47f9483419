/** The ledger against the real PostgreSQL: what a commit does when others come between. */
import { randomBytes, randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { decodeId, encodeId, type MessageAccepted, recipientHash } from '@hub/domain'
import { makeSql, type Queries, PayloadEncryption, Sql, MasterKeyEncryption } from '@hub/store'
import { type FreshDatabase, freshDatabase } from '@hub/testkit'
import { ConfigProvider, Deferred, Effect, Fiber, Layer, Redacted } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import type { Owner } from '../accounts/account.ts'
import { type IdempotencyLock, lockHeldKeys } from '../idempotency/idempotency-lock.ts'
import { IdempotencyKeys, idempotencyKeysLayer, newToken } from '../idempotency/idempotency-keys.ts'
import { freshId } from '../ids.ts'
import { Messages } from '../messages/messages.ts'
import { refKey } from './decide.ts'
import {
  type BatchRow,
  type Commit,
  type LedgerEntry,
  Ledger,
  ledgerLayer,
  type Unrecorded,
} from './ledger.ts'
import { lockBatchesOf } from './ledger-statements.ts'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const layer = Layer.unwrap(
  Effect.sync(() => {
    const masterKey = MasterKeyEncryption.layer.pipe(
      Layer.provide(
        ConfigProvider.layer(
          ConfigProvider.fromUnknown({ HUB_MASTER_KEY: randomBytes(32).toString('base64') }),
        ),
      ),
    )
    const sql = Layer.effect(Sql, makeSql(Redacted.make(database.url), 6, 'ledger-test'))
    return Layer.mergeAll(ledgerLayer.pipe(Layer.provide(Messages.layer)), idempotencyKeysLayer).pipe(
      Layer.provideMerge(PayloadEncryption.layer),
      Layer.provideMerge(Layer.mergeAll(sql, masterKey)),
    )
  }),
)
const test = (name: string, body: () => Effect.Effect<void, unknown, Ledger | Sql | IdempotencyKeys>) =>
  it.live(name, () => body().pipe(Effect.provide(layer)))

const newOwner = (): Owner => {
  const accountUuid = randomUUID()
  return { account: encodeId('acc', accountUuid), accountUuid, mode: 'live' }
}

const entryOf = (owner: Owner, over: Partial<MessageAccepted> = {}): LedgerEntry => {
  const at = over.at ?? Date.now()
  return {
    owner,
    toMasked: '+7900***0000',
    spendLimit: null,
    lock: null,
    fact: {
      type: 'MessageAccepted',
      messageId: freshId('msg', at),
      at,
      account: owner.account,
      mode: owner.mode,
      class: 'service',
      recipient: recipientHash('a secret of at least 32 characters for tests', '+79000000000'),
      template: 'order_ready',
      sender: 'HUB',
      clientRef: null,
      batch: null,
      parts: 1,
      price: { amount: '2.00', currency: 'RUB' },
      variables: ['order'],
      expiresAt: at + 60_000,
      sealingKey: 'service-2026-11-21T09:00Z',
      sealed: randomBytes(32),
      republished: false,
      ...over,
    },
  }
}

/** A commit whose outbox row names what is recorded by it. */
const commitOf = (
  accepted: ReadonlyArray<LedgerEntry>,
  republished: ReadonlyArray<LedgerEntry> = [],
): Commit => ({
  accepted,
  republished,
  settled: [],
  extraWrites: ({ lost }: Unrecorded) => ({
    outbox: Buffer.from(
      accepted
        .map(({ fact }) => fact.messageId)
        .filter((id) => !lost.has(id))
        .join(),
    ),
    batches: [],
    answers: [],
  }),
})

const outboxRow = Effect.fnUntraced(function* (id: number | null) {
  const sql = yield* Sql
  const rows = yield* sql.run(
    (q) => q<{ records: Buffer }[]>`SELECT records FROM command.outbox WHERE id = ${id}`,
  )
  return rows[0]?.records.toString()
})
const acceptancesOf = Effect.fnUntraced(function* (owner: Owner) {
  const sql = yield* Sql
  const rows = yield* sql.run(
    (q) =>
      q<
        { id: string }[]
      >`SELECT message_id AS id FROM command.acceptances WHERE account = ${owner.accountUuid}`,
  )
  return new Set(rows.map(({ id }) => encodeId('msg', id)))
})
const spentBy = Effect.fnUntraced(function* (owner: Owner) {
  const sql = yield* Sql
  const [row] = yield* sql.run(
    (q) =>
      q<
        { spent: string }[]
      >`SELECT spent::text FROM command.spend_periods WHERE account = ${owner.accountUuid}`,
  )
  return row?.spent
})

/** A transaction that has done its work and is still open; `end` commits it. */
const inTheMidst = Effect.fnUntraced(function* (work: (q: Queries) => Promise<unknown>) {
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

/** Until a transaction of this database waits for another one. */
const untilBlocked = Effect.gen(function* () {
  const sql = yield* Sql
  yield* sql
    .run(
      (q) =>
        q<[{ blocked: number }]>`
          SELECT count(*)::integer AS blocked FROM pg_stat_activity
           WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`,
    )
    .pipe(Effect.repeat({ until: ([row]) => row.blocked > 0 }), Effect.timeout('5 seconds'))
})

describe('a commit', () => {
  test('records what did not lose its reference, and nothing of what did', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const owner = newOwner()
      const first = entryOf(owner, { clientRef: 'order-1' })
      yield* ledger.commit(commitOf([first]))

      // Looked up before the first one was recorded.
      const late = entryOf(owner, { clientRef: 'order-1' })
      const beside = entryOf(owner, { clientRef: 'order-2' })
      const unnamed = entryOf(owner)
      const committed = yield* ledger.commit(commitOf([late, beside, unnamed]))

      assert.deepStrictEqual([...committed.lost], [late.fact.messageId])
      const recorded = [beside, unnamed].map(({ fact }) => fact.messageId)
      assert.strictEqual(yield* outboxRow(committed.outboxRow), recorded.join())
      assert.deepStrictEqual(yield* acceptancesOf(owner), new Set([first.fact.messageId, ...recorded]))
      assert.strictEqual(yield* spentBy(owner), '6.00')
    }))

  test('waits for whoever is taking the same reference, and then knows who has it', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const owner = newOwner()
      const theirs = freshId('msg', Date.now())
      const taking = yield* inTheMidst(
        (q) => q`
          INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
          VALUES (${owner.accountUuid}, 'live', 'order-1', ${decodeId('msg', theirs)}, now())`,
      )
      const mine = entryOf(owner, { clientRef: 'order-1' })
      const committing = yield* Effect.forkChild(ledger.commit(commitOf([mine])))
      yield* taking.end
      const committed = yield* Fiber.join(committing)
      assert.deepStrictEqual([...committed.lost], [mine.fact.messageId])
      assert.strictEqual((yield* acceptancesOf(owner)).size, 0)
    }))
})

describe('a code that is published again', () => {
  const codeOf = (owner: Owner) => entryOf(owner, { class: 'otp', template: 'otp_code', clientRef: 'code-1' })
  const againOf = (code: LedgerEntry): LedgerEntry => ({
    ...code,
    fact: { ...code.fact, at: code.fact.at + 1000 },
  })

  test('costs what it costs once', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const owner = newOwner()
      const code = codeOf(owner)
      yield* ledger.commit(commitOf([code]))
      yield* ledger.commit(commitOf([], [againOf(code)]))
      assert.strictEqual(yield* spentBy(owner), '2.00')
    }))

  test('is charged no second time when its first publication lands between lookup and commit', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const ledger = yield* Ledger
      const owner = newOwner()
      const code = codeOf(owner)
      yield* ledger.commit(commitOf([code]))
      // Two processes have found it unproven. In between the projector gets it.
      yield* sql.run(
        (q) => q`INSERT INTO read.messages (id, account, mode, updated_at, status, rank, final)
                 VALUES (${decodeId('msg', code.fact.messageId)}, ${owner.accountUuid}, 'live', now(), 'accepted', 0, false)`,
      )
      yield* ledger.commit(commitOf([], [againOf(code)]))
      yield* ledger.commit(commitOf([], [againOf(code)]))
      assert.strictEqual(yield* spentBy(owner), '2.00')
    }))
})

describe('a sealed batch', () => {
  const batchOf = (owner: Owner, accepted: number): BatchRow => {
    const createdAt = Date.now()
    const counts = { total: accepted, accepted, duplicate: 0, rejected: 0 }
    return { id: freshId('bat', createdAt), owner, ...counts, createdAt, sealedAt: null }
  }
  const codeIn = (batch: BatchRow, over: Partial<MessageAccepted> = {}): LedgerEntry =>
    entryOf(batch.owner, {
      class: 'otp',
      template: 'otp_code',
      clientRef: 'code-1',
      batch: batch.id,
      ...over,
    })
  const recorded = Effect.fnUntraced(function* (code: LedgerEntry, batch: BatchRow) {
    const ledger = yield* Ledger
    const commit = commitOf([code])
    yield* ledger.commit({
      ...commit,
      extraWrites: (lost) => ({ ...commit.extraWrites(lost), batches: [batch] }),
    })
  })
  const seal = (batch: BatchRow) =>
    Effect.flatMap(Ledger, (ledger) =>
      ledger.seal({ ...batch, sealedAt: Date.now() }, batch.accepted, Buffer.from('seal')),
    )
  const againIn = (code: LedgerEntry, batch: BatchRow): LedgerEntry => ({
    ...code,
    fact: { ...code.fact, at: code.fact.at + 1, batch: batch.id, republished: true },
  })
  const isPublished = Effect.fnUntraced(function* ({ fact, owner }: LedgerEntry) {
    const ledger = yield* Ledger
    const references = [{ owner, clientRef: fact.clientRef! }]
    const { known } = yield* ledger.lookup({ references, recipients: [], remembered: [] })
    return known.get(refKey(owner, fact.clientRef!))?.published
  })
  const batchIdOf = Effect.fnUntraced(function* ({ fact }: LedgerEntry) {
    const sql = yield* Sql
    const [row] = yield* sql.run(
      (q) =>
        q<
          { batch_id: string }[]
        >`SELECT batch_id FROM command.acceptances WHERE message_id = ${decodeId('msg', fact.messageId)}`,
    )
    return encodeId('bat', row!.batch_id)
  })

  test('proves that its codes were published, until their time is over', () =>
    Effect.gen(function* () {
      const owner = newOwner()
      const batch = batchOf(owner, 2)
      const code = codeIn(batch)
      const late = codeIn(batch, { clientRef: 'code-2', expiresAt: Date.now() - 1000 })
      yield* recorded(code, batch)
      yield* recorded(late, batch)
      assert.deepStrictEqual(yield* Effect.forEach([code, late], isPublished), [false, false])
      assert.isNotNull(yield* seal(batch))
      assert.deepStrictEqual(yield* Effect.forEach([code, late], isPublished), [true, false])
    }))

  test('does not prove a code that was given back', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const batch = batchOf(newOwner(), 0)
      const code = codeIn(batch)
      yield* recorded(code, batch)
      yield* ledger.giveBack([{ messageId: code.fact.messageId, at: code.fact.at }])
      assert.isNotNull(yield* seal(batch))
      assert.isFalse(yield* isPublished(code))
    }))

  test('keeps its codes, paid for, whoever decided to publish them again before it was sealed', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const owner = newOwner()
      const [batch, other] = [batchOf(owner, 1), batchOf(owner, 1)]
      const code = codeIn(batch)
      yield* recorded(code, batch)
      yield* seal(batch)
      const committed = yield* ledger.commit(commitOf([], [againIn(code, other)]))
      assert.deepStrictEqual([...committed.lost], [code.fact.messageId])
      assert.strictEqual(yield* batchIdOf(code), batch.id)
      assert.strictEqual(yield* spentBy(owner), '2.00')
    }))

  test('is waited for by whoever publishes its codes again while it is being sealed', () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const owner = newOwner()
      const [batch, other] = [batchOf(owner, 1), batchOf(owner, 1)]
      const code = codeIn(batch)
      yield* recorded(code, batch)
      const sealing = yield* inTheMidst(
        (q) => q`UPDATE command.batches SET sealed_at = now() WHERE id = ${decodeId('bat', batch.id)}`,
      )
      const committing = yield* Effect.forkChild(ledger.commit(commitOf([], [againIn(code, other)])))
      yield* untilBlocked
      yield* sealing.end
      assert.deepStrictEqual([...(yield* Fiber.join(committing)).lost], [code.fact.messageId])
      assert.strictEqual(yield* batchIdOf(code), batch.id)
    }))

  test('is not one, and is left open, when a code of it is being published again in another', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = newOwner()
      const [batch, other] = [batchOf(owner, 1), batchOf(owner, 1)]
      const code = codeIn(batch)
      yield* recorded(code, batch)
      const { messageId } = code.fact
      const publishing = yield* inTheMidst(async (q) => {
        await lockBatchesOf(q, [messageId])
        await q`UPDATE command.acceptances SET batch_id = ${decodeId('bat', other.id)} WHERE message_id = ${decodeId('msg', messageId)}`
      })
      const sealing = yield* Effect.forkChild(seal(batch))
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

describe('a claim on an idempotency key', () => {
  test('is told at once that its first is running, though a flush holds the row', () =>
    Effect.gen(function* () {
      const keys = yield* IdempotencyKeys
      const owner = newOwner()
      const wanted = { owner, key: 'k', fingerprint: Buffer.alloc(32), messageId: freshId('msg', Date.now()) }
      const first = yield* keys.acquire(wanted, newToken())
      assert.strictEqual(first.type, 'first')
      const { lock } = first as { readonly lock: IdempotencyLock }

      const flush = yield* inTheMidst((q) => lockHeldKeys(q, [lock]))
      // It would fail after its deadline if it waited.
      assert.deepStrictEqual(yield* keys.acquire(wanted, newToken()), {
        type: 'running',
        retryAfterSeconds: 1,
      })
      const other = { ...wanted, fingerprint: Buffer.alloc(32, 1) }
      assert.deepStrictEqual(yield* keys.acquire(other, newToken()), { type: 'reused' })
      yield* flush.end
    }))
})
