/**
 * The store in memory: the double of the state machine's suite, which lives through days in milliseconds. It has nothing of its
 * own to say about deliveries: what is due and what follows from an outcome is the domain's. Held against the real one by
 * `memory-store.int.test.ts`.
 */
import {
  type BatchDeliveryState,
  decodeId,
  dueAction,
  enableSubscription,
  encodeId,
  eventBatchId,
  resetEarlyAttempts,
  applyOutcome,
  newEndpointHealth,
  newBatchDelivery,
  type EndpointHealth,
} from '@hub/domain'
import { StorageUnavailable } from '@hub/store'
import { Clock, Effect, Redacted } from 'effect'
import type { Place } from '../store/due-batches.ts'
import type { Settings } from '../config.ts'
import {
  type FanoutStoreShape,
  type OpenRedelivery,
  type Outcome,
  type Ownership,
  PartitionLost,
  type Recorded,
  type Standing,
} from '../store/store.port.ts'
import type { PendingBatch, SubscriptionRecord } from '../subscriptions/subscription.ts'

interface StoredBatch {
  readonly uuid: string
  readonly endpoint: string
  readonly firstSequence: number
  readonly events: ReadonlyArray<string>
  readonly body: Buffer
  readonly redelivery: string | null
  standing: BatchDeliveryState
}

/** A line of the delivery log. */
export interface LogLine {
  readonly endpoint: string
  readonly batch: string
  readonly attempt: number
  readonly kind: Outcome['kind']
  readonly reason: Outcome['reason']
  readonly redelivery: string | null
  readonly startedAt: number
  readonly endedAt: number
  readonly nextAttemptAt: number | null
}

const placeOf = ({ firstSequence, standing }: StoredBatch): Place => ({
  dueAt: (standing.dueAt ?? 0) * 1000,
  sequence: firstSequence,
})

const connectionLost = new StorageUnavailable({
  reason: 'unreachable',
  detail: 'the test crashed PostgreSQL',
})

interface StoredSubscription {
  readonly uuid: string
  readonly account: string
  readonly afterSequence: number
  standing: EndpointHealth
  disabledByBatch: string | null
}

export interface MemoryStoreOptions {
  readonly settings: Settings
  /** In [0, 1). */
  readonly random: () => number
}

/** Runs before and after each change that a process makes: where it may be stopped. */
export type Step = (name: string) => Effect.Effect<void>

export class MemoryStore {
  readonly #options: MemoryStoreOptions
  readonly subscriptions = new Map<string, StoredSubscription>()
  readonly batches = new Map<string, StoredBatch>()
  /** Which batch an event is in, by subscription and event, ordinary batches only. */
  readonly batchOf = new Map<string, string>()
  readonly log: Array<LogLine> = []
  readonly positions = new Map<number, { epoch: number; position: number }>()
  /** PostgreSQL crashes during the next `record`: before or after its commit. */
  crashNextRecord: 'before commit' | 'after commit' | null = null
  /** The journal of each account. */
  readonly journal = new Map<
    string,
    Array<{
      readonly id: string
      readonly sequence: number
      readonly eventType: string
      readonly body: string
      readonly createdAt: number
    }>
  >()

  constructor(options: MemoryStoreOptions) {
    this.#options = options
  }

  subscribe(uuid: string, account: string, afterSequence = 0): void {
    this.subscriptions.set(uuid, {
      uuid,
      account,
      afterSequence,
      standing: newEndpointHealth,
      disabledByBatch: null,
    })
  }

  /** As `POST …/enable` does. */
  enable(uuid: string, at: number): void {
    const found = this.subscriptions.get(uuid)
    if (found !== undefined) found.standing = enableSubscription(found.standing, at)
  }

  /** The batches of a subscription that are neither delivered nor given up, in the order of their events. */
  pending(endpoint: string): ReadonlyArray<StoredBatch> {
    return [...this.batches.values()]
      .filter((batch) => batch.endpoint === endpoint && batch.standing.status === 'pending')
      .toSorted((a, b) => a.firstSequence - b.firstSequence)
  }

