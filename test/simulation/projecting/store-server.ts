/**
 * The PostgreSQL server of the projectors. Each step of a transaction is a request of its own, so
 * that other transactions run in between, and a process can die or stand still in the middle.
 */
import type { OutboxStoreShape } from '@hub/outbox'
import { type Checkpoint, partitionKey, type ProjectionStoreShape } from '@hub/projector'
import { type MemoryStore, type MemoryTransaction } from '@hub/projector/testing'
import { StorageRejected, StorageUnavailable } from '@hub/store'
import { Effect } from 'effect'
import type { SimulatedProcess } from '../world/process.ts'
import type { Simulation } from '../world/simulation.ts'
import { FAULTS, statement, unavailable } from '../world/statement.ts'
import { isRejected } from './poison.ts'

/** The deadlines of production. */
const TRANSACTION_MS = 5000
const RELAY_MS = 9000
/** PostgreSQL ends a transaction that waits this long for its next statement, or for a lock. */
const IDLE_MS = 10_000
/** The server notices after this time that a connection was closed. */
const CLOSED_WITHIN_MS = 500

/** PostgreSQL rejects the data: invalid characters. */
const REJECTED = new StorageRejected({ code: '22021', constraint: null })

type Step = <A>(
  name: string,
  serve: (answer: (value: A) => void) => void,
) => Effect.Effect<A, StorageUnavailable>

/** The process that acquired each partition last. */
export type Owners = Map<string, SimulatedProcess>

/** The ports of a projector process. */
export const storesOf = (
  { network, violations, world }: Simulation,
  store: MemoryStore,
  owners: Owners,
  process: SimulatedProcess,
): { readonly projection: ProjectionStoreShape; readonly outbox: OutboxStoreShape } => {
  const open = new Set<MemoryTransaction>()
  const closeLater = (transaction: MemoryTransaction) =>
    void world.after(CLOSED_WITHIN_MS, () => transaction.rollBack())
  process.onEnd(() => open.forEach(closeLater))

  const transaction = <A, E>(
    withinMs: number,
    body: (transaction: MemoryTransaction, step: Step) => Effect.Effect<A, E | StorageUnavailable>,
  ): Effect.Effect<A, E | StorageUnavailable> =>
    Effect.suspend(() => {
      const one = store.begin()
      open.add(one)
      let isCommitting = false
      let cancelIdle = () => {}
      const watchIdle = () => {
        cancelIdle()
        cancelIdle = world.after(IDLE_MS, () => one.rollBack())
      }
      const step: Step = <B>(name: string, serve: (answer: (value: B) => void) => void) =>
        Effect.callback<B, StorageUnavailable>((resume) => {
          network.request<B>(process, 'postgres', {
            name,
            describe: () => '',
            timeoutMs: withinMs,
            faults: FAULTS,
            serve: (answer) => {
              if (one.isOver) return
              watchIdle()
              serve((value) => {
                watchIdle()
                answer(value)
              })
            },
            onAnswer: (value) => resume(Effect.succeed(value)),
            onFailure: (reason, isExecuted) => resume(Effect.fail(unavailable(name, reason, isExecuted))),
          })
        })
      const commit = Effect.suspend(() => {
        isCommitting = true
        return step<null>('commit', (answer) => {
          one.commit()
          answer(null)
        })
      })
      return body(one, step).pipe(
        Effect.tap(() => commit),
        Effect.timeoutOrElse({
          duration: withinMs,
          orElse: () => Effect.fail(new StorageUnavailable({ reason: 'timeout', detail: 'deadline' })),
        }),
        Effect.ensuring(
          Effect.sync(() => {
            open.delete(one)
            // A commit that was sent may still succeed.
            if (!isCommitting) closeLater(one)
          }),
        ),
      )
    })

  const projection: ProjectionStoreShape = {
    acquire: (partitions) =>
      Effect.callback((resume) => {
        network.request<ReadonlyArray<Checkpoint>>(process, 'postgres', {
          name: 'acquire',
          describe: () => '',
          timeoutMs: TRANSACTION_MS,
          faults: FAULTS,
          serve: (answer) => {
            const one = store.begin()
            world.after(IDLE_MS, () => one.rollBack())
            one.acquire(partitions, (checkpoints) => {
              for (const partition of partitions) owners.set(partitionKey(partition), process)
              one.commit()
              answer(checkpoints)
            })
          },
          onAnswer: (checkpoints) => resume(Effect.succeed(checkpoints)),
          onFailure: (reason, isExecuted) => resume(Effect.fail(unavailable('acquire', reason, isExecuted))),
        })
      }),
    apply: (batch) =>
      transaction(TRANSACTION_MS, (one, step) =>
        Effect.gen(function* () {
          const decided = yield* step<ReturnType<typeof batch.decide>>('lock and read', (answer) =>
            one.lockAndRead(batch, (result) => {
              // The locks of the checkpoints keep the owners as they are until the commit.
              const foreign = batch.partitions.find((one) => owners.get(partitionKey(one)) !== process)
              if (typeof result !== 'string' && foreign !== undefined) {
                violations.add('a projector changes a partition that it lost', partitionKey(foreign))
              }
              answer(result)
            }),
          )
          if (typeof decided === 'string') return { kind: decided }
          if (isRejected(decided)) return yield* REJECTED
          const locked = yield* step<Parameters<Parameters<typeof one.write>[0]>[0]>('write rows', (answer) =>
            one.write(answer),
          )
          if (locked === null || decided.recording === null) {
            return { kind: 'applied', events: 0, publication: null } as const
          }
          const writes = decided.recording.write(locked)
          const recorded = yield* step<ReturnType<typeof one.record>>('write events', (answer) =>
            answer(one.record(writes)),
          )
          return { kind: 'applied', ...recorded } as const
        }),
      ),
    takeEvents: (source, recordingOf) =>
      transaction(TRANSACTION_MS, (one, step) =>
        Effect.gen(function* () {
          const { isFull, writes } = yield* step<{
            readonly writes: Parameters<typeof one.record>[0] | null
            readonly isFull: boolean
          }>('take events', (answer) =>
            one.take(source, recordingOf, (taken, full) => answer({ writes: taken, isFull: full })),
          )
          if (writes === null) return { isFull, events: 0, publication: null }
          const recorded = yield* step<ReturnType<typeof one.record>>('write events', (answer) =>
            answer(one.record(writes)),
          )
          return { isFull, ...recorded }
        }),
      ),
    publishOutcomes: (publish) =>
      transaction(RELAY_MS, (one, step) =>
        Effect.gen(function* () {
          const outcomes = yield* step<ReturnType<typeof one.takeOutcomes>>('take outcomes', (answer) =>
            answer(one.takeOutcomes()),
          )
          if (outcomes === null) return 0
          yield* publish(outcomes)
          return 1
        }),
      ),
  }
  const outbox: OutboxStoreShape = {
    relay: (wanted, publish) =>
      transaction(RELAY_MS, (one, step) =>
        Effect.gen(function* () {
          const rows = yield* step<ReturnType<typeof one.lockOutbox>>('lock outbox rows', (answer) =>
            answer(one.lockOutbox(wanted)),
          )
          if (rows.length > 0) yield* publish(rows.flatMap(([, { records }]) => records))
          return rows.length
        }),
      ),
    status: (upTo) => statement(network, process, 'read the outbox', () => store.outboxStatus(upTo)),
    remove: (rows) => statement(network, process, 'delete outbox rows', () => store.deleteOutboxRows(rows)),
  }
  return { projection, outbox }
}
