/** Doubles of the ports of a flush: a ledger, a bus and limits that fail in every way that the real ones can. */
import { DEFAULT_SETTINGS, encodeId, fromTimestamp, parseTemplate } from '@hub/domain'
import { KafkaUnavailable, EventLog, type OutgoingRecord, topicNames } from '@hub/kafka'
import { PayloadEncryption, StorageRejected, StorageUnavailable } from '@hub/store'
import { Context, Deferred, Duration, Effect, Layer, Result } from 'effect'
import { type ApiError, apiError, type Send } from '@hub/contract'
import { checkSend, type CheckedSend, floodKey } from '../accept/checked-send.ts'
import { type KnownMessage, refKey } from '../accept/decide.ts'
import { acceptorLayer } from '../accept/acceptor.ts'
import { type BatchRow, type CommitResult, type LedgerEntry, Ledger } from '../accept/ledger.ts'
import { type SendReservation, Limits } from '../accept/limits.ts'
import type { IdempotencyLock, StoredAnswer } from '../idempotency/idempotency-lock.ts'
import { OutboxMode } from '../accept/outbox-mode.ts'
import type { Owner, TemplateInUse } from '../accounts/account.ts'
import type { MakeId } from '../ids.ts'
import { acceptedView } from '../messages/message.ts'

export const NOW = fromTimestamp('2026-11-21T09:30:00.000Z')!

/** A claim on an idempotency key. */
export const lockOf = (key: string): IdempotencyLock => ({
  accountUuid: owner.accountUuid,
  mode: owner.mode,
  key,
  token: `token of ${key}`,
})

export const owner: Owner = {
  account: encodeId('acc', '01890000-0000-7000-8000-000000000001'),
  accountUuid: '01890000-0000-7000-8000-000000000001',
  mode: 'live',
}

