/** The public events of a message. */
import { eventIdOf, type MessageEventType, type PublicEvent } from '../event/event.ts'
import type { MessageClass } from '../values/classification.ts'
import { type Money, zeroMoney } from '../values/money.ts'
import { toTimestamp } from '../values/timestamp.ts'
import type { MessageAccepted, ReasonCode } from './fact.ts'
import { isBilled, isFinal, type Status } from './state.ts'

/** The message in its events. It contains no number, text or variable value. */
interface MessageEventObject {
  readonly id: string
  readonly object: 'message'
  readonly status: Status
  readonly final: boolean
  readonly class: MessageClass
  readonly reason_code: ReasonCode | null
  readonly client_ref: string | null
  readonly batch: string | null
  readonly template: string
  readonly created_at: string
  readonly parts: number
  readonly price: Money
}
export type MessageEvent = PublicEvent<MessageEventObject, MessageEventType>

/** The properties of the acceptance that events need. */
export type AcceptanceForEvents = Pick<
  MessageAccepted,
  'messageId' | 'at' | 'class' | 'clientRef' | 'batch' | 'template' | 'parts' | 'price'
>

interface StatusAndReason {
  readonly status: Status
  readonly reason: ReasonCode | null
}

/** Returns the billed price of a message: the charge, or zero in a status that is not billed. */
export const billedPrice = (charged: Money, status: Status, reason: ReasonCode | null): Money =>
  isBilled(status, reason) ? charged : zeroMoney(charged.currency)

const messageEvent = (
  message: AcceptanceForEvents,
  type: MessageEventType,
  { reason, status }: StatusAndReason,
): MessageEvent => ({
  id: eventIdOf(message.messageId, type),
  type,
  object: {
    id: message.messageId,
    object: 'message',
    status,
    final: isFinal(status),
    class: message.class,
    reason_code: reason,
    client_ref: message.clientRef,
    batch: message.batch,
    template: message.template,
    created_at: toTimestamp(message.at),
    parts: message.parts,
    price: billedPrice(message.price, status, reason),
  },
})

/**
 * Returns the event of a new status. It depends only on the acceptance and the status, so a replay gives the
 * same event. Call it when the status rose in `rank`. Source: EVT-3, EVT-4.
 */
export const statusEvent = (message: AcceptanceForEvents, change: StatusAndReason): MessageEvent =>
  messageEvent(message, `message.${change.status}`, change)

/** Returns the event of a read receipt. It has no status of its own, so the event shows `delivered`. */
export const seenEvent = (message: AcceptanceForEvents): MessageEvent =>
  messageEvent(message, 'message.seen', { status: 'delivered', reason: null })
