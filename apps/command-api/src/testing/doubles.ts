/**
 * Test doubles for the acceptor's ports (ledger, Kafka, limits), which can fail in every way in
 * which the real ones can, and the sends of its tests.
 */
import { type ApiError, apiError, type Send } from '@hub/contract'
import { DEFAULT_SETTINGS, encodeId, parseTemplate } from '@hub/domain'
import { EventLog, KafkaUnavailable, topicNames } from '@hub/kafka'
import { layerSimulatedKafka, SimulatedKafka } from '@hub/kafka/testing'
import { Outbox, OutboxStore, type OutboxStoreShape } from '@hub/outbox'
import { makeMemoryOutbox } from '@hub/outbox/testing'
import { PayloadEncryption } from '@hub/store'
import { Clock, Context, Deferred, Duration, Effect, Layer, Result } from 'effect'
import { acceptorLayer } from '../accept/acceptor.ts'
import { type CheckedSend, checkSend, type SendContext } from '../accept/check/checked-send.ts'
import { Ledger } from '../accept/ledger/ledger.port.ts'
import { SendLimits, type SendReservation } from '../accept/batch/limits.ts'
import { commandOutboxOn } from '../accept/recovery/command-outbox.ts'
import { makeSlices } from '../accept/admission/slices.ts'
import { UnprovenCodes } from '../accept/recovery/unproven-codes.ts'
import type { Owner, TemplateInUse } from '../accounts/account.ts'
import type { IdempotencyLock } from '../idempotency/idempotency-keys.port.ts'
import type { MakeId } from '../ids/ids.ts'
import { makeMemoryLedger, type MemoryLedger } from './memory-ledger.ts'

export const owner: Owner = {
  account: encodeId('acc', '01890000-0000-7000-8000-000000000001'),
  accountUuid: '01890000-0000-7000-8000-000000000001',
  mode: 'live',
}

export const lockOf = (key: string): IdempotencyLock => ({
  accountUuid: owner.accountUuid,
  mode: owner.mode,
  key,
  token: `token of ${key}`,
})

export const templateOf = (over: Partial<TemplateInUse> & { readonly body?: string } = {}): TemplateInUse => {
  const { body = 'Code {{code}}', ...others } = over
  return {
    name: 'otp_code',
    class: 'otp',
    status: 'approved',
    sender: 'HUB',
    senderStatus: 'registered',
    parsed: Result.getOrThrow(parseTemplate(body)),
    ...others,
  }
}

export const otpSend = (over: Partial<Send> = {}): Send => ({
  to: '+79001234567',
  class: 'otp',
  template: 'otp_code',
  variables: { code: '1234' },
  clientRef: null,
  ...over,
})

export const checkedSend = (
  send: Send,
  template: TemplateInUse | null,
  as: Owner = owner,
  over: Partial<SendContext> = {},
): CheckedSend =>
  checkSend(send, {
    owner: as,
    settings: DEFAULT_SETTINGS,
    template,
    hashSecret: 'x'.repeat(32),
    ...over,
  })

export const otp = (clientRef: string | null = null, over: Partial<Send> = {}): CheckedSend =>
  checkedSend(otpSend({ clientRef, ...over }), templateOf())

export const service = (clientRef: string | null = null, over: Partial<Send> = {}): CheckedSend =>
  checkedSend(
    otpSend({ class: 'service', template: 'order_ready', variables: { order: '17' }, clientRef, ...over }),
    templateOf({ name: 'order_ready', class: 'service', body: 'Order {{order}} is ready' }),
  )

/**
 * How Kafka behaves. `lost reply`: it appends the records, and the acknowledgement does not arrive.
 */
export type KafkaBehavior = 'up' | 'refusing' | 'hanging' | 'lost reply'

const topics = topicNames('')

/** The in-memory event log with two more faults: a barrier, and a lost reply. */
const makeKafka = Effect.gen(function* () {
  const memoryLog = yield* EventLog
  const memory = yield* SimulatedKafka
  const state = {
    behavior: 'up' as KafkaBehavior,
    /** If set, appends wait for it. */
    barrier: null as Deferred.Deferred<void> | null,
  }
  const log: EventLog['Service'] = {
    ...memoryLog,
    append: Effect.fnUntraced(function* (records, options) {
      if (state.barrier !== null) yield* Deferred.await(state.barrier)
      const { behavior } = state
      yield* memory.set(behavior === 'lost reply' ? 'up' : behavior)
      const positions = yield* memoryLog.append(records, options)
      if (behavior !== 'lost reply') return positions
      yield* Effect.sleep(Duration.millis(options?.deadlineMs ?? 5000))
      return yield* new KafkaUnavailable({ reason: 'timeout', detail: 'test' })
    }),
  }
  return {
    log,
    state,
    /** All records, topic by topic. A topic has one partition. */
    get records() {
      return [topics.acceptedOtp, topics.acceptedService, topics.messages].flatMap((topic) =>
        memory.records(topic).flat(),
      )
    },
  }
})

/** How the counters behave. `lost reply`: the call succeeds, and is reported as unavailable. */
export type CountersBehavior = 'up' | 'unavailable' | 'lost reply'