export const templateOf = (over: Partial<TemplateInUse> & { readonly body?: string } = {}): TemplateInUse => {
  const { body = 'Code {{code}}', ...rest } = over
  return {
    name: 'otp_code',
    class: 'otp',
    status: 'approved',
    sender: 'HUB',
    senderStatus: 'registered',
    parsed: Result.getOrThrow(parseTemplate(body)),
    ...rest,
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

export const checkedSend = (send: Send, template: TemplateInUse | null, as: Owner = owner): CheckedSend =>
  checkSend(send, { owner: as, settings: DEFAULT_SETTINGS, template, hashSecret: 'x'.repeat(32) })

export const otp = (clientRef: string | null = null, over: Partial<Send> = {}): CheckedSend =>
  checkedSend(otpSend({ clientRef, ...over }), templateOf())

export const service = (clientRef: string | null = null, over: Partial<Send> = {}): CheckedSend =>
  checkedSend(
    otpSend({ class: 'service', template: 'order_ready', variables: { order: '17' }, clientRef, ...over }),
    templateOf({ name: 'order_ready', class: 'service', body: 'Order {{order}} is ready' }),
  )

/** How the next commit goes; `lost reply`: it happened, and is reported as timed out. */
export type CommitFate = 'ok' | 'unavailable' | 'lost reply'
/** How Kafka behaves; `lost reply`: records land, and the acknowledgement does not come. */
export type BusFate = 'up' | 'refusing' | 'hanging' | 'lost reply'

/** A ledger in memory. */
const makeLedger = () => {
  const references = new Map<string, string>()
  const rows = new Map<string, LedgerEntry>()
  const outbox = new Map<number, Uint8Array>()
  const projected = new Set<string>()
  const commits: Array<number> = []
  const batches = new Map<string, BatchRow>()
  const answers = new Map<string, StoredAnswer>()
  /** Message ids that are charged, and what is left of the account's limit. */
  const charged = new Set<string>()
  const givenBack: Array<string> = []
  const state = {
    fate: 'ok' as CommitFate,
    /** PostgreSQL refuses a transaction that has such a reference. */
    poison: null as string | null,
    /** Acceptances that the spend limit leaves room for. */
    room: Infinity,
    /** Tokens of claims that are no longer held. */
    lapsed: new Set<string>(),
    sealing: 'ok' as CommitFate,
    /** While there, commits wait for it. */
    barrier: null as Deferred.Deferred<void> | null,
    /** Lookups end at their deadline. */
    hanging: false,
    /** Runs between lookup and commit: what another process does meanwhile. */
    meanwhile: () => {},
  }
  let nextRow = 1

  const isCodeOf = (batch: BatchRow, { fact }: LedgerEntry): boolean =>
    fact.class === 'otp' && fact.batch === batch.id && charged.has(fact.messageId)

  /** Whether it has gone through Kafka, as far as PostgreSQL can tell. */
  const isPublished = (id: string): boolean => {
    const entry = rows.get(id)
    const batch = batches.get(entry?.fact.batch ?? '')
    return projected.has(id) || (entry !== undefined && batch?.sealedAt != null && isCodeOf(batch, entry))
  }

  const knownOf = (id: string): KnownMessage | null => {
    const entry = rows.get(id)
    if (entry === undefined) return null
    const { fact } = entry
    return {
      recipient: fact.recipient,
      published: isPublished(id),
      view: acceptedView(fact, entry.toMasked),
    }
  }

  const ledger: Ledger['Service'] = {
    lookup: ({ references: asked, remembered }) =>
      Effect.suspend(() => {
        if (state.hanging) {
          return Effect.andThen(
            Effect.sleep('1200 millis'),
            Effect.fail(new StorageUnavailable({ reason: 'timeout', detail: 'test' })),
          )
        }
        const known = new Map<string, KnownMessage | null>()
        for (const reference of asked) {
          const key = refKey(reference.owner, reference.clientRef)
          const id = references.get(key)
          if (id !== undefined) known.set(key, knownOf(id))
        }
        const recorded = new Map(
          remembered.flatMap((id) => {
            const found = knownOf(id)
            return found === null ? [] : [[id, found] as const]
          }),
        )
        return Effect.succeed({ at: NOW, known, recorded, optedOut: new Set<string>() })
      }),
    commit: ({ accepted, republished, extraWrites, settled }) =>
      Effect.gen(function* () {
        if (state.barrier !== null) yield* Deferred.await(state.barrier)
        state.meanwhile()
        const fate = state.fate
        if (fate === 'unavailable') {
          return yield* new StorageUnavailable({ reason: 'unreachable', detail: 'test' })
        }
        if (accepted.some(({ fact }) => fact.clientRef !== null && fact.clientRef === state.poison)) {
          return yield* new StorageRejected({ code: '22021', constraint: null })
        }
        commits.push(accepted.length + republished.length)
        const lost = new Set<string>()
        const overspent = new Set<string>()
        const lockLost = new Set<string>()
        const won: Array<LedgerEntry> = []
        for (const { fact } of republished) {
          if (isPublished(fact.messageId)) lost.add(fact.messageId)
          else charged.delete(fact.messageId)
        }
        const repeated = republished.filter(({ fact }) => !lost.has(fact.messageId))
        for (const entry of [...accepted, ...repeated]) {
          const { clientRef, messageId } = entry.fact
          const key = clientRef === null ? null : refKey(entry.owner, clientRef)
          if (entry.lock !== null && state.lapsed.has(entry.lock.token)) lockLost.add(messageId)
          else if (charged.size + won.length >= state.room) overspent.add(messageId)
          else if (key !== null && accepted.includes(entry) && references.has(key)) lost.add(messageId)
          else {
            if (key !== null) references.set(key, messageId)
            won.push(entry)
          }
        }
        for (const entry of won) {
          rows.set(entry.fact.messageId, entry)
          charged.add(entry.fact.messageId)
        }
        for (const row of settled) outbox.delete(row)
        const more = extraWrites({ lost, overspent, lockLost })
        for (const batch of more.batches) batches.set(batch.id, batch)
        for (const { answer, lock } of more.answers) answers.set(lock.key, answer)
        const outboxRow = more.outbox === null ? null : nextRow++
        if (more.outbox !== null && outboxRow !== null) outbox.set(outboxRow, more.outbox)
        if (fate === 'lost reply') return yield* new StorageUnavailable({ reason: 'timeout', detail: 'test' })
        return { lost, overspent, lockLost, outboxRow } satisfies CommitResult
      }),
    giveBack: (codes) =>
      Effect.suspend(() => {
        if (state.fate === 'unavailable') {
          return Effect.fail(new StorageUnavailable({ reason: 'unreachable', detail: 'test' }))
        }
        for (const { messageId } of codes) {
          if (!isPublished(messageId) && charged.delete(messageId)) givenBack.push(messageId)
        }
        return Effect.void
      }),
    seal: (batch, codes, records) =>
      Effect.suspend(() => {
        const failure = new StorageUnavailable({ reason: 'timeout', detail: 'test' })
        if (state.sealing === 'unavailable') return Effect.fail(failure)
        if (batches.get(batch.id)?.sealedAt != null) return Effect.succeed(null)
        if (
          rows
            .values()
            .filter((entry) => isCodeOf(batch, entry))
            .toArray().length < codes
        ) {
          return Effect.succeed(null)
        }
        batches.set(batch.id, batch)
        const row = nextRow++
        outbox.set(row, records)
        return state.sealing === 'lost reply' ? Effect.fail(failure) : Effect.succeed(row)
      }),
    settle: (settled) => Effect.sync(() => settled.forEach((row) => outbox.delete(row))),
  }
  return { ledger, state, references, rows, outbox, projected, commits, batches, answers, charged, givenBack }
}

/** A bus in memory. */
const makeBus = () => {
  const records: Array<OutgoingRecord> = []
  const state = {
    fate: 'up' as BusFate,
    /** While there, appends wait for it. */
    barrier: null as Deferred.Deferred<void> | null,
  }
  const log: EventLog['Service'] = {
    append: (given, options) =>
      Effect.gen(function* () {
        if (state.barrier !== null) yield* Deferred.await(state.barrier)
        switch (state.fate) {
          case 'refusing':
            return yield* new KafkaUnavailable({ reason: 'refused', detail: 'test' })
          case 'hanging':
          case 'lost reply':
            if (state.fate === 'lost reply') records.push(...given)
            yield* Effect.sleep(Duration.millis(options?.deadlineMs ?? 1000))
            return yield* new KafkaUnavailable({ reason: 'timeout', detail: 'test' })
          case 'up':
            records.push(...given)
            return []
        }
      }),
    partitionOf: () => 0,
  }
  return { log, state, records }
}

/** How the counters behave; `lost reply`: what was asked happened, and is reported as unavailable. */
export type CountersFate = 'up' | 'away' | 'lost reply'

/** Limits in memory: a place in the windows is `reserved` or `final`. */
const makeLimits = () => {
  const places = new Map<string, 'reserved' | 'final'>()
  const state = {
    fate: 'up' as CountersFate,
    /** Seconds until the hub's day allows it. */
    daily: null as number | null,
    dailyAsked: 0,
    /** Recipients whose windows are full. */
    full: new Set<string>(),
    counted: 0,
  }
  const keyOf = ({ checked, messageId }: SendReservation) =>
    `${checked.recipient} ${floodKey(checked.owner, checked.clientRef, messageId)}`
  const limits: Limits['Service'] = {
    daily: () =>
      Effect.sync(() => {
        state.dailyAsked++
        return state.daily
      }),
    reserve: (reservations) =>
      Effect.sync(() =>
        reservations.map((reservation): ApiError | null => {
          const key = keyOf(reservation)
          const fits = places.has(key) || !state.full.has(reservation.checked.recipient)
          if (fits && state.fate !== 'away') places.set(key, places.get(key) ?? 'reserved')
          if (state.fate !== 'up') {
            return reservation.draft.class === 'otp' ? null : apiError('recipient_flood_limited')
          }
          return fits ? null : apiError('recipient_flood_limited', { window: 'pause', retryAfter: 60 })
        }),
      ),
    accepted: (reservations) =>
      Effect.sync(() => {
        state.counted += reservations.length
        for (const reservation of reservations) places.set(keyOf(reservation), 'final')
      }),
    giveBack: (reservations) =>
      Effect.sync(() => {
        if (state.fate === 'away') return
        for (const reservation of reservations) places.delete(keyOf(reservation))
      }),
  }
  return { limits, state, places }
}

export class Doubles extends Context.Service<
  Doubles,
  {
    readonly ledger: ReturnType<typeof makeLedger>
    readonly bus: ReturnType<typeof makeBus>
    readonly limits: ReturnType<typeof makeLimits>
    readonly makeMessageId: MakeId
  }
>()('@hub/command-api/testing/Doubles') {}

const makeDoubles = (): Doubles['Service'] => {
  let made = 0
  return {
    ledger: makeLedger(),
    bus: makeBus(),
    limits: makeLimits(),
    makeMessageId: () =>
      encodeId('msg', `01890000-0000-7000-8000-${(++made).toString(16).padStart(12, '0')}`),
  }
}

/** A acceptor on doubles. The gate is the real one, opened as by a relay that found nothing. */
const acceptorOn = ({ bus, ledger, limits, makeMessageId }: Doubles['Service']) => {
  const payloadEncryption: PayloadEncryption['Service'] = {
    currentKey: (purpose) =>
      Effect.succeed({
        id: `${purpose}-key`,
        usableUntil: Number.POSITIVE_INFINITY,
        encrypt: (_aad, plain) => Buffer.from(plain),
      }),
    decrypt: () => Effect.succeed(null),
    keyOfDay: () => Effect.die('an acceptance batch stores no personal data'),
    recipientShareKeys: Effect.die('an acceptance batch encrypts no reports'),
  }
  const open = Layer.effectDiscard(
    Effect.map(OutboxMode, (outboxMode) => {
      outboxMode.relayExistingRows(0)
      outboxMode.switchToDirect(0)
    }),
  )
  return acceptorLayer({
    topics: topicNames(''),
    lifetimes: { beforeHandover: { otp: 1, service: 2 }, report: { otp: 1, service: 2 }, sandbox: 1 },
    makeMessageId,
  }).pipe(
    Layer.provideMerge(open),
    Layer.provideMerge(
      Layer.mergeAll(
        Layer.succeed(Ledger)(ledger.ledger),
        Layer.succeed(EventLog)(bus.log),
        Layer.succeed(PayloadEncryption)(payloadEncryption),
        Layer.succeed(Limits)(limits.limits),
        Layer.fresh(OutboxMode.layer),
      ),
    ),
  )
}

export const acceptorOnDoubles = () => {
  const doubles = makeDoubles()
  return Layer.merge(acceptorOn(doubles), Layer.succeed(Doubles)(doubles))
}

/** The acceptor of another process on the same doubles: it remembers nothing of what the first one did. */
export const anotherProcess = Layer.unwrap(Effect.map(Doubles, acceptorOn))
