/**
 * A run of the acceptance of sends: clients → acceptors → ledger and lanes, with several processes
 * that fail, and clients that repeat what they got no answer to. The relay of the outbox and the
 * read model are stand-ins.
 */
import {
  acceptorLayer,
  BatchingAcceptor,
  Ledger,
  Limits,
  makeMemoryLedger,
  makeSlices,
  otp,
  OutboxMode,
  type SendOutcome,
  service,
  UnprovenCodes,
} from '@hub/command-api'
import { encodeId } from '@hub/domain'
import { decodeFact, decodeOutboxRow, EventLog, simulatedKafka, topicNames } from '@hub/kafka'
import { decodePayload, PayloadEncryption } from '@hub/store'
import { Cause, Context, Effect, Exit, Layer, Result } from 'effect'
import { payloadEncryption, plainOf } from '../dispatching/stores.ts'
import { runMain } from '../world/main-fiber.ts'
import { ProcessFaults } from '../world/process-faults.ts'
import type { SimulatedProcess } from '../world/process.ts'
import type { Plan, RunOptions, RunResult } from '../world/run.ts'
import { runScenario, type Simulation } from '../world/simulation.ts'
import { effectInServer, statement } from '../world/statement.ts'

const SERVERS = ['kafka', 'postgres']
const SECOND = 1000
const FAULTS_MS = 30 * SECOND
const QUIESCE_MS = 90 * SECOND
const LIFETIMES = {
  beforeHandover: { otp: 300 * SECOND, service: 3600 * SECOND },
  report: { otp: 300 * SECOND, service: 3600 * SECOND },
  sandbox: 10 * SECOND,
}
/** As in the relay of production. */
const RELAYED_AFTER_MS = 3500
const RELAY_EVERY_MS = 200
/** A client waits this long for an answer, and repeats a send with a reference. */
const ANSWER_WITHIN_MS = 4000

/** One send of a client, with all answers to it and its repeats. */
interface ClientSend {
  /** It is a variable of the message, by which its records are recognized. */
  readonly code: string
  readonly clientRef: string | null
  readonly class: 'otp' | 'service'
  readonly to: string
  readonly accepted: Set<string>
  attempts: number
  /** Attempts that ended without an answer, or with an unknown outcome. */
  uncertain: number
  isSettled: boolean
}

export const runAccepting = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario(
    { servers: SERVERS, expectedErrors: /an acceptance batch was not recorded/u, run },
    plan,
    options,
  )

