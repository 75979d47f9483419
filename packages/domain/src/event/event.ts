/** Public events: their types, ids and envelope. Source: EVT-1, EVT-2, GEN-3. */
import { eventId } from '../id/id.ts'
import type { Mode } from '../values/classification.ts'
import { toTimestamp } from '../values/timestamp.ts'

const MESSAGE_EVENT_TYPES = [
  'message.accepted',
  'message.sent',
  'message.delivered',
  'message.undelivered',
  'message.rejected',
  'message.expired',
  'message.seen',
] as const
export type MessageEventType = (typeof MESSAGE_EVENT_TYPES)[number]

/** All types. A subscription can select any of them. */
export const EVENT_TYPES = [
  ...MESSAGE_EVENT_TYPES,
  'batch.completed',
  'template.approved',
  'template.declined',
  'sender.registered',
  'sender.declined',
  'account.spend_threshold',
  'recipient.opted_out',
  'recipient.opted_in',
  'webhook.endpoint_disabled',
  'webhook.endpoint_enabled',
  'webhook.test',
] as const
export type EventType = (typeof EVENT_TYPES)[number]

const eventTypes: ReadonlySet<string> = new Set(EVENT_TYPES)
export const isEventType = (text: string): text is EventType => eventTypes.has(text)

/** An event before it is recorded. `object` becomes `data.object`, without personal data. */
export interface PublicEvent<O extends object = object, T extends EventType = EventType> {
  /** `evt_…` */
  readonly id: string
  readonly type: T
  readonly object: O
}

/**
 * Derives the id of an event from its subject and type. A subject (a message, a batch) has at most
 * one event of each type, so a replay produces the same id.
 */
export const eventIdOf = (subjectId: string, type: EventType): string => eventId(`${subjectId} ${type}`)

/** The ids of all events that a message may have, of these types or, for an empty list, of all. */
export const messageEventIds = (message: string, types: ReadonlyArray<EventType>): ReadonlyArray<string> =>
  MESSAGE_EVENT_TYPES.filter((type) => types.length === 0 || types.includes(type)).map((type) =>
    eventIdOf(message, type),
  )

/** An event as clients receive it. */
interface EventEnvelope<O extends object = object> {
  readonly id: string
  readonly object: 'event'
  readonly type: EventType
  readonly created_at: string
  readonly mode: Mode
  readonly data: { readonly object: O }
}

/** `recordedAt` is the time of the journal entry, in milliseconds since the epoch. */
export const envelopeOf = <O extends object>(
  event: PublicEvent<O>,
  recorded: { readonly recordedAt: number; readonly mode: Mode },
): EventEnvelope<O> => ({
  id: event.id,
  object: 'event',
  type: event.type,
  created_at: toTimestamp(recorded.recordedAt),
  mode: recorded.mode,
  data: { object: event.object },
})