  #recordOf({
    account,
    afterSequence,
    disabledByBatch,
    standing,
    uuid,
  }: StoredSubscription): SubscriptionRecord {
    const waiting = this.pending(uuid)
    const dueAt = waiting.map((batch) =>
      standing.status === 'enabled'
        ? (batch.standing.dueAt ?? Number.POSITIVE_INFINITY)
        : batch.standing.queuedAt + this.#options.settings.retryWindowMs,
    )
    return {
      uuid,
      id: encodeId('we', uuid),
      account,
      mode: 'live',
      url: `https://receiver.example/${uuid}`,
      eventTypes: new Set(),
      status: standing.status,
      secret: Redacted.make('whsec_of_a_test'),
      previousSecret: null,
      rotationEndsAt: null,
      consecutiveFailures: standing.consecutiveFailures,
      backlogReleasedAt: standing.backlogReleasedAt,
      disabledByBatch,
      afterSequence,
      nextDueAt: dueAt.length === 0 ? null : Math.min(...dueAt),
    }
  }

  #pendingOf({ body, redelivery, standing, uuid }: StoredBatch, withBody: boolean): PendingBatch {
    return {
      uuid,
      id: encodeId('evb', uuid),
      attempts: standing.attempts,
      queuedAt: standing.queuedAt,
      nextAttemptAt: standing.dueAt ?? standing.queuedAt,
      redelivery,
      body: withBody ? body : null,
      begun: null,
    }
  }

  #record(outcomes: ReadonlyArray<Outcome>): Recorded {
    const standings = new Map<string, Standing>()
    const nextDue = new Map<string, number>()
    const actions = new Map<string, Standing['action']>()
    for (const outcome of outcomes) {
      const subscription = this.subscriptions.get(outcome.endpoint)
      const batch = this.batches.get(outcome.batch.uuid)
      if (subscription === undefined) continue
      if (
        batch !== undefined &&
        batch.standing.status === 'pending' &&
        batch.standing.attempts === outcome.batch.attempts
      ) {
        const verdict = applyOutcome(
          subscription.standing,
          batch.standing,
          {
            kind: outcome.kind,
            succeeded: outcome.reason === null,
            startedAt: outcome.startedAt,
            endedAt: outcome.endedAt,
            random: this.#options.random(),
          },
          this.#options.settings,
        )
        subscription.standing = verdict.subscription
        batch.standing = verdict.batch
        if (verdict.action !== 'none') actions.set(subscription.uuid, verdict.action)
        if (verdict.action === 'disable') {
          subscription.disabledByBatch = batch.uuid
          for (const one of this.pending(subscription.uuid)) one.standing = resetEarlyAttempts(one.standing)
        }
        this.log.push({
          endpoint: subscription.uuid,
          batch: batch.uuid,
          attempt: verdict.batch.attempts,
          kind: outcome.kind,
          reason: outcome.reason,
          redelivery: batch.redelivery,
          startedAt: outcome.startedAt,
          endedAt: outcome.endedAt,
          nextAttemptAt: verdict.nextAttemptAt,
        })
        if (verdict.batch.dueAt !== null) nextDue.set(batch.uuid, verdict.batch.dueAt)
      }
      const { backlogReleasedAt, consecutiveFailures, status } = subscription.standing
      standings.set(subscription.uuid, {
        status,
        consecutiveFailures,
        backlogReleasedAt,
        action: actions.get(subscription.uuid) ?? 'none',
      })
    }
    return { standings, nextDue }
  }

  /** The store as one process sees it. */
  shape(step: Step = () => Effect.void): FanoutStoreShape {
    const { settings } = this.#options
    const change = <A>(name: string, apply: () => A): Effect.Effect<A> =>
      Effect.gen(function* () {
        yield* step(`before ${name}`)
        const result = apply()
        yield* step(`after ${name}`)
        return result
      })
    const owned = <A>(name: string, owner: Ownership, apply: () => A): Effect.Effect<A, PartitionLost> =>
      Effect.flatMap(
        change(name, () =>
          this.positions.get(owner.partition)?.epoch === owner.epoch ? { done: apply() } : null,
        ),
        (outcome) =>
          outcome === null
            ? Effect.fail(new PartitionLost({ partition: owner.partition }))
            : Effect.succeed(outcome.done),
      )
    const standingOf = (endpoint: string) => this.subscriptions.get(endpoint)?.standing ?? newEndpointHealth

    return {
      take: (partition) =>
        change('take', () => {
          const before = this.positions.get(partition) ?? { epoch: 0, position: -1 }
          const after = { epoch: before.epoch + 1, position: before.position }
          this.positions.set(partition, after)
          return after
        }),
      waiting: Effect.sync(
        () => [...this.batches.values()].filter(({ standing }) => standing.status === 'pending').length,
      ),
      sources: Effect.sync(() =>
        [...new Set([...this.subscriptions.values()].map(({ account }) => account))].map((account) => ({
          account,
          mode: 'live' as const,
        })),
      ),
      subscriptionsOf: (sources) =>
        Effect.sync(() =>
          [...this.subscriptions.values()]
            .filter(({ account }) => sources.some((source) => source.account === account))
            .map((subscription) => this.#recordOf(subscription)),
        ),
      subscription: (uuid) =>
        Effect.sync(() => {
          const found = this.subscriptions.get(uuid)
          return found === undefined ? null : this.#recordOf(found)
        }),
      journal: ({ account }, { afterSequence, createdUntil, limit }) =>
        Effect.sync(() =>
          (this.journal.get(account) ?? [])
            .filter((event) => event.sequence > afterSequence && event.createdAt <= createdUntil)
            .slice(0, limit),
        ),
      queue: Effect.fnUntraced({ self: this }, function* (owner, position, cuts, redelivery = null) {
        const now = yield* Clock.currentTimeMillis
        return yield* owned('queue', owner, () => {
          const row = this.positions.get(owner.partition)!
          row.position = Math.max(row.position, position)
          return cuts.flatMap(({ events, subscription }) => {
            const place = (id: string) => `${subscription.uuid} ${id} ${redelivery?.id ?? ''}`
            const fresh = events.filter(({ id }) => !this.batchOf.has(place(id)))
            const [first] = fresh
            if (first === undefined) return []
            const id = eventBatchId(subscription.id, first.id, fresh.length, redelivery?.id ?? null)
            const batch: StoredBatch = {
              uuid: decodeId('evb', id) ?? '',
              endpoint: subscription.uuid,
              firstSequence: first.sequence,
              events: fresh.map((event) => event.id),
              body: Buffer.from(`[${fresh.map((event) => event.body).join()}]`),
              redelivery: redelivery?.id ?? null,
              standing: newBatchDelivery(now, redelivery !== null),
            }
            this.batches.set(batch.uuid, batch)
            for (const event of fresh) this.batchOf.set(place(event.id), batch.uuid)
            return [{ endpoint: subscription.uuid, batch: this.#pendingOf(batch, true) }]
          })
        })
      }),
      due: Effect.fnUntraced(
        { self: this },
        function* ({ behind, endpoint, first, limit, withBodies, without }) {
          const now = yield* Clock.currentTimeMillis
          const standing = standingOf(endpoint)
          const waiting = this.pending(endpoint)
          const isBehind = (batch: StoredBatch, { dueAt, sequence }: Place): boolean => {
            const place = placeOf(batch)
            return standing.backlogReleasedAt === null && place.dueAt !== dueAt
              ? place.dueAt > dueAt
              : place.sequence > sequence
          }
          const due = waiting.filter(
            (batch) =>
              (behind === null ? !without.has(batch.uuid) : isBehind(batch, behind)) &&
              dueAction({ ...standing, status: 'enabled' }, batch.standing, now, settings) !== 'nothing',
          )
          const ordered =
            standing.backlogReleasedAt === null
              ? due.toSorted((a, b) => (a.standing.dueAt ?? 0) - (b.standing.dueAt ?? 0))
              : due.toSorted((a, b) => Number(b.uuid === first) - Number(a.uuid === first))
          const batches = ordered
            .slice(0, limit)
            .filter((batch) => !without.has(batch.uuid))
            .map((batch) => this.#pendingOf(batch, withBodies))
          const later = waiting.flatMap(({ standing: { dueAt } }) =>
            dueAt !== null && dueAt > now ? [dueAt] : [],
          )
          const last = ordered[limit - 1]
          return {
            batches,
            nextDueAt:
              behind !== null || ordered.length >= limit || later.length === 0 ? null : Math.min(...later),
            place:
              last === undefined || (standing.backlogReleasedAt !== null && last.uuid === first)
                ? null
                : placeOf(last),
          }
        },
      ),
      expired: Effect.fnUntraced({ self: this }, function* ({ endpoint, limit, without }) {
        const now = yield* Clock.currentTimeMillis
        const waiting = this.pending(endpoint).filter(({ uuid }) => !without.has(uuid))
        const closesAt = (batch: StoredBatch) => batch.standing.queuedAt + settings.retryWindowMs
        const open = waiting.map(closesAt).filter((at) => at > now)
        return {
          batches: waiting
            .filter((batch) => closesAt(batch) <= now)
            .slice(0, limit)
            .map((batch) => this.#pendingOf(batch, false)),
          place: null,
          nextDueAt: open.length === 0 ? null : Math.min(...open),
        }
      }),
      body: (uuid) =>
        Effect.sync(() => {
          const batch = this.batches.get(uuid)
          return batch?.standing.status === 'pending' ? batch.body : null
        }),
      record: (owner, outcomes) =>
        Effect.suspend(() => {
          const crash = this.crashNextRecord
          this.crashNextRecord = null
          if (crash === 'before commit') return Effect.fail(connectionLost)
          const recorded = owned('record', owner, () => this.#record(outcomes))
          return crash === null ? recorded : Effect.andThen(recorded, Effect.fail(connectionLost))
        }),
      redeliveries: Effect.succeed<ReadonlyArray<OpenRedelivery>>([]),
      claimTrials: () => Effect.succeed([]),
      recordTrial: () => Effect.void,
      releaseTrial: () => Effect.void,
      clearDeleted: Effect.succeed(0),
      answers: Effect.succeed(true),
    }
  }
}
