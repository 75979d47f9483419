/**
 * The fan-out processes with their store and the receivers, and the checks of what the receivers got.
 */
import { encodeId } from '@hub/domain'
import {
  type EventRecorded,
  eventRecordedRecord,
  type OutgoingRecord,
  simulatedKafka,
  subscriptionChangedRecord,
  topicNames,
} from '@hub/kafka'
import type { StorageError } from '@hub/store'
import {
  FANOUT_DEFAULTS,
  FanoutSettings,
  FanoutStore,
  type FanoutStoreShape,
  makeFanout,
  MemoryStore,
  type Settings,
} from '@hub/webhook-fanout'
import { AttemptNotMade, type DeliveryResult, WebhookClient } from '@hub/webhooks'
import { Context, Effect } from 'effect'
import { runMain } from '../world/main-fiber.ts'
import { ProcessFaults } from '../world/process-faults.ts'
import type { SimulatedProcess } from '../world/process.ts'
import type { SeededRandom } from '../world/random.ts'
import type { Simulation } from '../world/simulation.ts'
import { effectInServer } from '../world/statement.ts'

const SECOND = 1000
const WINDOW_MS = 90 * SECOND
/** All batches end this long after the faults: the retry window, and the time of a recovery. */
export const DELIVERED_WITHIN_MS = WINDOW_MS + 60 * SECOND
const MODE = 'live' as const
/** Subscriptions are created within this time. */
const CREATED_WITHIN_MS = 30 * SECOND

/**
 * The rules of production with shorter times, so that retries and windows end within a run. With few
 * attempts at a time, batches wait in the queue of a receiver that hangs.
 */
const settingsOf = (random: SeededRandom): Settings => ({
  ...FANOUT_DEFAULTS,
  retryWindowMs: WINDOW_MS,
  batchEvents: random.pick([1, 5]),
  inFlightEach: random.pick([1, FANOUT_DEFAULTS.inFlightEach]),
  inFlightEachFailing: random.pick([1, FANOUT_DEFAULTS.inFlightEachFailing]),
  nextAttemptAt: ({ attempt, failedAt, queuedAt, random }) => {
    const next = failedAt + Math.min(20, 2 ** attempt) * SECOND * (0.9 + 0.2 * random)
    return next >= queuedAt + WINDOW_MS ? null : next
  },
})

interface Received {
  readonly endpoint: string
  readonly batch: string
  readonly body: string
  readonly at: number
  readonly isConfirmed: boolean
}

const uuidOf = (number: number) => `00000002-0000-4000-8000-${String(number).padStart(12, '0')}`

/** An event of the journal. `id`: `evt_…`. */
interface JournalEntry {
  readonly account: string
  readonly id: string
  readonly eventType: string
  readonly body: (sequence: number) => string
}

