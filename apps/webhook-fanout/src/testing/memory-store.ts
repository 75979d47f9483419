/**
 * The store in memory, for simulations of days within milliseconds. It contains no rules for
 * deliveries: it calls the domain for what is due and for what follows from an outcome.
 * `store/postgres-store.int.test.ts` checks that the store on PostgreSQL returns the same.
 */
import {
  applyOutcomeToBatch,
  applyOutcomeToHealth,
  type BatchDeliveryState,
  decodeId,
  type DisabledPeriods,
  dueAction,
  enable,
  encodeId,
  type EndpointHealth,
  eventBatchId,
  healthy,
  resetEarlyAttempts,
} from '@hub/domain'
import { Clock, Effect, Redacted } from 'effect'
import type { Settings } from '../config.ts'
import type { Outcome } from '../subscriptions/outcome.ts'
import type { BatchCursor, PendingBatch } from '../subscriptions/pending-batch.ts'
import {
  type FanoutStoreShape,
  type JournalEvent,
  type OpenRedelivery,
  type Ownership,
  PartitionLost,
  type RecordedOutcomes,
} from '../store/store.port.ts'
import type { RecordedHealth, SubscriptionRecord } from '../subscriptions/subscription.ts'

interface MemoryBatch {
  readonly uuid: string
  readonly subscriptionId: string
  readonly firstSequence: number
  readonly events: ReadonlyArray<string>
  readonly body: Buffer
  readonly redelivery: string | null
  state: BatchDeliveryState
}

interface MemorySubscription {
  readonly uuid: string
  readonly account: string
  readonly afterSequence: number
  health: EndpointHealth
  disabledByBatch: string | null
  disabledPeriods: DisabledPeriods
}

/** A row of the delivery log. */
interface LogRow {
  readonly subscriptionId: string
  readonly batch: string
  readonly attempt: number
  readonly kind: Outcome['kind']
  readonly reason: Outcome['reason']
  readonly redelivery: string | null
  readonly startedAt: number
  readonly endedAt: number
  readonly nextAttemptAt: number | null
}

const cursorOf = ({ firstSequence, state }: MemoryBatch): BatchCursor => ({
  dueAt: (state.dueAt ?? 0) * 1000,
  sequence: firstSequence,
})

const NEW_HEALTH: EndpointHealth = { ...healthy, backlogReleasedAt: null }

interface MemoryStoreOptions {
  readonly settings: Settings
  /** In [0, 1). */
  readonly random: () => number
}

export class MemoryStore {
  readonly #options: MemoryStoreOptions
  readonly subscriptions = new Map<string, MemorySubscription>()
  readonly batches = new Map<string, MemoryBatch>()
  /** The batch of an event, by subscription, event and redelivery (empty: none). */
  readonly batchOf = new Map<string, string>()
  readonly log: Array<LogRow> = []
  readonly positions = new Map<number, { epoch: number; position: number }>()
  /** The journal of each account. */
  readonly journal = new Map<string, Array<JournalEvent & { readonly createdAt: number }>>()

  constructor(options: MemoryStoreOptions) {
    this.#options = options
  }

  subscribe(uuid: string, account: string, afterSequence = 0): void {
    this.subscriptions.set(uuid, {
      uuid,
      account,
      afterSequence,
      health: NEW_HEALTH,
      disabledByBatch: null,
      disabledPeriods: { disabledAt: null, last: null },
    })
  }

  /** Does what `POST …/enable` does. */
  enable(uuid: string, at: number): void {
    const found = this.subscriptions.get(uuid)
    if (found === undefined) return
    const { action, health } = enable(found.health)
    if (action !== 'releaseBacklog') return
    found.health = { ...health, backlogReleasedAt: at }
    const from = found.disabledPeriods.disabledAt
    found.disabledPeriods = { disabledAt: null, last: from === null ? null : { from, until: at } }
  }

  /** The pending batches of a subscription, in the order of their events. */
  pending(subscriptionId: string): ReadonlyArray<MemoryBatch> {
    return [...this.batches.values()]
      .filter((batch) => batch.subscriptionId === subscriptionId && batch.state.status === 'pending')
      .toSorted((a, b) => a.firstSequence - b.firstSequence)
  }

