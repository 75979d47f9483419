/**
 * The command-api processes: acceptors with the ledger, the flood windows and the outbox.
 */
import {
  ACCEPTANCE_GATHER,
  acceptorLayer,
  BatchingAcceptor,
  commandOutboxOn,
  HubSettings,
  Ledger,
  SendLimits,
  makeSlices,
  UnprovenCodes,
} from '@hub/command-api'
import { makeMemoryLedger, type MemoryLedger } from '@hub/command-api/testing'
import { Counters, type CountersShape, type CountersUnavailable, memoryCounters } from '@hub/counters'
import { encodeId, type Lifetimes } from '@hub/domain'
import { topicNames } from '@hub/kafka'
import { simulatedKafka } from '@hub/kafka/testing'
import { decodeRow, OutboxStore, type OutboxStoreShape } from '@hub/outbox'
import { makeMemoryOutbox } from '@hub/outbox/testing'
import { PayloadEncryption } from '@hub/store'
import { Context, Effect, Layer } from 'effect'
import { payloadEncryption } from '../dispatching/stores.ts'
import { runMain } from '../world/main-fiber.ts'
import { ProcessFaults } from '../world/process-faults.ts'
import type { SimulatedProcess } from '../world/process.ts'
import type { Simulation } from '../world/simulation.ts'
import { effectInServer, redisCall, statement } from '../world/statement.ts'

/** A confirmation that Redis did not answer is sent again after this time. */
const CONFIRM_AGAIN_MS = 500

export interface CommandApis {
  readonly ledger: MemoryLedger
  /** The processes that take requests. */
  readonly acceptors: ReadonlyMap<SimulatedProcess, BatchingAcceptor['Service']>
  readonly processes: ProcessFaults
  /** The processes that tried to record a message. */
  readonly recordersOf: (messageId: string) => ReadonlySet<SimulatedProcess>
}

/** The flood windows in Redis, as a process reaches them. */
const countersOf = (
  simulation: Simulation,
  process: SimulatedProcess,
  counters: CountersShape,
): CountersShape => {
  const remote = <A>(name: string, effect: Effect.Effect<A, CountersUnavailable>) =>
    redisCall(simulation, process, name, () => effect)
  return {
    ...counters,
    reserveFlood: (requests) => remote('reserve', counters.reserveFlood(requests)),
    releaseFlood: (reservations) => remote('release', counters.releaseFlood(reservations)),
    confirmFlood: (acceptances) =>
      remote('confirm', counters.confirmFlood(acceptances)).pipe(
        Effect.tapError(() => Effect.sleep(CONFIRM_AGAIN_MS)),
        Effect.eventually,
      ),
    daily: {
      ...counters.daily,
      count: (day, messages) => remote('count', counters.daily.count(day, messages)),
    },
    ping: remote('ping', counters.ping),
  }
}

export const startCommandApis = (simulation: Simulation, lifetimes: Lifetimes): CommandApis => {
  const { broker, network, violations, world } = simulation
  const topics = topicNames()
  const outbox = makeMemoryOutbox(() => world.now())
  const ledger = makeMemoryLedger(() => world.now(), outbox)
  const counters = Effect.runSync(
    Effect.provide(Counters, Layer.fresh(memoryCounters({ now: () => world.now() }))),
  )
  const acceptors = new Map<SimulatedProcess, BatchingAcceptor['Service']>()
  let messageIds = 0
  let relaying: SimulatedProcess | null = null

  const recorders = new Map<string, Set<SimulatedProcess>>()
  const recordersOf = (messageId: string) => recorders.get(messageId) ?? new Set<SimulatedProcess>()

  const ledgerOf = (process: SimulatedProcess): Ledger['Service'] => {
    const { ledger: memory } = ledger
    const remote = <A, E>(name: string, effect: () => Effect.Effect<A, E>) =>
      effectInServer(simulation, process, name, effect)
    return {
      lookup: (query) => remote('look up', () => memory.lookup(query)),
      commit: (commit) => {
        for (const { fact } of [...commit.accepted, ...commit.republished])
          recorders.set(fact.messageId, recordersOf(fact.messageId).add(process))
        return remote('commit', () => memory.commit(commit))
      },
      withdraw: (id) => remote('withdraw', () => memory.withdraw(id)),
      refund: (codes) => remote('refund', () => memory.refund(codes)),
      seal: (batch, codes, records) => remote('seal', () => memory.seal(batch, codes, records)),
      discard: (batch) => remote('discard', () => memory.discard(batch)),
      sealFromLedger: (batches, encode) => remote('seal', () => memory.sealFromLedger(batches, encode)),
    }
  }

  /** The outbox, as a process reaches it. One process at a time relays. */
  const outboxOf = (process: SimulatedProcess): OutboxStoreShape => {
    const run = <A>(name: string, execute: () => A) => statement(network, process, name, execute)
    return {
      relay: (wanted, publish) =>
        Effect.gen(function* () {
          const rows = yield* run('read outbox rows', () => {
            if (relaying !== null && relaying !== process && relaying.isAlive) return []
            relaying = process
            return outbox.oldest(wanted)
          })
          if (rows.length === 0) return 0
          const records = yield* Effect.orDie(
            Effect.forEach(rows, ([, one]) => Effect.fromResult(decodeRow(one.records))),
          )
          yield* publish(records.flat())
          yield* run('delete outbox rows', () => outbox.remove(rows.map(([id]) => id)))
          return rows.length
        }).pipe(
          Effect.ensuring(
            Effect.sync(() => {
              if (relaying === process) relaying = null
            }),
          ),
        ),
      status: (upTo) => run('read the outbox', () => outbox.status(upTo)),
      remove: (rows) => run('delete outbox rows', () => outbox.remove(rows)),
    }
  }

  const start = (number: number) => {
    const process = world.startProcess(`command-api-${number}`, 0)
    const services = simulatedKafka(broker, network.kafkaHost(process)).pipe(
      Context.add(Ledger, ledgerOf(process)),
      Context.add(OutboxStore, outboxOf(process)),
      Context.add(Counters, countersOf(simulation, process, counters)),
      Context.add(HubSettings, { current: Effect.succeed({ dailyLimit: null, stoppedUntil: null }) }),
      Context.add(PayloadEncryption, payloadEncryption(network, process)),
      Context.merge(process.context),
    )
    const layer = acceptorLayer({
      topics,
      lifetimes,
      slices: makeSlices(),
      gather: ACCEPTANCE_GATHER,
      makeMessageId: () =>
        encodeId('msg', `01890000-0000-7000-8000-${(++messageIds).toString(16).padStart(12, '0')}`),
    }).pipe(
      Layer.provideMerge(
        Layer.mergeAll(
          Layer.fresh(commandOutboxOn),
          Layer.fresh(UnprovenCodes.layer),
          Layer.fresh(SendLimits.layer),
        ),
      ),
    )
    const main = Effect.gen(function* () {
      acceptors.set(process, yield* BatchingAcceptor)
      return yield* Effect.never
    }).pipe(Effect.provide(layer), Effect.scoped, Effect.provideContext(services))
    process.onEnd(() => acceptors.delete(process))
    runMain(process, main, {
      onStarted: (stop) =>
        processes.onStop(process, () => {
          // The listener closes first.
          acceptors.delete(process)
          stop()
        }),
      onFailed: (cause) => violations.add('a process fails', `${process.name}: ${cause}`),
    })
    return process
  }
  const processes = new ProcessFaults(simulation, 'command-api', start)
  return { ledger, acceptors, processes, recordersOf }
}
