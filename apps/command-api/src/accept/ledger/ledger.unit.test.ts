/** The test double of the ledger passes the contract suite. */
import { Effect, Layer } from 'effect'
import { lockOf } from '../../testing/doubles.ts'
import { makeMemoryLedger } from '../../testing/memory-ledger.ts'
import { ledgerContract, TestLedger } from './ledger.contract.ts'
import { Ledger } from './ledger.port.ts'

ledgerContract(
  'memory',
  Layer.unwrap(
    Effect.sync(() => {
      const memory = makeMemoryLedger()
      return Layer.merge(
        Layer.succeed(Ledger)(memory.ledger),
        Layer.succeed(TestLedger)({
          project: ({ fact }) => Effect.sync(() => void memory.projected.add(fact.messageId)),
          optOut: (recipient) => Effect.sync(() => void memory.optedOut.add(recipient)),
          lostLock: (owner) =>
            Effect.sync(() => {
              const lock = { ...lockOf('lost'), accountUuid: owner.accountUuid }
              memory.state.lostLocks.add(lock.token)
              return lock
            }),
          outboxRow: (id) =>
            Effect.sync(() => (id === null ? undefined : memory.outbox.get(id)?.records.toString())),
          acceptances: (owner) =>
            Effect.sync(
              () =>
                new Set(
                  [...memory.rows.values()]
                    .filter((entry) => entry.owner.accountUuid === owner.accountUuid)
                    .map(({ fact }) => fact.messageId),
                ),
            ),
          spent: (owner) => Effect.sync(() => memory.spentOf(owner)),
          hasBatch: ({ id }) => Effect.sync(() => memory.batches.has(id)),
          batchOf: ({ fact }) => Effect.sync(() => memory.rows.get(fact.messageId)?.fact.batch ?? null),
        }),
      )
    }),
  ),
)
