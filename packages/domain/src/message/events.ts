import { eventIdOf, type MessageEventType, type PublicEvent } from '../event/event.ts'
import { type MessageClass, type Money, toTimestamp, zeroMoney } from '../vocabulary.ts'
import { statusOf } from './evolve.ts'
import type { MessageAccepted, MessageFact, ReasonCode } from './fact.ts'
import { isBilled, isFinal, type Status } from './state.ts'

/** What events tell of a message: never a number, a text or a variable. Source: contract, Events. */
export interface MessageEventObject {
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

/** What an event needs of the acceptance; `at` is its moment, `price` what was charged then. */
export type AcceptedMessage = Pick<
  MessageAccepted,
  'messageId' | 'at' | 'class' | 'clientRef' | 'batch' | 'template' | 'parts' | 'price'
>

const typeOf = (fact: MessageFact): MessageEventType | null => {
  switch (fact.type) {
    case 'MessageAccepted':
      return 'message.accepted'
    case 'MessageSent':
      return 'message.sent'
    case 'MessageDelivered':
      return 'message.delivered'
    case 'MessageUndelivered':
      return 'message.undelivered'
    case 'MessageRejected':
      return 'message.rejected'
    case 'MessageExpired':
      return 'message.expired'
    case 'MessageSeen':
      return 'message.seen'
    case 'HandoverStarted':
    case 'HandoverRefused':
    case 'OpenMessageCarried':
      return null
  }
}

/** What was charged for a message in a status: nothing for one that was never billed. Source: contract, Message. */
export const billedPrice = (charged: Money, status: Status, reason: ReasonCode | null): Money =>
  isBilled(status, reason) ? charged : zeroMoney(charged.currency)

/**
 * The public events that a fact gives, at most one today. They are a function of the acceptance and the fact alone, so that a
 * replay gives the same again whatever the message has become. To be asked for facts that changed
 * something (the status rose in `rank`, or `seen` became true): a fact that lost a race tells nobody anything.
 */
export const eventsOf = (message: AcceptedMessage, fact: MessageFact): ReadonlyArray<MessageEvent> => {
  const type = typeOf(fact)
  if (type === null) return []
  // A read receipt is no status: it is told of a delivered message.
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