  #recordOf(subscription: MemorySubscription): SubscriptionRecord {
    const { account, afterSequence, disabledByBatch, disabledPeriods, health, uuid } = subscription
    const dueAt = this.pending(uuid).map(({ state }) =>
      health.status === 'enabled'
        ? (state.dueAt ?? Number.POSITIVE_INFINITY)
        : state.queuedAt + this.#options.settings.retryWindowMs,
    )
    return {
      uuid,
      id: encodeId('we', uuid),
      account,
      mode: 'live',
      url: `https://receiver.example/${uuid}`,
      eventTypes: new Set(),
      status: health.status,
      credentials: {
        secret: Redacted.make('whsec_of_a_test'),
        earlierSecrets: [],
        headers: null,
        clientCertificate: null,
      },
      consecutiveFailures: health.consecutiveFailures,
      backlogReleasedAt: health.backlogReleasedAt,
      disabledByBatch,
      disabledPeriods,
      afterSequence,
      nextDueAt: dueAt.length === 0 ? null : Math.min(...dueAt),
    }
  }

  #pendingOf({ body, redelivery, state, uuid }: MemoryBatch, withBody: boolean): PendingBatch {
    return {
      uuid,
      id: encodeId('evb', uuid),
      attempts: state.attempts,
      queuedAt: state.queuedAt,
      dueAt: state.dueAt ?? state.queuedAt,
      redelivery,
      body: withBody ? body : null,
      attempt: null,
    }
  }

  #record(outcomes: ReadonlyArray<Outcome>): RecordedOutcomes {
    const health = new Map<string, RecordedHealth>()
    const nextDue = new Map<string, number>()
    const actions = new Map<string, RecordedHealth['action']>()
    for (const outcome of outcomes) {
      const subscription = this.subscriptions.get(outcome.subscriptionId)
      const batch = this.batches.get(outcome.batch.uuid)
      if (subscription === undefined) continue
      if (
        batch !== undefined &&
        batch.state.status === 'pending' &&
        batch.state.attempts === outcome.batch.attempts
      ) {
        const deliveryOutcome = {
          kind: outcome.kind,
          succeeded: outcome.reason === null,
          startedAt: outcome.startedAt,
          endedAt: outcome.endedAt,
          random: this.#options.random(),
        }
        const batchDecision = applyOutcomeToBatch(batch.state, deliveryOutcome, this.#options.settings)
        const decision = applyOutcomeToHealth(subscription.health, deliveryOutcome, batchDecision)
        subscription.health = decision.health
        batch.state = batchDecision.batch
        if (decision.action !== 'none') actions.set(subscription.uuid, decision.action)
        if (decision.action === 'disable') {
          subscription.disabledByBatch = batch.uuid
          subscription.disabledPeriods = { ...subscription.disabledPeriods, disabledAt: outcome.endedAt }
          for (const one of this.pending(subscription.uuid)) one.state = resetEarlyAttempts(one.state)
        }
        this.log.push({
          subscriptionId: subscription.uuid,
          batch: batch.uuid,
          attempt: batchDecision.batch.attempts,
          kind: outcome.kind,
          reason: outcome.reason,
          redelivery: batch.redelivery,
          startedAt: outcome.startedAt,
          endedAt: outcome.endedAt,
          nextAttemptAt: decision.nextAttemptAt,
        })
        if (batchDecision.batch.dueAt !== null) nextDue.set(batch.uuid, batchDecision.batch.dueAt)
      }
      const { backlogReleasedAt, consecutiveFailures, status } = subscription.health
      health.set(subscription.uuid, {
        status,
        consecutiveFailures,
        backlogReleasedAt,
        disabledAt: subscription.disabledPeriods.disabledAt,
        action: actions.get(subscription.uuid) ?? 'none',
      })
    }
    return { health, nextDue }
  }

  /** The store as one process sees it. */
  shape(): FanoutStoreShape {
    const { settings } = this.#options
    const owned = <A>({ epoch, partition }: Ownership, apply: () => A): Effect.Effect<A, PartitionLost> =>
      Effect.suspend(() =>
        this.positions.get(partition)?.epoch === epoch
          ? Effect.succeed(apply())
          : Effect.fail(new PartitionLost({ partition })),
      )
    const healthOf = (subscriptionId: string) => this.subscriptions.get(subscriptionId)?.health ?? NEW_HEALTH

    return {
      acquire: (partition) =>
        Effect.sync(() => {
          const before = this.positions.get(partition) ?? { epoch: 0, position: -1 }
          const after = { epoch: before.epoch + 1, position: before.position }
          this.positions.set(partition, after)
          return after
        }),
      endingCertificates: () => Effect.succeed(0),
      waiting: Effect.sync(
        () => [...this.batches.values()].filter(({ state }) => state.status === 'pending').length,
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
      storeBatches: Effect.fnUntraced(
        { self: this },
        function* (owner, position, batches, redelivery = null) {
          const now = yield* Clock.currentTimeMillis
          return yield* owned(owner, () => {
            const row = this.positions.get(owner.partition)!
            row.position = Math.max(row.position, position)
            const seen = new Set<string>()
            return batches.flatMap(({ events, subscription }) => {
              const keyOf = (id: string) => `${subscription.uuid} ${id} ${redelivery?.id ?? ''}`
              // An event may also occur twice in these batches, if it was published twice.
              const fresh = events.filter(({ id }) => {
                const isNew = !this.batchOf.has(keyOf(id)) && !seen.has(keyOf(id))
                seen.add(keyOf(id))
                return isNew
              })
              const [first] = fresh
              if (first === undefined) return []
              const id = eventBatchId(subscription.id, first.id, fresh.length, redelivery?.id ?? null)
              const batch: MemoryBatch = {
                uuid: decodeId('evb', id) ?? '',
                subscriptionId: subscription.uuid,
                firstSequence: first.sequence,
                events: fresh.map((event) => event.id),
                body: Buffer.from(`[${fresh.map((event) => event.body).join()}]`),
                redelivery: redelivery?.id ?? null,
                state: {
                  status: 'pending',
                  attempts: 0,
                  earlyAttempts: 0,
                  queuedAt: now,
                  scheduledAt: now,
                  dueAt: now,
                  redelivery: redelivery !== null,
                },
              }
              this.batches.set(batch.uuid, batch)
              for (const event of fresh) this.batchOf.set(keyOf(event.id), batch.uuid)
              return [
                {
                  subscriptionId: subscription.uuid,
                  batch: this.#pendingOf(batch, true),
                  events: fresh.length,
                },
              ]
            })
          })
        },
      ),
      due: Effect.fnUntraced(
        { self: this },
        function* ({ cursor, subscriptionId, limit, probe, withBodies, without }) {
          const now = yield* Clock.currentTimeMillis
          const health = healthOf(subscriptionId)
          const waiting = this.pending(subscriptionId)
          const isBehind = (batch: MemoryBatch, { dueAt, sequence }: BatchCursor): boolean => {
            const own = cursorOf(batch)
            return health.backlogReleasedAt === null && own.dueAt !== dueAt
              ? own.dueAt > dueAt
              : own.sequence > sequence
          }
          const due = waiting.filter(
            (batch) =>
              (cursor === null ? !without.has(batch.uuid) : isBehind(batch, cursor)) &&
              dueAction({ ...health, status: 'enabled' }, batch.state, now, settings) !== 'nothing',
          )
          const ordered =
            health.backlogReleasedAt === null
              ? due.toSorted((a, b) => (a.state.dueAt ?? 0) - (b.state.dueAt ?? 0))
              : due.toSorted((a, b) => Number(b.uuid === probe) - Number(a.uuid === probe))
          const batches = ordered
            .slice(0, limit)
            .filter((batch) => !without.has(batch.uuid))
            .map((batch) => this.#pendingOf(batch, withBodies))
          const later = waiting.flatMap(({ state: { dueAt } }) =>
            dueAt !== null && dueAt > now ? [dueAt] : [],
          )
          const last = ordered[limit - 1]
          return {
            batches,
            nextDueAt:
              cursor !== null || ordered.length >= limit || later.length === 0 ? null : Math.min(...later),
            cursor:
              last === undefined || (health.backlogReleasedAt !== null && last.uuid === probe)
                ? null
                : cursorOf(last),
          }
        },
      ),
      expired: Effect.fnUntraced({ self: this }, function* ({ subscriptionId, limit, without }) {
        const now = yield* Clock.currentTimeMillis
        const waiting = this.pending(subscriptionId).filter(({ uuid }) => !without.has(uuid))
        const closesAt = (batch: MemoryBatch) => batch.state.queuedAt + settings.retryWindowMs
        const open = waiting.map(closesAt).filter((at) => at > now)
        return {
          batches: waiting
            .filter((batch) => closesAt(batch) <= now)
            .slice(0, limit)
            .map((batch) => this.#pendingOf(batch, false)),
          cursor: null,
          nextDueAt: open.length === 0 ? null : Math.min(...open),
        }
      }),
      body: (uuid) =>
        Effect.sync(() => {
          const batch = this.batches.get(uuid)
          return batch?.state.status === 'pending' ? batch.body : null
        }),
      record: (owner, outcomes) => owned(owner, () => this.#record(outcomes)),
      redeliveries: Effect.succeed<ReadonlyArray<OpenRedelivery>>([]),
      takeOnDemand: () => Effect.succeed([]),
      recordOnDemand: () => Effect.void,
      releaseOnDemand: () => Effect.void,
      purgeDeleted: Effect.succeed(0),
      answers: Effect.succeed(true),
    }
  }
}
