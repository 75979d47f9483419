/** Ids of facts: derived from message and step, so that a repeated fact has the same id. */
import { factId } from '../id/id.ts'
import type { MessageFact } from './fact.ts'

/**
 * Returns the name of the step that a fact reports. A handover claim includes epoch and attempt: a
 * claim that a fence made void and its replacement are two facts. Final statuses do not include
 * their reason: of two competing facts, readers keep the first.
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

/** Returns the id of a fact (canonical UUID text). It is the `id` of the Kafka record. */
export const factIdOf = (fact: MessageFact): string => factId(fact.messageId, stepOf(fact))
