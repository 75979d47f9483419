/**
 * The contract suite of the ledger port. `ledger.int.test.ts` runs it against PostgreSQL,
 * `ledger.unit.test.ts` against the test double. An adapter provides `Ledger` and `TestLedger`.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { encodeId, type MessageAccepted, recipientHash } from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import { Context, Effect, type Layer } from 'effect'
import type { Owner } from '../../accounts/account.ts'
import type { IdempotencyLock } from '../../idempotency/idempotency-keys.port.ts'
import { freshId } from '../../ids/ids.ts'
import { refKey } from '../batch/decide.ts'
import { type BatchRow, type Commit, Ledger, type LedgerEntry, type Unrecorded } from './ledger.port.ts'

/** What the suite needs beside the port. */
export class TestLedger extends Context.Service<
  TestLedger,
  {
    /** The projector has applied the acceptance. */
    readonly project: (entry: LedgerEntry) => Effect.Effect<void>
    readonly optOut: (recipient: string) => Effect.Effect<void>
    /** A lock that its request does not hold any more. */
    readonly lostLock: (owner: Owner) => Effect.Effect<IdempotencyLock>
    /** The content of an outbox row; `undefined`: it does not exist. */
    readonly outboxRow: (id: number | null) => Effect.Effect<string | undefined>
    /** Message ids of an owner's acceptances. */
    readonly acceptances: (owner: Owner) => Effect.Effect<ReadonlySet<string>>
    /** What an owner has spent, `0.00` at first. */
    readonly spent: (owner: Owner) => Effect.Effect<string>
    /** The batch of a recorded acceptance. */
    readonly batchOf: (entry: LedgerEntry) => Effect.Effect<string | null>
    /** Whether the ledger has the batch. */
    readonly hasBatch: (batch: BatchRow) => Effect.Effect<boolean>
  }
>()('@hub/command-api/testing/TestLedger') {}

export const newOwner = (): Owner => {
  const accountUuid = randomUUID()
  return { account: encodeId('acc', accountUuid), accountUuid, mode: 'live' }
}

/** The ledger's clock. */
export const ledgerNow = Effect.gen(function* () {
  const ledger = yield* Ledger
  return (yield* ledger.lookup({ references: [], recipients: [], remembered: [] })).at
})

/** A `service` entry of 2.00 RUB. `at`: the ledger's clock. */
export const entryOf = (owner: Owner, at: number, over: Partial<MessageAccepted> = {}): LedgerEntry => ({
  owner,
  toMasked: '+7900***0000',
  spendLimit: null,
  lock: null,
  fact: messageAccepted({
    messageId: freshId('msg', at),
    at,
    account: owner.account,
    mode: owner.mode,
    recipient: recipientHash('a secret of at least 32 characters for tests', '+79000000000'),
    expiresAt: at + 60_000,
    payloadKey: 'service-2026-11-21T09:00Z',
    ciphertext: randomBytes(32),
    ...over,
  }),
})

/** A commit whose outbox row contains the message ids that it records. */
export const commitOf = (
  accepted: ReadonlyArray<LedgerEntry>,
  republished: ReadonlyArray<LedgerEntry> = [],
): Commit => ({
  id: randomUUID(),
  accepted,
  republished,
  appendedRows: [],
  extraWrites: ({ takenElsewhere }: Unrecorded) => ({
    outbox: Buffer.from(
      accepted
        .map(({ fact }) => fact.messageId)
        .filter((id) => !takenElsewhere.has(id))
        .join(),
    ),
    batches: [],
    responses: [],
  }),
})

export const openBatch = (owner: Owner, createdAt: number, accepted: number): BatchRow => ({
  id: freshId('bat', createdAt),
  owner,
  total: accepted,
  accepted,
  duplicate: 0,
  rejected: 0,
  createdAt,
  sealedAt: null,
})

export const codeIn = (batch: BatchRow, over: Partial<MessageAccepted> = {}): LedgerEntry =>
  entryOf(batch.owner, batch.createdAt, {
    class: 'otp',
    template: 'otp_code',
    clientRef: 'code-1',
    batch: batch.id,
    ...over,
  })

/** The same code, published again 1 s later. */
const againOf = (code: LedgerEntry): LedgerEntry => ({
  ...code,
  fact: { ...code.fact, at: code.fact.at + 1000 },
})

/** The same code, published again in another batch. */
export const againIn = (code: LedgerEntry, batch: BatchRow): LedgerEntry => ({
  ...code,
  fact: { ...code.fact, at: code.fact.at + 1, batch: batch.id, republished: true },
})

