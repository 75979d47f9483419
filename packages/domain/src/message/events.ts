/** The public events of a message. */
import { eventIdOf, type MessageEventType, type PublicEvent } from '../event/event.ts'
import type { MessageClass } from '../values/classification.ts'
import { type Money, zeroMoney } from '../values/money.ts'
import { toTimestamp } from '../values/timestamp.ts'
import { statusOf } from './evolve.ts'
import type { MessageAccepted, MessageFact, ReasonCode } from './fact.ts'
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

const EVENT_TYPES: Readonly<Record<MessageFact['type'], MessageEventType | null>> = {
  MessageAccepted: 'message.accepted',
  MessageSent: 'message.sent',
  MessageDelivered: 'message.delivered',
  MessageUndelivered: 'message.undelivered',
  MessageRejected: 'message.rejected',
  MessageExpired: 'message.expired',
  MessageSeen: 'message.seen',
  HandoverStarted: null,
  HandoverRefused: null,
  OpenMessageCarried: null,
}

/** Returns the billed price of a message: the charge, or zero in a status that is not billed. */
export const billedPrice = (charged: Money, status: Status, reason: ReasonCode | null): Money =>
  isBilled(status, reason) ? charged : zeroMoney(charged.currency)

/**
 * Returns the public events of a fact (at most one). They depend only on the acceptance and the
 * fact, so a replay gives the same events. Call it only for facts that changed the state: the
 * status rose in `rank`, or `seen` became true. Source: specification §Event types.
 */
export const eventsOf = (message: AcceptanceForEvents, fact: MessageFact): ReadonlyArray<MessageEvent> => {
  const type = EVENT_TYPES[fact.type]
  if (type === null) return []
  // A read receipt has no status. `message.seen` shows the status `delivered`.
  const { status, reason } = statusOf(fact) ?? { status: 'delivered', reason: null }
  return [
    {
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
    },
  ]
}
