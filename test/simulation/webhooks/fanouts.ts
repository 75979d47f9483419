/**
 * The fan-out processes with their store and the receivers, and the checks of what the receivers got.
 */
import { decodeId, encodeId, nextAttemptAt } from '@hub/domain'
import {
  type EventRecorded,
  eventRecordedRecord,
  type OutgoingRecord,
  type SubscriptionChange,
  subscriptionChangedRecord,
  topicNames,
  webhooksKey,
} from '@hub/kafka'
import { simulatedKafka } from '@hub/kafka/testing'
import type { StorageError } from '@hub/store'
import {
  FANOUT_DEFAULTS,
  FanoutSettings,
  FanoutStore,
  type FanoutStoreShape,
  type Ownership,
  makeFanout,
  type Settings,
} from '@hub/webhook-fanout'
import { MemoryStore } from '@hub/webhook-fanout/testing'
import { AttemptNotMade, type DeliveryResult, WebhookClient } from '@hub/webhooks'
import { Context, Effect } from 'effect'
import type { Activity } from '../world/idle.ts'
import { runMain } from '../world/main-fiber.ts'
import { ProcessFaults } from '../world/process-faults.ts'
import type { SimulatedProcess } from '../world/process.ts'
import type { SeededRandom } from '../world/random.ts'
import type { Simulation } from '../world/simulation.ts'
import { effectInServer } from '../world/statement.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const MODE = 'live' as const

/** How fast time passes in a run. */
export interface Pace {
  readonly windowMs: number
  /** The rule of retries in a window. */
  readonly nextAttemptAt: Settings['nextAttemptAt']
  /** Subscriptions are created within this time. */
  readonly createdWithinMs: number
  /** How long a receiver answers in the same way. */
  readonly receiversChangeMs: readonly [number, number]
  /** The probabilities that a receiver refuses. */
  readonly refusals: ReadonlyArray<number>
  readonly faultsEveryMs?: readonly [number, number]
  readonly groupTimes?: { readonly heartbeatMs: number; readonly sessionTimeoutMs: number }
  readonly gaugeTimes?: Pick<Settings, 'gaugesEveryMs' | 'queriedGaugesEveryMs'>
  /** Whether the fan-out polls for commands. None are simulated, and polls are most of its work. */
  readonly hasPolls: boolean
}

const paceOf = (windowMs: number, refusals: ReadonlyArray<number>): Pace => ({
  windowMs,
  nextAttemptAt: ({ attempt, failedAt, queuedAt, random }) => {
    const next = failedAt + Math.min(20, 2 ** attempt) * SECOND * (0.9 + 0.2 * random)
    return next >= queuedAt + windowMs ? null : next
  },
  createdWithinMs: 30 * SECOND,
  receiversChangeMs: [2 * SECOND, 15 * SECOND],
  refusals,
  hasPolls: true,
})

/** The rules of production with shorter times, so that retries end within minutes. */
export const MINUTES: Pace = paceOf(90 * SECOND, [0, 0, 0, 0.3, 1])

/** Retry windows end while receivers still refuse. */
export const SHORT_WINDOWS: Pace = paceOf(12 * SECOND, [0, 0.3, 1])

/** The schedule of production. Only the window ends sooner. */
export const HOURS: Pace = {
  windowMs: 4 * HOUR,
  nextAttemptAt: (failure) => {
    const next = nextAttemptAt(failure)
    return next === null || next >= failure.queuedAt + 4 * HOUR ? null : next
  },
  createdWithinMs: HOUR,
  receiversChangeMs: [10 * MINUTE, 3 * HOUR],
  refusals: [0, 0.3, 1, 1],
  faultsEveryMs: [MINUTE, 40 * MINUTE],
  groupTimes: { heartbeatMs: 10 * SECOND, sessionTimeoutMs: 60 * SECOND },
  gaugeTimes: { gaugesEveryMs: 30 * SECOND, queriedGaugesEveryMs: 5 * MINUTE },
  hasPolls: false,
}

/** All batches end this long after the faults: the retry window, and the time of a recovery. */
export const deliveredWithinMs = ({ groupTimes, windowMs }: Pace): number =>
  windowMs + 60 * SECOND + 2 * (groupTimes?.sessionTimeoutMs ?? 0)

