/** Counts handover claims in the log, to check that each message is handed over once. */
import { decodeFact } from '@hub/kafka'
import { Result } from 'effect'
import { readTopic } from './read-topic.ts'

interface HandoverClaims {
  /** The number of messages with at least one handover claim. */
  readonly messages: number
  /**
   * Messages claimed again although the log already contained the outcome of the first claim. Must
   * be empty.
   */
  readonly repeatedAfterOutcome: ReadonlyArray<string>
  /** Messages claimed again after a claim without an outcome, as after a kill between both. */
  readonly repeatedWithoutOutcome: number
}

/** Reads the whole log. */
export const readHandoverClaims = async (
  brokers: ReadonlyArray<string>,
  topic = 'hub.messages.v1',
): Promise<HandoverClaims> => {
  const factsByMessage = new Map<string, Array<string>>()
  const seen = new Set<string>()
  for (const record of await readTopic(brokers, topic)) {
    const fact = decodeFact(record)
    if (Result.isFailure(fact) || seen.has(record.id)) continue
    seen.add(record.id)
    const { messageId, type } = fact.success
    const facts = factsByMessage.get(messageId)
    if (facts === undefined) factsByMessage.set(messageId, [type])
    else facts.push(type)
  }
  const repeatedAfterOutcome: Array<string> = []
  let repeatedWithoutOutcome = 0
  let messages = 0
  for (const [messageId, facts] of factsByMessage) {
    const claims = facts.flatMap((type, index) => (type === 'HandoverStarted' ? [index] : []))
    if (claims.length > 0) messages += 1
    for (const index of claims.slice(1)) {
      const before = facts.slice(0, index)
      const last = before.at(-1)
      if (last === 'HandoverStarted') repeatedWithoutOutcome += 1
      else if (last !== 'HandoverRefused') repeatedAfterOutcome.push(`${messageId}: ${facts.join(' ')}`)
    }
  }
  return { messages, repeatedAfterOutcome, repeatedWithoutOutcome }
}
