/**
 * Messages that count as sent although the hub does not know whether the SMS operator has them. Their
 * process ended, or the connection broke, between the handover claim and the answer of the operator. The
 * hub does not submit them again, because the recipient could get them twice.
 */
import { toTimestamp } from '@hub/domain'
import { type Queries, ReadMessages } from '@hub/store'
import { Schema } from 'effect'
import { Count, Timestamp } from './fields.ts'

/** Most of them are final within a day: the report arrives, or the deadline passes. */
export const UNANSWERED_HOURS = 24

export const Unanswered = Schema.Struct({
  sent: Count.annotate({ description: 'They wait for a report or for their deadline.' }),
  expired: Count.annotate({ description: 'No report arrived before the deadline.' }),
  oldest_at: Schema.NullOr(Timestamp).annotate({ description: 'The acceptance of the oldest one.' }),
}).annotate({
  description: `Messages accepted in the last ${UNANSWERED_HOURS} hours that count as sent, although no answer of the SMS operator arrived. The operator may not have them.`,
})
type Unanswered = typeof Unanswered.Type

export const readUnanswered = async (q: Queries): Promise<Unanswered> => {
  const { expired, oldest_at, sent } = await ReadMessages.countUnanswered(q, UNANSWERED_HOURS * 3600)
  return { sent, expired, oldest_at: oldest_at === null ? null : toTimestamp(oldest_at.getTime()) }
}