/** A new owner with open batches for one message each, and a code that is recorded in the first one. */
const recordedCode = Effect.fnUntraced(function* () {
  const owner = newOwner()
  const at = yield* ledgerNow
  const batches = [openBatch(owner, at, 1), openBatch(owner, at, 1), openBatch(owner, at, 1)] as const
  const code = codeIn(batches[0])
  yield* recordInBatch(code, batches[0])
  return { owner, batches, code }
})

/** Records a code together with its batch. */
export const recordInBatch = Effect.fnUntraced(function* (code: LedgerEntry, batch: BatchRow) {
  const ledger = yield* Ledger
  const commit = commitOf([code])
  yield* ledger.commit({
    ...commit,
    extraWrites: (unrecorded) => ({ ...commit.extraWrites(unrecorded), batches: [batch] }),
  })
})

export const sealBatch = (batch: BatchRow) =>
  Effect.flatMap(Ledger, (ledger) =>
    ledger.seal({ ...batch, sealedAt: batch.createdAt }, batch.accepted, Buffer.from('seal')),
  )

const knownOf = Effect.fnUntraced(function* ({ fact, owner }: LedgerEntry) {
  const ledger = yield* Ledger
  const references = [{ owner, clientRef: fact.clientRef! }]
  const { known } = yield* ledger.lookup({ references, recipients: [], remembered: [] })
  return known.get(refKey(owner, fact.clientRef!))
})

const isPublished = (code: LedgerEntry) => Effect.map(knownOf(code), (known) => known?.published)

/** Its process did not give this try to Kafka. */
const refund = ({ fact: { at, messageId } }: LedgerEntry) =>
  Effect.flatMap(Ledger, (ledger) => ledger.refund([{ messageId, at }]))