/** With few attempts at a time, batches wait in the queue of a receiver that hangs. */
const settingsOf = (random: SeededRandom, { gaugeTimes, nextAttemptAt: next, windowMs }: Pace): Settings => ({
  ...FANOUT_DEFAULTS,
  ...gaugeTimes,
  retryWindowMs: windowMs,
  batchEvents: random.pick([1, 5]),
  inFlightEach: random.pick([1, FANOUT_DEFAULTS.inFlightEach]),
  inFlightEachFailing: random.pick([1, FANOUT_DEFAULTS.inFlightEachFailing]),
  nextAttemptAt: next,
})

/** How often the state of subscriptions is compared with the rule. */
const WATCH_EVERY_MS = SECOND
/** An attempt of a process that stood still, or has no connection to PostgreSQL, ends so late. */
const ATTEMPT_ENDS_WITHIN_MS = 45 * SECOND

/** Why a batch fails. Source: DEL-23. */
const EXPIRY_REASONS: ReadonlySet<string> = new Set([
  'retry_window_expired',
  'retry_window_expired_while_disabled',
])
/** A process that stands still after a decision acts on it so much later. */
const PAUSED_MS = 20 * SECOND

interface Received {
  readonly subscriptionId: string
  readonly batch: string
  readonly body: string
  readonly at: number
  /** When the hub decided to make the attempt: it may have read the body first. */
  readonly decidedAt: number
  /** Rises with each decision. */
  readonly decision: number
  readonly by: SimulatedProcess
  readonly isConfirmed: boolean
}

const uuidOf = (number: number) => `00000002-0000-4000-8000-${String(number).padStart(12, '0')}`