const run = (simulation: Simulation): number => {
  const { broker, faults, network, plan, violations, world } = simulation
  const random = simulation.random('workload')
  const topics = topicNames()
  const ledger = makeMemoryLedger(() => world.now())
  // ---- the read model and the age of outbox rows

  const lanes = () =>
    [topics.acceptedOtp, topics.acceptedService].flatMap((topic) => broker.topic(topic).flat())
  const rowsSince = new Map<number, number>()
  const follow = () => {
    for (const record of lanes()) {
      const fact = decodeFact(record)
      if (Result.isSuccess(fact) && world.now() - record.appendedAt > 300)
        ledger.projected.add(fact.success.messageId)
    }
    for (const row of ledger.outbox.keys()) if (!rowsSince.has(row)) rowsSince.set(row, world.now())
    world.after(200, follow)
  }
  follow()

  // ---- the processes

  let messageIds = 0
  let relaying: SimulatedProcess | null = null
  const acceptors = new Map<SimulatedProcess, BatchingAcceptor['Service']>()

  const ledgerOf = (process: SimulatedProcess): Ledger['Service'] => {
    const { ledger: memory } = ledger
    const remote = <A, E>(name: string, effect: () => Effect.Effect<A, E>) =>
      effectInServer(simulation, process, name, effect)
    return {
      lookup: (query) => remote('look up', () => memory.lookup(query)),
      commit: (commit) => remote('commit', () => memory.commit(commit)),
      withdraw: (id) => remote('withdraw', () => memory.withdraw(id)),
      refund: (codes) => remote('refund', () => memory.refund(codes)),
      seal: (batch, codes, records) => remote('seal', () => memory.seal(batch, codes, records)),
      sealFromLedger: (batches, encode) => remote('seal', () => memory.sealFromLedger(batches, encode)),
      deleteOutboxRows: (rows) => remote('delete outbox rows', () => memory.deleteOutboxRows(rows)),
    }
  }

  const limits: Limits['Service'] = {
    daily: () => Effect.succeed(null),
    reserve: (asked) => Effect.succeed(asked.map(() => null)),
    confirm: () => Effect.void,
    release: () => Effect.void,
  }

  /** Appends old rows in order and deletes them. One process at a time relays. */
  const relay = (process: SimulatedProcess) =>
    Effect.gen(function* () {
      const mode = yield* OutboxMode
      const log = yield* EventLog
      const turn = Effect.gen(function* () {
        if (mode.relayBacklog().highest === null) {
          mode.relayExistingRows(
            yield* statement(network, process, 'read the highest row', () =>
              Math.max(0, ...ledger.outbox.keys()),
            ),
          )
        }
        const { count, highest } = mode.relayBacklog()
        const rows = yield* statement(network, process, 'read outbox rows', () => {
          if (relaying !== null && relaying !== process && relaying.isAlive) return []
          relaying = process
          return [...ledger.outbox]
            .filter(([row]) => world.now() - (rowsSince.get(row) ?? world.now()) > RELAYED_AFTER_MS)
            .toSorted(([a], [b]) => a - b)
        })
        for (const [, bytes] of rows) yield* log.append(yield* Effect.fromResult(decodeOutboxRow(bytes)))
        const left = yield* statement(network, process, 'delete outbox rows', () => {
          for (const [row] of rows) ledger.outbox.delete(row)
          return [...ledger.outbox.keys()].some((row) => row <= (highest ?? 0))
        })
        if (!left) mode.switchToDirect(count)
      }).pipe(
        Effect.ignore,
        Effect.ensuring(
          Effect.sync(() => {
            if (relaying === process) relaying = null
          }),
        ),
      )
      yield* Effect.forkScoped(Effect.forever(Effect.andThen(turn, Effect.sleep(RELAY_EVERY_MS))))
    })

  const start = (number: number) => {
    const process = world.startProcess(`command-api-${number}`, 0)
    const services = simulatedKafka(broker, network.kafkaHost(process)).pipe(
      Context.add(Ledger, ledgerOf(process)),
      Context.add(Limits, limits),
      Context.add(PayloadEncryption, payloadEncryption(network, process)),
      Context.merge(process.context),
    )
    const layer = acceptorLayer({
      topics,
      lifetimes: LIFETIMES,
      slices: makeSlices(),
      makeMessageId: () =>
        encodeId('msg', `01890000-0000-7000-8000-${(++messageIds).toString(16).padStart(12, '0')}`),
    }).pipe(
      Layer.provideMerge(Layer.mergeAll(Layer.fresh(OutboxMode.layer), Layer.fresh(UnprovenCodes.layer))),
    )
    const main = Effect.gen(function* () {
      yield* relay(process)
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
  const processes = new ProcessFaults(simulation, start)

  // ---- the clients

  const sends: Array<ClientSend> = []
  const onAnswer = (send: ClientSend, outcome: SendOutcome | null) => {
    if (outcome !== null && Result.isSuccess(outcome)) {
      const { duplicate, view } = outcome.success
      world.note('client', () => `${send.code} is accepted as ${view.id}${duplicate ? ', a duplicate' : ''}`)
      send.accepted.add(view.id)
      // Some clients lose the answer and repeat.
      if (send.clientRef !== null && !faults.isOver && random.chance(0.2)) return attemptLater(send)
      send.isSettled = true
      return
    }
    const isUncertain = outcome === null || outcome.failure.outcome === 'unknown'
    world.note(
      'client',
      () =>
        `${send.code} ${outcome === null ? 'gets no answer' : `fails: ${outcome.failure.code}${isUncertain ? ', unknown' : ''}`}`,
    )
    if (isUncertain) send.uncertain++
    if (send.clientRef === null) send.isSettled = true
    else attemptLater(send)
  }
  const attemptLater = (send: ClientSend) => {
    world.after(random.between(50, 3000), () => attempt(send))
  }
  const attempt = (send: ClientSend) => {
    const [process, acceptor] = random.pick([...acceptors, [null, null] as const])
    if (process === null || process.isPaused) return attemptLater(send)
    send.attempts++
    const checked =
      send.class === 'otp'
        ? otp(send.clientRef, { to: send.to, variables: { code: send.code } })
        : service(send.clientRef, { to: send.to, variables: { order: send.code } })
    let isOver = false
    const answer = (outcome: SendOutcome | null) => {
      if (isOver) return
      isOver = true
      onAnswer(send, outcome)
    }
    world.after(ANSWER_WITHIN_MS, () => answer(null))
    world.after(random.between(1, 20), () =>
      process.post(() => {
        world.note(
          process.name,
          () => `gets ${send.code} (${send.class}, ${send.clientRef ?? 'no reference'})`,
        )
        const fiber = Effect.runForkWith(process.context)(acceptor.accept([checked]))
        fiber.addObserver((exit) => {
          if (Exit.isSuccess(exit)) {
            const [outcome] = exit.value.outcomes
            world.after(random.between(1, 20), () => answer(outcome ?? null))
          } else if (!Cause.hasInterruptsOnly(exit.cause)) {
            violations.add('a send dies', `${send.code}: ${Cause.pretty(exit.cause)}`)
          }
        })
      }),
    )
  }
  const count = Math.min(random.between(4, 30), plan.size)
  for (let i = 0; i < count; i++) {
    const send: ClientSend = {
      code: String(10_000 + i),
      clientRef: random.chance(0.8) ? `ref-${i}` : null,
      class: random.pick(['otp', 'service']),
      to: `+7900123456${random.below(4)}`,
      accepted: new Set(),
      attempts: 0,
      uncertain: 0,
      isSettled: false,
    }
    sends.push(send)
    world.after(random.between(0, FAULTS_MS), () => {
      attempt(send)
      // An impatient client sends twice at once.
      if (send.clientRef !== null && random.chance(0.2)) attempt(send)
    })
  }

  // ---- the run

  let checkedAt = 0
  world.runFor(FAULTS_MS)
  processes.end()
  const isQuiet = world.runUntil(() => {
    if (world.now() < checkedAt + 500) return false
    checkedAt = world.now()
    return sends.every(({ isSettled }) => isSettled) && ledger.outbox.size === 0
  }, QUIESCE_MS)
  if (!isQuiet) {
    for (const send of sends)
      if (!send.isSettled)
        violations.add('a send is never accepted', `${send.code} after ${send.attempts} attempts`)
    if (ledger.outbox.size > 0) violations.add('outbox rows stay', [...ledger.outbox.keys()].join())
  }
  world.runFor(15 * SECOND)
  const before = lanes().length
  world.runFor(15 * SECOND)
  if (lanes().length > before) violations.add('the hub is not idle', `${lanes().length - before} records`)

  // ---- the checks

  const published = new Map<string, Set<string>>()
  for (const record of lanes()) {
    const fact = decodeFact(record)
    if (Result.isFailure(fact) || fact.success.type !== 'MessageAccepted') continue
    const { text = '' } = decodePayload(plainOf(fact.success.sealed)) ?? {}
    const code = /\d{5}/u.exec(text)?.[0] ?? 'none'
    published.set(code, (published.get(code) ?? new Set()).add(fact.success.messageId))
  }
  for (const { accepted, clientRef, code, uncertain } of sends) {
    const ids = published.get(code) ?? new Set()
    for (const id of accepted) {
      if (!ids.has(id)) violations.add('an acknowledged send is lost', `${code}: ${id}`)
    }
    if (clientRef !== null && new Set([...accepted, ...ids]).size > 1) {
      violations.add('a reference identifies two messages', `${clientRef}: ${[...accepted, ...ids].join()}`)
    }
    if (clientRef === null && accepted.size === 0 && uncertain === 0 && ids.size > 0) {
      violations.add('a refused send is published', `${code}: ${[...ids].join()}`)
    }
  }
  return sends.length
}
