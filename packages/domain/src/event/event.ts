/** Public events: their types, their ids and their shape. Source: specification, Events; contract, Events. */
import { eventId } from '../id/id.ts'
import { type Mode, toTimestamp } from '../vocabulary.ts'

/** Events about one message. */
export const MESSAGE_EVENT_TYPES = [
  'message.accepted',
  'message.sent',
  'message.delivered',
  'message.undelivered',
  'message.rejected',
  'message.expired',
  'message.seen',
] as const
export type MessageEventType = (typeof MESSAGE_EVENT_TYPES)[number]

/** Every type that a subscription can ask for. */
export const EVENT_TYPES = [
  ...MESSAGE_EVENT_TYPES,
  'batch.completed',
  'template.approved',
  'template.declined',
  'sender.registered',
  'sender.declined',
  'account.spend_threshold',
  'webhook.endpoint_disabled',
  'webhook.test',
] as const
export type EventType = (typeof EVENT_TYPES)[number]

const eventTypes: ReadonlySet<string> = new Set(EVENT_TYPES)
export const isEventType = (text: string): text is EventType => eventTypes.has(text)

/** Something to be told to the account, not recorded yet. `object` is what `data.object` shows: JSON, nothing personal. */
export interface PublicEvent<O extends object = object, T extends EventType = EventType> {
  /** `evt_…` */
  readonly id: string
  readonly type: T
  readonly object: O
}

/**
 * The id of an event about a subject that meets each type of event at most once (a message, a batch): so a
 * correction has an event of its own and a replay has the same one.
 */
export const eventIdOf = (subjectId: string, type: EventType): string => eventId(`${subjectId} ${type}`)

/** An event as `/v1/events` and subscribers see it. */
export interface EventEnvelope<O extends object = object> {
  readonly id: string
  readonly object: 'event'
  readonly type: EventType
  readonly created_at: string
  readonly mode: Mode
  readonly data: { readonly object: O }
}

/** Puts an event into its envelope. `recordedAt` is the journal's moment, in milliseconds since the epoch. */
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
