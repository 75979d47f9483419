/** The transaction that stores new batches and moves the position of the partition. */
import { eventBatchId } from '@hub/domain'
import { type Queries, uuidOf } from '@hub/store'
import { insertBatchEvents, selectBatchEvents } from './batch-events.ts'
import { insertBatches, type NewBatchRow } from './batches.ts'
import { movePosition } from './positions.ts'
import { moveRedelivery } from './redeliveries.ts'
import type { NewWebhookBatch, Ownership, RedeliveryProgress, StoredBatch } from './store.port.ts'

interface BatchesToStore {
  readonly position: number
  readonly batches: ReadonlyArray<NewWebhookBatch>
  readonly redelivery: RedeliveryProgress | null
  /** When the batches are queued, milliseconds since the epoch. */
  readonly now: number
}

/** The body of a batch: a JSON array of the event texts as `/v1/events` serves them. */
export const bodyOf = (events: ReadonlyArray<{ readonly body: string }>): string =>
  `[${events.map((event) => event.body).join(',')}]`

/** A batch without the events in `seen`; adds its events to `seen`. `null`: no events are left. */
const rowOf = (
  { events, subscription }: NewWebhookBatch,
  seen: Set<string>,
  { now, redelivery }: BatchesToStore,
): (NewBatchRow & { readonly events: ReadonlyArray<string> }) | null => {
  const fresh = events.filter(({ id }) => {
    const key = `${subscription.uuid} ${uuidOf('evt', id)}`
    if (seen.has(key)) return false
    seen.add(key)
    return true
  })
  const [first] = fresh
  if (first === undefined) return null
  const id = eventBatchId(subscription.id, first.id, fresh.length, redelivery?.id ?? null)
  const body = bodyOf(fresh)
  const traces = fresh.flatMap(({ trace }) => trace ?? [])
  return {
    subscriptionId: subscription.uuid,
    firstSequence: first.sequence,
    eventCount: fresh.length,
    body,
    events: fresh.map((event) => uuidOf('evt', event.id)),
    batch: {
      uuid: uuidOf('evb', id),
      id,
      attempts: 0,
      queuedAt: now,
      dueAt: now,
      redelivery: redelivery?.id ?? null,
      body: Buffer.from(body),
      attempt: null,
      ...(traces.length === 0 ? {} : { traces }),
    },
  }
}

/** `null`: another process owns the partition, and nothing was changed. */
export const storeBatches = async (
  q: Queries,
  owner: Ownership,
  request: BatchesToStore,
): Promise<ReadonlyArray<StoredBatch> | null> => {
  const { batches, redelivery } = request
  const candidates = batches.flatMap(({ events, subscription }) =>
    events.map(({ id }) => ({ subscriptionId: subscription.uuid, event: uuidOf('evt', id) })),
  )
  // One round trip: the driver sends statements in the order of their start.
  const [isOwner, known] = await Promise.all([
    movePosition(q, owner, request.position),
    candidates.length === 0 ? [] : selectBatchEvents(q, candidates, redelivery?.id ?? null),
  ])
  if (!isOwner) return null
  if (redelivery !== null) await moveRedelivery(q, redelivery, batches)
  if (batches.length === 0) return []
  // An event may also occur twice in these batches, if it was read again before it was stored.
  const seen = new Set(known.map(({ subscriptionId, event }) => `${subscriptionId} ${event}`))
  const rows = batches.map((batch) => rowOf(batch, seen, request)).filter((row) => row !== null)
  if (rows.length === 0) return []
  await Promise.all([
    insertBatches(q, owner.partition, rows, new Date(request.now)),
    insertBatchEvents(
      q,
      rows.flatMap(({ batch, subscriptionId, events }) =>
        events.map((event, position) => ({ subscriptionId, event, batch: batch.uuid, position })),
      ),
      redelivery?.id ?? null,
    ),
  ])
  return rows.map(({ batch, subscriptionId, eventCount }) => ({ subscriptionId, batch, events: eventCount }))
}
