import { factId } from '../id/id.ts'
import type { MessageFact } from './fact.ts'

/**
 * The step of a message's life that a fact reports; with the message's id it makes the fact's id.
 *
 * A claim is named by epoch and attempt, because a claim that a fence made void and the one that took its place are two
 * facts. Final statuses are named without their reason: of two that race, readers keep the first.
 */
export const stepOf = (fact: MessageFact): string => {
  switch (fact.type) {
    case 'MessageAccepted':
      return 'accepted'
    case 'HandoverStarted':
      return `handover:${fact.epoch}:${fact.attempt}`
    case 'HandoverRefused':
      return `refused:${fact.attempt}`
    case 'MessageSent':
      return 'sent'
    case 'MessageDelivered':
      return 'delivered'
    case 'MessageUndelivered':
      return 'undelivered'
    case 'MessageRejected':
      return 'rejected'
    case 'MessageExpired':
      return `expired:${fact.reason}`
    case 'MessageSeen':
      return 'seen'
    case 'OpenMessageCarried':
      return `carried:${fact.at}`
  }
}

/** The id of a fact: canonical UUID text, a function of what the fact reports. It is the record's `id` on Kafka. */
export const factIdOf = (fact: MessageFact): string => factId(fact.messageId, stepOf(fact))
