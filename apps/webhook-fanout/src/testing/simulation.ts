/**
 * A simulation of the fan-out: a partition, its deliverer and its receivers under a clock that the
 * test moves. The store and the topic outlive the processes. So days pass in milliseconds, and a
 * test can kill a process between any two steps.
 */
import { makeSupervisor } from '@hub/actor'
import { encodeId, eventId } from '@hub/domain'
import {
  encodeRecord,
  type EventRecorded,
  EventLog,
  type IncomingRecord,
  type SubscriptionChange,
  webhooksKey,
} from '@hub/kafka'
import { layerSimulatedKafka } from '@hub/kafka/testing'
import { type DeliveryResult, WebhookClient } from '@hub/webhooks'
import { Clock, Context, Effect, Exit, FiberSet, Layer, type Scope as ScopeType, Scope } from 'effect'
import { makeDeliverer } from '../delivery/deliverer.ts'
import { openPartition, type Partition } from '../batching/partition.ts'
import { FANOUT_DEFAULTS, FanoutSettings, type Settings } from '../config.ts'
import { FanoutStore } from '../store/store.port.ts'
import { MemoryStore, type Step } from './memory-store.ts'

/** `picky` refuses about every fifth batch, each time. */
export type ReceiverMode = 'up' | 'down' | 'hung' | 'picky'

/** A request that a receiver got. */
interface ReceivedRequest {
  readonly endpoint: string
  /** `evb_…` */
  readonly batch: string
  readonly body: string
  readonly at: number
  /** Number of the process that made it, from 1. */
  readonly process: number
  /** The owner of the partition made it while the subscription was disabled. */
  readonly whileDisabled: boolean
}

export const ACCOUNT = encodeId('acc', '00000000-0000-4000-8000-000000000001')
export const ENDPOINTS = [
  '00000000-0000-4000-8000-00000000000a',
  '00000000-0000-4000-8000-00000000000b',
] as const

const PARTITION = 0
/** How long receivers take, ms: longer than a step, so that a process can die meanwhile. */
const LATENCY_MS = 20

interface Process {
  readonly number: number
  readonly scope: ScopeType.Closeable
  dead: boolean
  partition: Partition | null
}

