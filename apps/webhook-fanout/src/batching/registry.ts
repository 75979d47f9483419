/** The subscriptions of one partition, by UUID and by account and mode. */
import { type Mode } from '@hub/domain'
import { webhooksKey } from '@hub/kafka'
import { Effect } from 'effect'
import type { Deliverer } from '../delivery/deliverer.ts'
import { FanoutStore, type StoredBatch } from '../store/store.port.ts'
import { Subscription, type SubscriptionRecord } from '../subscriptions/subscription.ts'

interface RegistryOptions {
  readonly partition: number
  readonly deliverer: Pick<Deliverer, 'open' | 'changed' | 'close' | 'offer'>
  readonly onRemoved: (subscription: Subscription) => void
}

export const makeSubscriptionRegistry = Effect.fnUntraced(function* (options: RegistryOptions) {
  const { deliverer, onRemoved, partition } = options
  const store = yield* FanoutStore
  const byUuid = new Map<string, Subscription>()
  const bySource = new Map<string, Set<Subscription>>()
  let closed = false

  const add = (record: SubscriptionRecord): Subscription => {
    const subscription = new Subscription(record, partition)
    byUuid.set(record.uuid, subscription)
    const source = webhooksKey(record.account, record.mode)
    const siblings = bySource.get(source)
    if (siblings === undefined) bySource.set(source, new Set([subscription]))
    else siblings.add(subscription)
    deliverer.open(subscription)
    return subscription
  }

  const remove = (subscription: Subscription) => {
    const { account, mode, uuid } = subscription.record
    const source = webhooksKey(account, mode)
    byUuid.delete(uuid)
    bySource.get(source)?.delete(subscription)
    if (bySource.get(source)?.size === 0) bySource.delete(source)
    onRemoved(subscription)
    deliverer.close(subscription)
  }

  return {
    add,
    get: (uuid: string) => byUuid.get(uuid),
    of: (account: string, mode: Mode): Iterable<Subscription> =>
      bySource.get(webhooksKey(account, mode)) ?? [],
    /** Reads a subscription (UUID) again; adds, updates or removes it. `null`: it is deleted. */
    reload: Effect.fnUntraced(function* (uuid: string) {
      const record = yield* store.subscription(uuid)
      if (closed) return null
      const known = byUuid.get(uuid)
      if (record === null) {
        if (known !== undefined) remove(known)
        return null
      }
      if (known === undefined) return add(record)
      deliverer.changed(known, record)
      return known
    }),
    /** Passes batches that were just stored to the deliverer. `storingSince`: milliseconds since the epoch. */
    offer: (stored: ReadonlyArray<StoredBatch>, storingSince: number) => {
      for (const [uuid, batches] of Map.groupBy(stored, ({ subscriptionId }) => subscriptionId)) {
        const subscription = byUuid.get(uuid)
        if (subscription === undefined) continue
        deliverer.offer(
          subscription,
          batches.map(({ batch }) => batch),
          storingSince,
        )
      }
    },
    /** Reads the due batches of a subscription (UUID) again. */
    rescan: (uuid: string) => {
      const subscription = byUuid.get(uuid)
      if (subscription !== undefined) deliverer.changed(subscription, subscription.record)
    },
    count: () => byUuid.size,
    countDisabled: () => [...byUuid.values()].filter(({ enabled }) => !enabled).length,
    /** Aborts all attempts, synchronously: the partition may have a new owner. */
    close: () => {
      closed = true
      for (const subscription of byUuid.values()) deliverer.close(subscription)
      byUuid.clear()
      bySource.clear()
    },
  }
})

export type SubscriptionRegistry = Effect.Success<ReturnType<typeof makeSubscriptionRegistry>>
