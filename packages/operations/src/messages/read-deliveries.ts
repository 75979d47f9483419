/** The events of a message, and the attempts to deliver them, also to disabled subscriptions. */
import { encodeId, messageEventIds } from '@hub/domain'
import {
  type Queries,
  ReadEvents,
  type ReadMessages,
  uuidOf,
  WebhooksAttempts,
  WebhooksEndpoints,
} from '@hub/store'
import type { JournalEvent, MessageAttempt } from './entries.ts'

interface Most {
  readonly subscriptions: number
  /** For one event of one subscription. */
  readonly attempts: number
}

export const readDeliveries = async (
  q: Queries,
  { account, id, mode }: ReadMessages.ProjectedMessage,
  most: Most,
) => {
  const ids = messageEventIds(encodeId('msg', id), []).map((event) => uuidOf('evt', event))
  const bodies = await ReadEvents.readBodies(q, { account, mode }, ids)
  const events = bodies.map((body): JournalEvent => {
    const { created_at, id: event, type } = JSON.parse(body) as JournalEvent
    return { id: event, type, created_at }
  })
  const filter = { account, mode, status: null, limit: most.subscriptions }
  const subscriptions = events.length === 0 ? [] : await WebhooksEndpoints.readNewest(q, filter)
  const attempts: Array<MessageAttempt> = []
  for (const subscription of subscriptions) {
    const found = new Map<string, WebhooksAttempts.Attempt>()
    for (const event of events) {
      const page = await WebhooksAttempts.readPage(
        q,
        subscription.id,
        { ...WebhooksAttempts.ALL_ATTEMPTS, event: uuidOf('evt', event.id) },
        null,
        most.attempts,
      )
      for (const attempt of page ?? []) found.set(attempt.id, attempt)
    }
    for (const attempt of found.values()) {
      const carried = events.filter(({ id: event }) => attempt.event_ids.includes(uuidOf('evt', event)))
      attempts.push({ subscriptionId: subscription.id, attempt, events: carried })
    }
  }
  return { events, attempts, hasSubscriptions: subscriptions.length > 0 }
}