export const startFanouts = (simulation: Simulation, accounts: ReadonlyArray<string>) => {
  const { broker, faults, network, violations, world } = simulation
  const random = simulation.random('receivers')
  const storeRandom = simulation.random('store')
  const topics = topicNames()
  const settings = settingsOf(simulation.random('fan-out settings'))
  const store = new MemoryStore({ settings, random: () => storeRandom.next() })
  // ---- the event journal

  const events: Array<EventRecorded> = []
  /** Several projectors publish the events of an account, each in its own time. */
  const isOutOfOrder = random.chance(0.5)
  /** At least once: the publisher repeats an append that was not acknowledged. */
  const publish = (record: OutgoingRecord, what: string) => {
    const append = () => {
      world.note('outbox', () => `publishes ${what}`)
      broker.append([record])
    }
    const delay = isOutOfOrder ? random.pick([0, 0, 30, 300, 2000]) : 0
    if (delay === 0) append()
    else world.after(delay, append)
    if (random.chance(0.15)) world.after(delay + random.between(0, 4000), append)
  }
  /** Adds an event to the journal, and publishes it at least once, as the projector does. */
  const emit = ({ account, body, eventType, id }: JournalEntry) => {
    const journal = store.journal.get(account) ?? []
    store.journal.set(account, journal)
    const sequence = journal.length + 1
    const record: EventRecorded = {
      type: 'EventRecorded',
      event: id,
      account,
      mode: MODE,
      sequence,
      eventType,
      createdAt: world.now(),
      body: body(sequence),
    }
    journal.push({ id, sequence, eventType, body: record.body, createdAt: world.now() })
    events.push(record)
    publish(eventRecordedRecord(topics, record), `event ${sequence} of ${account}`)
  }

  // ---- subscriptions

  interface Endpoint {
    readonly uuid: string
    readonly account: string
    /** The subscription gets the events behind this one. */
    readonly afterSequence: number
  }
  const endpoints: Array<Endpoint> = []
  const subscribe = (uuid: string): Endpoint => {
    const account = random.pick(accounts)
    const afterSequence = store.journal.get(account)?.length ?? 0
    store.subscribe(uuid, account, afterSequence)
    const endpoint = { uuid, account, afterSequence }
    endpoints.push(endpoint)
    return endpoint
  }
  /** Its record follows the commit that creates it, so events may be published in between. */
  const create = (uuid: string) => {
    const { account } = subscribe(uuid)
    const subscription = encodeId('we', uuid)
    const record = subscriptionChangedRecord(topics, {
      type: 'SubscriptionChanged',
      account,
      mode: MODE,
      subscription,
      change: 'created',
      at: world.now(),
    })
    world.note('command-api', () => `creates ${subscription}`)
    world.after(random.pick([0, 5, 50, 2000]), () => publish(record, `the creation of ${subscription}`))
  }
  for (let i = 0; i < random.between(1, 2); i++) subscribe(uuidOf(i + 1))
  for (let i = 0; i < random.pick([0, 0, 1, 2]); i++) {
    world.after(random.between(0, CREATED_WITHIN_MS), () => create(uuidOf(10 + i)))
  }

  // ---- the receivers

  const received: Array<Received> = []
  const refusing = new Map<string, number>()
  const changeReceivers = () => {
    if (faults.isOver) return refusing.clear()
    for (const { uuid } of endpoints) refusing.set(uuid, random.pick([0, 0, 0, 0.3, 1]))
    world.after(random.between(2000, 15_000), changeReceivers)
  }
  changeReceivers()
  const clientOf = (process: SimulatedProcess): WebhookClient['Service'] => {
    const begin: WebhookClient['Service']['begin'] = (delivery, deadlineMs, done) => {
      let isAborted = false
      const began = world.now()
      const endpoint = delivery.url.slice(delivery.url.lastIndexOf('/') + 1)
      const end = (result: DeliveryResult | AttemptNotMade) => {
        if (!isAborted) done(result)
      }
      const durationMs = () => world.now() - began
      network.request<number>(process, 'receiver', {
        name: 'deliver',
        describe: () => `${delivery.eventBatch} to ${endpoint}`,
        timeoutMs: deadlineMs,
        faults: ['failBefore', 'failAfter', 'lost', 'slow'],
        serve: (answer) => {
          const isConfirmed = !random.chance(refusing.get(endpoint) ?? 0)
          received.push({
            endpoint,
            batch: delivery.eventBatch,
            body: Buffer.from(delivery.body).toString('utf8'),
            at: world.now(),
            isConfirmed,
          })
          answer(isConfirmed ? 200 : 500)
        },
        onAnswer: (responseCode) =>
          end(
            responseCode === 200
              ? { succeeded: true, responseCode, durationMs: durationMs(), reason: null }
              : { succeeded: false, responseCode, durationMs: durationMs(), reason: 'http_status' },
          ),
        onFailure: (reason) =>
          end({
            succeeded: false,
            responseCode: null,
            durationMs: durationMs(),
            reason: reason === 'timeout' ? 'timeout' : 'connection_reset',
          }),
      })
      return () => {
        isAborted = true
      }
    }
    return {
      begin,
      deliver: (delivery, { deadlineMs = 10_000 } = {}) =>
        Effect.callback((resume) => {
          const abort = begin(delivery, deadlineMs, (result) =>
            resume(result instanceof AttemptNotMade ? Effect.fail(result) : Effect.succeed(result)),
          )
          return Effect.sync(abort)
        }),
      openSockets: () => 0,
    }
  }

  // ---- the processes

  const storeOf = (process: SimulatedProcess): FanoutStoreShape => {
    const shape = store.shape()
    const remote =
      <Arguments extends ReadonlyArray<unknown>, A, E>(
        name: string,
        execute: (...args: Arguments) => Effect.Effect<A, E>,
      ) =>
      (...args: Arguments): Effect.Effect<A, E | StorageError> =>
        effectInServer(simulation, process, name, () => execute(...args))
    const read = <A, E>(name: string, effect: Effect.Effect<A, E>) => remote(name, () => effect)()
    return {
      acquire: remote('acquire', shape.acquire),
      sources: read('sources', shape.sources),
      subscriptionsOf: remote('subscriptionsOf', shape.subscriptionsOf),
      subscription: remote('subscription', shape.subscription),
      journal: remote('journal', shape.journal),
      storeBatches: remote('storeBatches', shape.storeBatches),
      due: remote('due', shape.due),
      expired: remote('expired', shape.expired),
      body: remote('body', shape.body),
      record: remote('record', shape.record),
      redeliveries: read('redeliveries', shape.redeliveries),
      takeOnDemand: remote('takeOnDemand', shape.takeOnDemand),
      recordOnDemand: remote('recordOnDemand', shape.recordOnDemand),
      releaseOnDemand: remote('releaseOnDemand', shape.releaseOnDemand),
      purgeDeleted: read('purgeDeleted', shape.purgeDeleted),
      waiting: read('waiting', shape.waiting),
      answers: Effect.succeed(true),
    }
  }
  const start = (number: number) => {
    const process = world.startProcess(`fan-out-${number}`, 0)
    const services = simulatedKafka(broker, network.kafkaHost(process)).pipe(
      Context.add(FanoutStore, storeOf(process)),
      Context.add(FanoutSettings, settings),
      Context.add(WebhookClient, clientOf(process)),
      Context.merge(process.context),
    )
    const main = Effect.gen(function* () {
      const running = yield* makeFanout({ prefix: '' })
      return yield* running.failure
    }).pipe(Effect.scoped, Effect.provideContext(services))
    runMain(process, main, {
      onStarted: (stop) => processes.onStop(process, stop),
      onFailed: (cause) => violations.add('a process fails', `${process.name}: ${cause}`),
    })
    return process
  }
  const processes = new ProcessFaults(simulation, 'fan-out', start)

  // ---- the checks

  const wanted = () =>
    events.flatMap((event) =>
      endpoints
        .filter(({ account, afterSequence }) => account === event.account && event.sequence > afterSequence)
        .map(({ uuid }) => ({ event, uuid })),
    )
  const batchOf = (uuid: string, event: EventRecorded) =>
    store.batches.get(store.batchOf.get(`${uuid} ${event.event} `) ?? '')
  const isDone = () =>
    wanted().every(({ event, uuid }) => {
      const status = batchOf(uuid, event)?.state.status
      return status === 'succeeded' || status === 'failed'
    })

  const checkProgress = () => {
    for (const { event, uuid } of wanted()) {
      const status = batchOf(uuid, event)?.state.status
      if (status === 'succeeded' || status === 'failed') continue
      violations.add(
        'an event is not delivered',
        `event ${event.sequence} to ${uuid}: ${status ?? 'not in a batch'}`,
      )
    }
  }

  const checkDeliveries = () => {
    const bodies = new Map<string, string>()
    const batchesOf = new Map<string, string>()
    for (const { at, batch, body, endpoint } of received) {
      if ((bodies.get(batch) ?? body) !== body) violations.add('a batch changes between attempts', batch)
      bodies.set(batch, body)
      const sequences: Array<number> = []
      for (const { id, sequence } of JSON.parse(body) as ReadonlyArray<{ id: string; sequence: number }>) {
        sequences.push(sequence)
        const key = `${endpoint} ${id}`
        if ((batchesOf.get(key) ?? batch) !== batch) violations.add('an event is in two batches', key)
        batchesOf.set(key, batch)
      }
      if (sequences.some((sequence, i) => i > 0 && sequence <= sequences[i - 1]!)) {
        violations.add('a batch is not in the order of the journal', `${batch}: ${sequences.join()}`)
      }
      const queuedAt = [...store.batches.values()].find(({ uuid }) => encodeId('evb', uuid) === batch)?.state
        .queuedAt
      if (queuedAt !== undefined && at >= queuedAt + WINDOW_MS + 5 * SECOND) {
        violations.add('a batch is attempted after its retry window', batch)
      }
    }
    for (const { event, uuid } of wanted()) {
      const batch = batchOf(uuid, event)
      if (batch?.state.status !== 'succeeded') continue
      const id = encodeId('evb', batch.uuid)
      if (!received.some((one) => one.batch === id && one.endpoint === uuid && one.isConfirmed)) {
        violations.add('a delivery is recorded that no receiver confirmed', `${id} to ${uuid}`)
      }
    }
  }

  return {
    events,
    emit,
    isDone,
    /** Call it when not all events were delivered in time. */
    checkProgress,
    /** Runs the world until nothing may happen any more. */
    check: () => {
      world.runFor(10 * SECOND)
      const attempts = received.length
      world.runFor(15 * SECOND)
      if (received.length > attempts)
        violations.add('the fan-out is not idle', `${received.length - attempts} attempts`)
      checkDeliveries()
    },
  }
}