/** A repeatable sequence of pseudorandom numbers. */
const pseudoRandom = (seed: number) => {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

export const makeSimulation = Effect.fnUntraced(function* (
  options: {
    readonly seed?: number
    readonly settings?: Partial<Settings>
    /** Called at each step of a process, with its number; true kills the process. */
    readonly stopAt?: (step: number, name: string) => boolean
  } = {},
) {
  const settings: Settings = { ...FANOUT_DEFAULTS, ...options.settings }
  const random = pseudoRandom(options.seed ?? 1)
  const store = new MemoryStore({ settings, random })
  for (const uuid of ENDPOINTS) store.subscribe(uuid, ACCOUNT)
  const topic: Array<IncomingRecord> = []
  const received: Array<ReceivedRequest> = []
  const commits: Array<number> = []
  const modes = new Map<string, ReceiverMode>(ENDPOINTS.map((uuid) => [uuid, 'up']))
  const enabledAt: Array<{ readonly endpoint: string; readonly logLength: number }> = []
  const clock = yield* Clock.Clock
  const log = Context.get(yield* Layer.build(layerSimulatedKafka(1)), EventLog)
  const processes: Array<Process> = []
  let owner: Process | null = null
  let steps = 0

  const now = () => clock.currentTimeMillisUnsafe()

  const kill = (process: Process) => {
    if (process.dead) return Effect.void
    process.dead = true
    process.partition?.close()
    if (owner === process) owner = null
    return Scope.close(process.scope, Exit.void)
  }

  /** Kills the process in the middle of its current step. */
  const stopHere = (process: Process) => {
    process.dead = true
    process.partition?.close()
    if (owner === process) owner = null
    return Effect.never
  }

  const stepOf =
    (process: Process): Step =>
    (name) =>
      Effect.suspend(() => {
        if (process.dead) return Effect.never
        steps += 1
        return options.stopAt?.(steps, name) === true ? stopHere(process) : Effect.void
      })

  const answer = (mode: ReceiverMode, batch: string): DeliveryResult | 'silence' => {
    const refused = {
      succeeded: false,
      responseCode: 500,
      durationMs: LATENCY_MS,
      reason: 'http_status',
    } as const
    switch (mode) {
      case 'up':
        return { succeeded: true, responseCode: 200, durationMs: LATENCY_MS, reason: null }
      case 'down':
        return refused
      case 'hung':
        return 'silence'
      case 'picky':
        return batch.charCodeAt(batch.length - 2) % 5 === 0
          ? refused
          : { succeeded: true, responseCode: 200, durationMs: LATENCY_MS, reason: null }
    }
  }

  const clientOf = Effect.fnUntraced(function* (process: Process, step: Step) {
    const fork = yield* FiberSet.makeRuntime<never>()
    const deliver: WebhookClient['Service']['deliver'] = Effect.fnUntraced(function* (
      delivery,
      { deadlineMs = 10_000 } = {},
    ) {
      yield* step('before a request')
      const endpoint = delivery.url.slice(delivery.url.lastIndexOf('/') + 1)
      received.push({
        endpoint,
        batch: delivery.eventBatch,
        body: Buffer.from(delivery.body).toString('utf8'),
        at: now(),
        process: process.number,
        whileDisabled: owner === process && store.subscriptions.get(endpoint)?.health.status !== 'enabled',
      })
      const result = answer(modes.get(endpoint) ?? 'up', delivery.eventBatch)
      if (result === 'silence') {
        yield* Effect.sleep(deadlineMs)
        return { succeeded: false, responseCode: null, durationMs: deadlineMs, reason: 'timeout' } as const
      }
      // Answers come in another order than their requests.
      yield* Effect.sleep(Math.round(LATENCY_MS * (0.5 + random())))
      yield* step('after an answer')
      return result
    })
    return WebhookClient.of({
      openSockets: () => 0,
      deliver,
      begin: (delivery, deadlineMs, done) => {
        const fiber = fork(
          Effect.match(deliver(delivery, { deadlineMs }), { onFailure: done, onSuccess: done }),
        )
        return () => fiber.interruptUnsafe()
      },
    })
  })

  const feed = (process: Process) =>
    Effect.gen(function* () {
      const partition = process.partition
      if (partition === null || process.dead) return
      yield* partition.ingest(topic.slice(partition.position()))
    }).pipe(Effect.orDie)

  /** Starts a process, which takes the partition over. The owner before becomes a zombie. */
  const start = Effect.gen(function* () {
    const scope = yield* Scope.make()
    const process: Process = { number: processes.length + 1, scope, dead: false, partition: null }
    processes.push(process)
    const step = stepOf(process)
    const shape = store.shape(step)
    const opening = Effect.gen(function* () {
      const deliverer = yield* makeDeliverer({
        mayStart: () => !process.dead,
        report: (subscription, outcome) => process.partition?.report(subscription, outcome),
        supervise: makeSupervisor().supervise,
      })
      const { epoch, position } = yield* shape.acquire(PARTITION)
      owner = process
      process.partition = yield* openPartition({
        ownership: { partition: PARTITION, epoch },
        startAt: Math.max(position, 0),
        sources: [{ account: ACCOUNT, mode: 'live' }],
        deliverer,
        consumer: {
          pause: () => {},
          resume: () => {},
          commit: (offset) =>
            Effect.andThen(
              step('before a commit'),
              Effect.sync(() => void commits.push(offset)),
            ),
        },
      })
      deliverer.pump()
      yield* feed(process)
      yield* Effect.flip(process.partition.run)
      yield* kill(process)
    }).pipe(
      Effect.provideService(EventLog, log),
      Effect.provideService(FanoutStore, shape),
      Effect.provideServiceEffect(WebhookClient, clientOf(process, step)),
      Effect.provideService(FanoutSettings, settings),
      Effect.orDie,
      Scope.provide(scope),
    )
    yield* Effect.forkIn(opening, scope)
    yield* Effect.yieldNow
  })

  const append = (record: Omit<IncomingRecord, 'offset' | 'topic' | 'partition' | 'traceparent' | 'key'>) => {
    topic.push({
      ...record,
      topic: 'hub.webhooks.v1',
      partition: PARTITION,
      offset: topic.length,
      key: webhooksKey(ACCOUNT, 'live'),
      traceparent: null,
    })
  }

  /** Passes new records to every process that runs, also to zombies. */
  const feedAll = Effect.suspend(() =>
    Effect.forEach(
      processes.filter((process) => !process.dead),
      (process) => Effect.forkIn(feed(process), process.scope),
      { discard: true },
    ),
  )

  const emit = (count: number) =>
    Effect.suspend(() => {
      const journal = store.journal.get(ACCOUNT) ?? []
      store.journal.set(ACCOUNT, journal)
      for (let i = 0; i < count; i++) {
        const sequence = journal.length + 1
        const id = eventId(`simulated ${sequence}`)
        const record: EventRecorded = {
          type: 'EventRecorded',
          event: id,
          account: ACCOUNT,
          mode: 'live',
          sequence,
          eventType: 'message.sent',
          createdAt: now(),
          body: JSON.stringify({ id, sequence }),
        }
        journal.push({ id, sequence, eventType: record.eventType, body: record.body, createdAt: now() })
        append({
          type: record.type,
          id,
          occurredAt: now(),
          appendedAt: now(),
          value: encodeRecord(record),
        })
      }
      return feedAll
    })

  const appendChange = (endpoint: string, change: SubscriptionChange) =>
    Effect.suspend(() => {
      append({
        type: 'SubscriptionChanged',
        id: `${endpoint} ${topic.length}`,
        occurredAt: now(),
        appendedAt: now(),
        value: encodeRecord({
          type: 'SubscriptionChanged',
          account: ACCOUNT,
          mode: 'live',
          subscription: encodeId('we', endpoint),
          change,
          at: now(),
        }),
      })
      return feedAll
    })

  const enable = (endpoint: string) =>
    Effect.suspend(() => {
      enabledAt.push({ endpoint, logLength: store.log.length })
      store.enable(endpoint, now())
      return appendChange(endpoint, 'enabled')
    })

  const killOwner = Effect.suspend(() => (owner === null ? Effect.void : kill(owner)))
  const killAll = Effect.suspend(() => Effect.forEach(processes, kill, { discard: true }))

  return {
    received,
    commits,
    emit,
    enable,
    enabledAt,
    killAll,
    killOwner,
    modes,
    owner: () => owner,
    settings,
    start,
    steps: () => steps,
    store,
    topic,
  }
})

export type Simulation = Effect.Success<ReturnType<typeof makeSimulation>>