/** `SendLimits` in memory. */
const makeLimits = () => {
  const reservations = new Map<string, 'reserved' | 'confirmed'>()
  const state = {
    behavior: 'up' as CountersBehavior,
    /** Seconds until the daily limit allows new messages. */
    daily: null as number | null,
    dailyAsked: 0,
    /** Recipients whose flood windows are full. */
    full: new Set<string>(),
    counted: 0,
    /** If set, confirmations wait for it. */
    barrier: null as Deferred.Deferred<void> | null,
  }
  const keyOf = ({ recipient, reservationId }: SendReservation) => `${recipient} ${reservationId}`
  const limits: SendLimits['Service'] = {
    daily: () =>
      Effect.sync(() => {
        state.dailyAsked++
        return state.daily === null ? null : apiError('hub_daily_limit_reached', { retryAfter: state.daily })
      }),
    reserve: (asked) =>
      Effect.sync(() =>
        asked.map((reservation): ApiError | null => {
          const key = keyOf(reservation)
          const fits = reservations.has(key) || !state.full.has(reservation.recipient)
          if (fits && state.behavior !== 'unavailable') {
            reservations.set(key, reservations.get(key) ?? 'reserved')
          }
          if (state.behavior !== 'up') {
            return reservation.class === 'otp' ? null : apiError('recipient_flood_limited')
          }
          return fits ? null : apiError('recipient_flood_limited', { window: 'pause', retryAfter: 60 })
        }),
      ),
    confirm: Effect.fnUntraced(function* (confirmed) {
      if (state.barrier !== null) yield* Deferred.await(state.barrier)
      state.counted += confirmed.length
      for (const reservation of confirmed) reservations.set(keyOf(reservation), 'confirmed')
    }),
    release: (released) =>
      Effect.sync(() => {
        if (state.behavior === 'unavailable') return
        for (const reservation of released) reservations.delete(keyOf(reservation))
      }),
  }
  return { limits, state, reservations }
}

export class Doubles extends Context.Service<
  Doubles,
  {
    readonly ledger: MemoryLedger
    readonly kafka: Effect.Success<typeof makeKafka>
    readonly limits: ReturnType<typeof makeLimits>
    readonly makeMessageId: MakeId
  }
>()('@hub/command-api/testing/Doubles') {
  static readonly layer: Layer.Layer<Doubles> = Layer.effect(
    Doubles,
    Effect.gen(function* () {
      let created = 0
      const clock = yield* Clock.Clock
      return {
        ledger: makeMemoryLedger(
          undefined,
          makeMemoryOutbox(() => clock.currentTimeMillisUnsafe()),
        ),
        kafka: yield* makeKafka,
        limits: makeLimits(),
        makeMessageId: () =>
          encodeId('msg', `01890000-0000-7000-8000-${(++created).toString(16).padStart(12, '0')}`),
      }
    }),
  ).pipe(Layer.provide(layerSimulatedKafka(1)))
}

/** A process takes no rows for those of an earlier process, so it appends its rows itself at once. */
const withoutEarlierRows = (store: OutboxStoreShape): OutboxStoreShape => ({
  ...store,
  status: (upTo) => Effect.map(store.status(upTo), (status) => ({ ...status, highest: 0 })),
})

/** An acceptor on doubles. The outbox is the real one, on the table of the ledger. */
const acceptorOn = (
  { kafka, ledger, limits, makeMessageId }: Doubles['Service'],
  gather: Duration.Duration,
) => {
  const encryption: PayloadEncryption['Service'] = {
    currentKey: (purpose) =>
      Effect.succeed({
        id: `${purpose}-key`,
        usableUntil: Number.POSITIVE_INFINITY,
        encrypt: (_aad, plain) => Buffer.from(plain),
      }),
    decrypt: () => Effect.succeed(null),
    keyOfDay: () => Effect.die('an acceptance batch stores no personal data'),
    recipientShareKeys: Effect.die('an acceptance batch encrypts no reports'),
    keepReady: Effect.never,
  }
  const directMode = Layer.effectDiscard(
    Effect.flatMap(Outbox, (outbox) => Effect.repeat(Effect.yieldNow, { until: () => !outbox.isRelaying() })),
  )
  const outbox = Layer.fresh(commandOutboxOn).pipe(
    Layer.provide(Layer.succeed(OutboxStore)(withoutEarlierRows(ledger.outboxStore))),
    Layer.provide(Layer.succeed(EventLog)(kafka.log)),
  )
  return acceptorLayer({
    topics,
    lifetimes: { beforeSubmit: { otp: 1, service: 2 }, report: { otp: 1, service: 2 } },
    makeMessageId,
    slices: makeSlices(),
    gather,
  }).pipe(
    Layer.provideMerge(directMode),
    Layer.provideMerge(
      Layer.mergeAll(
        Layer.succeed(Ledger)(ledger.ledger),
        Layer.succeed(EventLog)(kafka.log),
        Layer.succeed(PayloadEncryption)(encryption),
        Layer.succeed(SendLimits)(limits.limits),
        outbox,
        Layer.fresh(UnprovenCodes.layer),
      ),
    ),
  )
}

const freshAcceptor = (gather = Duration.zero) =>
  Layer.unwrap(Effect.map(Doubles, (doubles) => acceptorOn(doubles, gather)))

/** `gather`: how long acceptance batches wait for more sends. By default, tests need not move the clock. */
export const acceptorOnDoubles = (gather?: Duration.Duration) =>
  Layer.provideMerge(freshAcceptor(gather), Layer.fresh(Doubles.layer))

/** The acceptor of another process on the same doubles. It shares no memory with the first one. */
export const anotherProcess = freshAcceptor()