export const startFanouts = (
  simulation: Simulation,
  accounts: ReadonlyArray<string>,
  pace: Pace = MINUTES,
) => {
  const { broker, faults, network, violations, world } = simulation
  const random = simulation.random('receivers')
  const storeRandom = simulation.random('store')
  const topics = topicNames()
  const settings = settingsOf(simulation.random('fan-out settings'), pace)
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
  /** Adds an event to the journal. */
  const record = (event: EventRecorded) => {
    const { account, body, createdAt, event: id, eventType, sequence } = event
    const journal = store.journal.get(account) ?? []
    store.journal.set(account, journal)
    journal.push({ id, sequence, eventType, body, createdAt })
    events.push(event)
  }
  /** Adds an event to the journal, and publishes it at least once, as the projector does. */
  const emit = (account: string, id: string) => {
    const sequence = (store.journal.get(account)?.length ?? 0) + 1
    const event: EventRecorded = {
      type: 'EventRecorded',
      event: id,
      account,
      mode: MODE,
      sequence,
      eventType: 'message.sent',
      createdAt: world.now(),
      body: JSON.stringify({ id }),
    }
    record(event)
    publish(eventRecordedRecord(topics, event), `event ${sequence} of ${account}`)
  }

  // ---- subscriptions

  interface Subscription {
    readonly uuid: string
    readonly account: string
    /** The subscription gets the events behind this one. */
    readonly afterSequence: number
  }
  const subscriptions: Array<Subscription> = []
  const subscribe = (uuid: string): Subscription => {
    const account = random.pick(accounts)
    const afterSequence = store.journal.get(account)?.length ?? 0
    store.subscribe(uuid, account, afterSequence)
    const subscription = { uuid, account, afterSequence }
    subscriptions.push(subscription)
    return subscription
  }
  /** Its record follows the commit that creates it, so events may be published in between. */
  const create = (uuid: string) => announce(subscribe(uuid), 'created')
  const announce = ({ account, uuid }: Subscription, change: SubscriptionChange) => {
    const subscription = encodeId('we', uuid)
    const record = subscriptionChangedRecord(topics, {
      type: 'SubscriptionChanged',
      account,
      mode: MODE,
      subscription,
      change,
      at: world.now(),
    })
    world.note('command-api', () => `${subscription}: ${change}`)
    world.after(random.pick([0, 5, 50, 2000]), () => publish(record, `${change} of ${subscription}`))
  }
  const initial = Array.from({ length: random.between(1, 2) }, (_, i) => subscribe(uuidOf(i + 1)))
  for (let i = 0; i < random.pick([0, 0, 1, 2]); i++) {
    world.after(random.between(0, pace.createdWithinMs), () => create(uuidOf(10 + i)))
  }

  // ---- the receivers

  const received: Array<Received> = []
  /** How often a process has become the owner of a partition. */
  let acquisitions = 0
  /** The confirmed attempts whose process has the answer, by process and batch, with the acquisitions so far. */
  const confirmed = new Map<string, number>()
  /** Attempts that no receiver answered. */
  const unanswered: Array<{ readonly subscriptionId: string; readonly at: number }> = []
  const refusing = new Map<string, number>()
  const changeReceivers = () => {
    if (faults.isOver) return refusing.clear()
    for (const { uuid } of subscriptions) refusing.set(uuid, random.pick(pace.refusals))
    world.after(random.between(...pace.receiversChangeMs), changeReceivers)
  }
  changeReceivers()
  let decisions = 0
  const decide = () => ({ decidedAt: world.now(), decision: ++decisions })
  /** When each process asked for the body of a batch, by process and batch. */
  const bodyAsked = new Map<string, ReturnType<typeof decide>>()
  const clientOf = (process: SimulatedProcess): WebhookClient['Service'] => {
    const begin: WebhookClient['Service']['begin'] = (delivery, deadlineMs, done) => {
      let isAborted = false
      const began = world.now()
      const key = `${process.name} ${delivery.eventBatch}`
      const decided = bodyAsked.get(key) ?? decide()
      bodyAsked.delete(key)
      // A read of due batches that overlaps with the record of a success may still return its batch.
      const isRecorded =
        store.batches.get(decodeId('evb', delivery.eventBatch) ?? '')?.state.status !== 'pending'
      if (confirmed.get(key) === acquisitions && !isRecorded)
        violations.add('a batch is attempted again before its success is recorded', key)
      const subscriptionId = delivery.url.slice(delivery.url.lastIndexOf('/') + 1)
      const end = (result: DeliveryResult | AttemptNotMade) => {
        if (!isAborted) done(result)
      }
      const durationMs = () => world.now() - began
      network.request<number>(process, 'receiver', {
        name: 'deliver',
        describe: () => `${delivery.eventBatch} to ${subscriptionId}`,
        timeoutMs: deadlineMs,
        faults: ['failBefore', 'failAfter', 'lost', 'slow'],
        serve: (answer) => {
          const isConfirmed = !random.chance(refusing.get(subscriptionId) ?? 0)
          if (world.now() - (disabledSince.get(subscriptionId) ?? world.now()) > ATTEMPT_ENDS_WITHIN_MS)
            violations.add('a disabled subscription gets a batch', subscriptionId)
          received.push({
            subscriptionId,
            batch: delivery.eventBatch,
            body: Buffer.from(delivery.body).toString('utf8'),
            at: world.now(),
            ...decided,
            by: process,
            isConfirmed,
          })
          answer(isConfirmed ? 200 : 500)
        },
        onAnswer: (responseCode) => {
          if (responseCode === 200 && !isAborted) confirmed.set(key, acquisitions)
          end(
            responseCode === 200
              ? { succeeded: true, responseCode, durationMs: durationMs(), reason: null }
              : { succeeded: false, responseCode, durationMs: durationMs(), reason: 'http_status' },
          )
        },
        onFailure: (reason) => {
          unanswered.push({ subscriptionId, at: world.now() })
          end({
            succeeded: false,
            responseCode: null,
            durationMs: durationMs(),
            reason: reason === 'timeout' ? 'timeout' : 'connection_reset',
          })
        },
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

  /** When the last outcome ended that an owner has recorded, by partition and epoch. */
  const lastEnded = new Map<string, number>()
  /** An owner records its outcomes in the order in which their attempts ended. */
  const checkLogOrder = ({ epoch, partition }: Ownership, from: number) => {
    const key = `${partition} ${epoch}`
    for (const { batch, endedAt } of store.log.slice(from)) {
      if (endedAt < (lastEnded.get(key) ?? 0))
        violations.add('the delivery log has another order than the attempts', batch)
      lastEnded.set(key, endedAt)
    }
  }
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
    // A poll can only fail, and after the faults none does.
    const poll = <A, E>(name: string, effect: Effect.Effect<A, E>) =>
      Effect.suspend(() => (pace.hasPolls && !faults.isOver ? read(name, effect) : Effect.never))
    return {
      acquire: remote('acquire', (partition) => {
        acquisitions++
        return shape.acquire(partition)
      }),
      sources: read('sources', shape.sources),
      subscriptionsOf: remote('subscriptionsOf', shape.subscriptionsOf),
      subscription: remote('subscription', shape.subscription),
      journal: remote('journal', shape.journal),
      storeBatches: remote('storeBatches', shape.storeBatches),
      due: remote('due', shape.due),
      expired: remote('expired', shape.expired),
      body: (uuid) =>
        Effect.suspend(() => {
          bodyAsked.set(`${process.name} ${encodeId('evb', uuid)}`, decide())
          return remote('body', shape.body)(uuid)
        }),
      record: remote('record', (owner, outcomes) =>
        Effect.suspend(() => {
          const from = store.log.length
          return Effect.tap(shape.record(owner, outcomes), () =>
            Effect.sync(() => checkLogOrder(owner, from)),
          )
        }),
      ),
      redeliveries: poll('redeliveries', shape.redeliveries),
      takeOnDemand: (atMost) => poll('takeOnDemand', shape.takeOnDemand(atMost)),
      recordOnDemand: remote('recordOnDemand', shape.recordOnDemand),
      releaseOnDemand: remote('releaseOnDemand', shape.releaseOnDemand),
      purgeDeleted: poll('purgeDeleted', shape.purgeDeleted),
      waiting: poll('waiting', shape.waiting),
      endingCertificates: shape.endingCertificates,
      answers: Effect.succeed(true),
    }
  }
  const start = (number: number) => {
    const process = world.startProcess(`fan-out-${number}`, 0)
    const services = simulatedKafka(broker, network.kafkaHost(process), pace.groupTimes).pipe(
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
  const processes = new ProcessFaults(simulation, 'fan-out', start, pace.faultsEveryMs)

  // ---- subscriptions that fail

  /** The backlog of each enabled subscription, in the order of its events. */
  const releases: Array<{
    uuid: string
    at: number
    /** The rows of the delivery log at that time. */
    rows: number
    probe: string | null
    backlog: ReadonlyArray<string>
  }> = []
  const disabledSince = new Map<string, number>()
  /** The failed attempts of a subscription since the last success, in the order of their records. */
  const failuresOf = (uuid: string) => {
    const attempts = store.log
      .slice(releases.findLast((one) => one.uuid === uuid)?.rows ?? 0)
      .filter(({ subscriptionId, kind }) => subscriptionId === uuid && kind === 'attempt')
    return attempts.slice(attempts.findLastIndex(({ reason }) => reason === null) + 1)
  }
  const failures = new Map<string, ReturnType<typeof failuresOf>>()
  let failuresAt = ''
  /** The watch runs every second of some hours, and in most of them nothing is recorded. */
  const knownFailuresOf = (uuid: string) => {
    const at = `${store.log.length} ${releases.length}`
    if (at !== failuresAt) failures.clear()
    failuresAt = at
    const known = failures.get(uuid) ?? failuresOf(uuid)
    failures.set(uuid, known)
    return known
  }
  /** Enables a subscription, as its account does. */
  const enable = (subscription: Subscription) => {
    const { uuid } = subscription
    releases.push({
      uuid,
      at: world.now(),
      rows: store.log.length,
      probe: store.subscriptions.get(uuid)?.disabledByBatch ?? null,
      backlog: store.pending(uuid).map((batch) => encodeId('evb', batch.uuid)),
    })
    disabledSince.delete(uuid)
    store.enable(uuid, world.now())
    announce(subscription, 'enabled')
  }
  /** What is before the stored position is in a batch of each subscription. Batches keep their events. */
  const checkedUpTo = new Map<number, number>()
  const checkPositions = () => {
    for (const [partition, { position }] of store.positions) {
      const checked = checkedUpTo.get(partition) ?? 0
      if (position <= checked) continue
      checkedUpTo.set(partition, position)
      for (const event of broker.topic(topics.webhooks)[partition]!.slice(checked, position)) {
        for (const { account, uuid } of initial) {
          if (event.key !== webhooksKey(account, MODE) || event.type !== 'EventRecorded') continue
          if (store.batchOf.has(`${uuid} ${event.id} `)) continue
          violations.add('the position is behind an event without a batch', `${event.id} of ${uuid}`)
        }
      }
    }
  }
  const watchSubscriptions = () => {
    checkPositions()
    for (const subscription of subscriptions) {
      const { uuid } = subscription
      if (disabledSince.has(uuid)) continue
      const failed = knownFailuresOf(uuid)
      const span = (failed.at(-1)?.endedAt ?? 0) - (failed[0]?.endedAt ?? 0)
      const isDue = failed.length >= 20 && span >= HOUR
      const { consecutiveFailures, status } = store.subscriptions.get(uuid)!.health
      const isDisabled = status === 'disabled_by_failures'
      if (!isDisabled && consecutiveFailures !== failed.length) {
        violations.add('failures are counted by another rule', `${uuid}: ${consecutiveFailures}`)
      }
      if (isDisabled !== isDue) {
        const state = isDisabled ? 'disabled' : 'enabled'
        violations.add(
          'a subscription is disabled by another rule',
          `${uuid}: ${state} after ${failed.length}`,
        )
      }
      if (!isDisabled) continue
      world.note('fan-out', () => `has disabled ${uuid}`)
      disabledSince.set(uuid, world.now())
      // Some accounts enable it after their windows have ended.
      world.after(random.between(MINUTE, 2 * pace.windowMs), () => enable(subscription))
    }
    world.after(WATCH_EVERY_MS, watchSubscriptions)
  }
  watchSubscriptions()

  // ---- the checks

  const wanted = () =>
    events.flatMap((event) =>
      subscriptions
        .filter(({ account, afterSequence }) => account === event.account && event.sequence > afterSequence)
        .map(({ uuid }) => ({ event, uuid })),
    )
  const batchOf = (uuid: string, event: EventRecorded) =>
    store.batches.get(store.batchOf.get(`${uuid} ${event.event} `) ?? '')
  const hasEnded = ({ event, uuid }: ReturnType<typeof wanted>[number]) => {
    const status = batchOf(uuid, event)?.state.status
    return status === 'succeeded' || status === 'failed'
  }
  let open: ReturnType<typeof wanted>[number] | undefined
  const isDone = () => {
    // Asked twice a second for hours: mostly, the same one is still open.
    if (open !== undefined && !hasEnded(open)) return false
    open = wanted().find((one) => !hasEnded(one))
    return open === undefined
  }

  const checkProgress = () => {
    for (const { event, uuid } of wanted().filter((one) => !hasEnded(one))) {
      const status = batchOf(uuid, event)?.state.status ?? 'not in a batch'
      violations.add('an event is not delivered', `event ${event.sequence} to ${uuid}: ${status}`)
    }
  }

  const checkDeliveries = () => {
    const bodies = new Map<string, string>()
    const batchesOf = new Map<string, string>()
    const sequenceOf = new Map(events.map(({ event, sequence }) => [event, sequence]))
    for (const { batch, body, by, decidedAt, subscriptionId } of received) {
      if ((bodies.get(batch) ?? body) !== body) violations.add('a batch changes between attempts', batch)
      bodies.set(batch, body)
      const sequences: Array<number> = []
      for (const { id } of JSON.parse(body) as ReadonlyArray<{ id: string }>) {
        sequences.push(sequenceOf.get(id) ?? 0)
        const key = `${subscriptionId} ${id}`
        if ((batchesOf.get(key) ?? batch) !== batch) violations.add('an event is in two batches', key)
        batchesOf.set(key, batch)
      }
      if (sequences.some((sequence, i) => i > 0 && sequence <= sequences[i - 1]!)) {
        violations.add('a batch is not in the order of the journal', `${batch}: ${sequences.join()}`)
      }
      const queuedAt = [...store.batches.values()].find(({ uuid }) => encodeId('evb', uuid) === batch)?.state
        .queuedAt
      const pausedMs = processes.isUnharmed(by) ? 0 : PAUSED_MS
      if (queuedAt !== undefined && decidedAt >= queuedAt + pace.windowMs + pausedMs) {
        violations.add('a batch is attempted after its retry window', batch)
      }
    }
    for (const { event, uuid } of wanted()) {
      const batch = batchOf(uuid, event)
      if (batch?.state.status !== 'succeeded') continue
      const id = encodeId('evb', batch.uuid)
      if (!received.some((one) => one.batch === id && one.subscriptionId === uuid && one.isConfirmed)) {
        violations.add('a delivery is recorded that no receiver confirmed', `${id} to ${uuid}`)
      }
    }
  }

  /**
   * The batch that disabled the subscription is attempted first. Each process attempts the rest of the
   * backlog in the order of its events, until an attempt fails.
   */
  const checkReleases = () => {
    for (const { at, backlog, probe, uuid } of releases) {
      const isLater = (one: { readonly subscriptionId: string; readonly at: number }) =>
        one.subscriptionId === uuid && one.at > at
      const until = unanswered.find(isLater)?.at ?? Number.POSITIVE_INFINITY
      const attempts = received
        .filter((one) => isLater(one) && one.at < until && one.decidedAt > at)
        .toSorted((a, b) => a.decision - b.decision)
      const probeId = probe === null ? null : encodeId('evb', probe)
      const [first] = attempts
      if (first !== undefined && probeId !== null && backlog.includes(probeId)) {
        if (first.batch !== probeId && backlog.includes(first.batch))
          violations.add('a backlog does not begin with the batch that disabled the subscription', uuid)
      }
      for (const [by, ofProcess] of Map.groupBy(attempts, (one) => one.by)) {
        const order: Array<number> = []
        for (const { batch, isConfirmed } of ofProcess) {
          const position = backlog.indexOf(batch)
          if (!isConfirmed || position < 0) break
          if (batch !== probeId) order.push(position)
        }
        if (order.some((position, i) => i > 0 && position < order[i - 1]!)) {
          violations.add('a backlog is not delivered in order', `${uuid} by ${by.name}: ${order.join()}`)
        }
      }
    }
  }

  /** A batch fails only when its window has ended. */
  const checkFailures = () => {
    for (const { batch, endedAt, kind } of store.log) {
      const queuedAt = store.batches.get(batch)?.state.queuedAt ?? 0
      if (kind === 'expiry' && endedAt < queuedAt + pace.windowMs) {
        violations.add('a batch fails before its retry window ends', batch)
      }
    }
    for (const { state, uuid } of store.batches.values()) {
      const last = store.log.findLast(({ batch }) => batch === uuid)
      if (state.status === 'failed' && !EXPIRY_REASONS.has(last?.reason ?? ''))
        violations.add('a failed batch has no reason in the delivery log', `${uuid}: ${last?.reason ?? ''}`)
    }
  }

  /**
   * A batch waits for its next attempt, or for the end of its window. After a release of the backlog it
   * does not wait.
   */
  const checkSchedule = () => {
    const before = new Map<string, (typeof store.log)[number]>()
    const released = [
      ...releases.map(({ at, uuid }) => ({ subscriptionId: uuid, at })),
      ...store.log.flatMap(({ endedAt, subscriptionId, reason }) =>
        reason === null ? [{ subscriptionId, at: endedAt }] : [],
      ),
    ]
    for (const row of store.log) {
      if (row.kind !== 'attempt' || row.redelivery !== null) continue
      const last = before.get(row.batch)
      before.set(row.batch, row)
      const windowEnds = (store.batches.get(row.batch)?.state.queuedAt ?? 0) + pace.windowMs
      if (row.nextAttemptAt !== null && row.nextAttemptAt >= windowEnds)
        violations.add('an attempt is planned after the retry window', row.batch)
      if (last === undefined || last.reason === null) continue
      if (row.startedAt >= (last.nextAttemptAt ?? windowEnds)) continue
      const isReleased = released.some(
        ({ at, subscriptionId }) =>
          subscriptionId === row.subscriptionId && at >= last.endedAt && at <= row.startedAt,
      )
      if (isReleased) continue
      violations.add('a batch is attempted before its time', `${row.batch}: attempt ${row.attempt}`)
    }
  }

  return {
    events,
    record,
    emit,
    isDone,
    /** Call it when not all events were delivered in time. */
    checkProgress,
    activity: {
      violation: 'the fan-out is not idle',
      what: 'attempts',
      count: () => received.length,
    } satisfies Activity,
    check: () => {
      checkDeliveries()
      checkReleases()
      checkFailures()
      checkSchedule()
    },
  }
}