/** The suite. `adapter`: a layer of the ledger; its data may be shared by all tests. */
export const ledgerContract = (name: string, adapter: Layer.Layer<Ledger | TestLedger, unknown>): void => {
  const test = (title: string, body: () => Effect.Effect<void, unknown, Ledger | TestLedger>) =>
    it.live(title, () => body().pipe(Effect.provide(adapter)))

  describe(`${name}: a commit`, () => {
    test('records what did not lose its reference, and nothing of what did', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const owner = newOwner()
        const at = yield* ledgerNow
        const first = entryOf(owner, at, { clientRef: 'order-1' })
        yield* ledger.commit(commitOf([first]))

        // Its lookup came before the first commit.
        const late = entryOf(owner, at, { clientRef: 'order-1' })
        const other = entryOf(owner, at, { clientRef: 'order-2' })
        const withoutReference = entryOf(owner, at)
        const committed = yield* ledger.commit(commitOf([late, other, withoutReference]))

        assert.deepStrictEqual([...committed.takenElsewhere], [late.fact.messageId])
        const recorded = [other, withoutReference].map(({ fact }) => fact.messageId)
        assert.strictEqual(yield* store.outboxRow(committed.outboxRow), recorded.join())
        assert.deepStrictEqual(yield* store.acceptances(owner), new Set([first.fact.messageId, ...recorded]))
        assert.strictEqual(yield* store.spent(owner), '6.00')
      }))

    test('records nothing for a request that has lost its idempotency lock', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const owner = newOwner()
        const entry = { ...entryOf(owner, yield* ledgerNow), lock: yield* store.lostLock(owner) }
        const committed = yield* ledger.commit(commitOf([entry]))
        assert.deepStrictEqual([...committed.lockLost], [entry.fact.messageId])
        assert.strictEqual((yield* store.acceptances(owner)).size, 0)
        assert.strictEqual(yield* store.spent(owner), '0.00')
      }))

    test('records only what the spend limit allows', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const owner = newOwner()
        const at = yield* ledgerNow
        const spendLimit = { amount: '5.00', currency: 'RUB' as const }
        const entries = Array.from({ length: 3 }, () => ({ ...entryOf(owner, at), spendLimit }))
        const committed = yield* ledger.commit(commitOf(entries))
        assert.deepStrictEqual([...committed.overspent], [entries[2]!.fact.messageId])
        assert.strictEqual(yield* store.spent(owner), '4.00')
      }))

    test('deletes the outbox rows that Kafka has acknowledged', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const owner = newOwner()
        const at = yield* ledgerNow
        const [first, second] = [entryOf(owner, at), entryOf(owner, at)]
        const { outboxRow } = yield* ledger.commit(commitOf([first]))
        assert.strictEqual(yield* store.outboxRow(outboxRow), first.fact.messageId)
        yield* ledger.commit({ ...commitOf([second]), appendedRows: [outboxRow!] })
        assert.isUndefined(yield* store.outboxRow(outboxRow))
      }))
  })

  describe(`${name}: a lookup`, () => {
    test('finds used references, remembered messages and opt-outs', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const owner = newOwner()
        const at = yield* ledgerNow
        const recipient = randomBytes(32).toString('hex')
        const entry = entryOf(owner, at, { clientRef: 'order-1', recipient })
        const { messageId } = entry.fact
        yield* ledger.commit(commitOf([entry]))
        yield* store.optOut(recipient)
        const other = randomBytes(32).toString('hex')
        const found = yield* ledger.lookup({
          references: ['order-1', 'order-2'].map((clientRef) => ({ owner, clientRef })),
          recipients: [recipient, other],
          remembered: [messageId, freshId('msg', at)],
        })
        assert.deepStrictEqual([...found.known.keys()], [refKey(owner, 'order-1')])
        assert.deepInclude(found.known.get(refKey(owner, 'order-1')), { recipient, published: false })
        assert.deepStrictEqual([...found.recorded.keys()], [messageId])
        assert.deepStrictEqual([...found.optedOut], [recipient])
      }))
  })

  describe(`${name}: a code that is published again`, () => {
    const codeOf = (owner: Owner, at: number) =>
      entryOf(owner, at, { class: 'otp', template: 'otp_code', clientRef: 'code-1' })

    test('is charged once', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const owner = newOwner()
        const code = codeOf(owner, yield* ledgerNow)
        yield* ledger.commit(commitOf([code]))
        yield* ledger.commit(commitOf([], [againOf(code)]))
        assert.strictEqual(yield* store.spent(owner), '2.00')
      }))

    test('is not charged again when its first publication is projected between lookup and commit', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const owner = newOwner()
        const code = codeOf(owner, yield* ledgerNow)
        yield* ledger.commit(commitOf([code]))
        // Two processes have found it unproven. Meanwhile the projector applies it.
        yield* store.project(code)
        yield* ledger.commit(commitOf([], [againOf(code)]))
        yield* ledger.commit(commitOf([], [againOf(code)]))
        assert.strictEqual(yield* store.spent(owner), '2.00')
      }))

    test('is refunded once, and not for an earlier acceptance', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const owner = newOwner()
        const code = codeOf(owner, yield* ledgerNow)
        const { at, messageId } = code.fact
        yield* ledger.commit(commitOf([code]))
        const again = againOf(code)
        yield* ledger.commit(commitOf([], [again]))
        yield* ledger.refund([{ messageId, at }])
        assert.strictEqual(yield* store.spent(owner), '2.00')
        yield* ledger.refund([{ messageId, at: again.fact.at }])
        yield* ledger.refund([{ messageId, at: again.fact.at }])
        assert.strictEqual(yield* store.spent(owner), '0.00')
      }))
  })

  describe(`${name}: the batch of a code`, () => {
    const isUnpublished = (code: LedgerEntry) => Effect.map(knownOf(code), (known) => known?.unpublished)

    test('may change as long as none of its tries was given to Kafka', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const { batches, code } = yield* recordedCode()
        const [, second, third] = batches
        assert.isFalse(yield* isUnpublished(code))
        yield* refund(code)
        assert.isTrue(yield* isUnpublished(code))
        const again = againIn(code, second)
        yield* ledger.commit(commitOf([], [again]))
        yield* refund(again)
        assert.isTrue(yield* isUnpublished(code))
        yield* ledger.commit(commitOf([], [againIn(again, third)]))
        assert.strictEqual(yield* store.batchOf(code), third.id)
      }))

    test('stays after a try that Kafka may contain, although a later try was not given to Kafka', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const { batches, code } = yield* recordedCode()
        const [batch, other] = batches
        const again = againIn(code, batch)
        yield* ledger.commit(commitOf([], [again]))
        yield* refund(again)
        assert.isFalse(yield* isUnpublished(code))
        // Its process looked the code up before.
        const committed = yield* ledger.commit(commitOf([], [againIn(again, other)]))
        assert.deepStrictEqual([...committed.takenElsewhere], [code.fact.messageId])
        assert.strictEqual(yield* store.batchOf(code), batch.id)
      }))

    test('stays while another process publishes it', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const { batches, code } = yield* recordedCode()
        const [, second, third] = batches
        yield* refund(code)
        // Two processes have found it unpublished.
        yield* ledger.commit(commitOf([], [againIn(code, second)]))
        const committed = yield* ledger.commit(commitOf([], [againIn(code, third)]))
        assert.deepStrictEqual([...committed.takenElsewhere], [code.fact.messageId])
        assert.strictEqual(yield* store.batchOf(code), second.id)
        assert.isFalse(yield* isUnpublished(code))
      }))
  })

  describe(`${name}: a sealed batch`, () => {
    test('proves that its codes were published, until they expire', () =>
      Effect.gen(function* () {
        const at = yield* ledgerNow
        const batch = openBatch(newOwner(), at, 2)
        const code = codeIn(batch)
        const late = codeIn(batch, { clientRef: 'code-2', expiresAt: at - 1000 })
        yield* recordInBatch(code, batch)
        yield* recordInBatch(late, batch)
        assert.deepStrictEqual(yield* Effect.forEach([code, late], isPublished), [false, false])
        assert.isNotNull(yield* sealBatch(batch))
        assert.deepStrictEqual(yield* Effect.forEach([code, late], isPublished), [true, false])
        assert.isNull(yield* sealBatch(batch))
      }))

    test('does not prove a code that was refunded', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const batch = openBatch(newOwner(), yield* ledgerNow, 0)
        const code = codeIn(batch)
        yield* recordInBatch(code, batch)
        yield* ledger.refund([{ messageId: code.fact.messageId, at: code.fact.at }])
        assert.isNotNull(yield* sealBatch(batch))
        assert.isFalse(yield* isPublished(code))
      }))

    test('does not contain a code that another process is publishing again: the batch stays open', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const batch = openBatch(newOwner(), yield* ledgerNow, 0)
        const code = codeIn(batch)
        yield* recordInBatch(code, batch)
        const again = againIn(code, batch)
        assert.strictEqual((yield* ledger.commit(commitOf([], [again]))).takenElsewhere.size, 0)
        // The first process refunds its own try only, and its client was refused.
        yield* ledger.refund([{ messageId: code.fact.messageId, at: code.fact.at }])
        assert.isNull(yield* sealBatch(batch))
        assert.isFalse(yield* isPublished(code))
        yield* ledger.refund([{ messageId: code.fact.messageId, at: again.fact.at }])
        assert.isNotNull(yield* sealBatch(batch))
      }))

    test('does not prove a code that is published again behind the seal', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const owner = newOwner()
        const batch = openBatch(owner, yield* ledgerNow, 0)
        const code = codeIn(batch)
        yield* recordInBatch(code, batch)
        yield* ledger.refund([{ messageId: code.fact.messageId, at: code.fact.at }])
        yield* sealBatch(batch)
        // Decided before the seal.
        const before = { ...code, fact: { ...code.fact, republished: true } }
        assert.deepStrictEqual(
          [...(yield* ledger.commit(commitOf([], [before]))).takenElsewhere],
          [code.fact.messageId],
        )
        assert.strictEqual(yield* store.spent(owner), '0.00')
        const again = againIn(code, batch)
        assert.strictEqual((yield* ledger.commit(commitOf([], [again]))).takenElsewhere.size, 0)
        assert.isFalse(yield* isPublished(code))
        yield* ledger.refund([{ messageId: code.fact.messageId, at: again.fact.at }])
        assert.strictEqual(yield* store.spent(owner), '0.00')
      }))

    test('keeps its codes and their charge, although a process decided to publish them again before', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const { batches, code, owner } = yield* recordedCode()
        const [batch, other] = batches
        yield* sealBatch(batch)
        const committed = yield* ledger.commit(commitOf([], [againIn(code, other)]))
        assert.deepStrictEqual([...committed.takenElsewhere], [code.fact.messageId])
        assert.strictEqual(yield* store.batchOf(code), batch.id)
        assert.strictEqual(yield* store.spent(owner), '2.00')
      }))

    test('is not deleted, and neither is an open one with a charged code', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const owner = newOwner()
        const at = yield* ledgerNow
        const [sealed, open] = [openBatch(owner, at, 0), openBatch(owner, at, 1)]
        const [refunded, charged] = [codeIn(sealed), codeIn(open, { clientRef: 'code-2' })]
        yield* recordInBatch(refunded, sealed)
        yield* ledger.refund([{ messageId: refunded.fact.messageId, at }])
        yield* sealBatch(sealed)
        yield* recordInBatch(charged, open)
        yield* Effect.forEach([sealed, open], ({ id }) => ledger.discard(id))
        assert.deepStrictEqual(yield* Effect.forEach([sealed, open], store.hasBatch), [true, true])
        yield* ledger.refund([{ messageId: charged.fact.messageId, at }])
        yield* ledger.discard(open.id)
        assert.isFalse(yield* store.hasBatch(open))
      }))

    test('cannot lack a code: a batch whose code was published again in another one stays open', () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const store = yield* TestLedger
        const { batches, code } = yield* recordedCode()
        const [batch, other] = batches
        yield* refund(code)
        yield* ledger.commit(commitOf([], [againIn(code, other)]))
        assert.strictEqual(yield* store.batchOf(code), other.id)
        assert.isNull(yield* sealBatch(batch))
      }))
  })
}
