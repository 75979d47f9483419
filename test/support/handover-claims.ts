/** "Handed over once", read from the log: what the dispatchers claimed, and what they knew when they claimed again. */
import { decodeFact } from '@hub/kafka'
import { Result } from 'effect'
import { readTopic } from './read-topic.ts'

interface Claims {
  /** Messages with a claim. */
  readonly messages: number
  /** Messages claimed again although the first claim's outcome was in the log. Must be none. */
  readonly againThoughKnown: ReadonlyArray<string>
  /** Messages claimed again after a claim without an outcome: somebody was killed in between. */
  readonly againUnknown: number
}

/** Reads the whole log. */
export const readClaims = async (
  brokers: ReadonlyArray<string>,
  topic = 'hub.messages.v1',
): Promise<Claims> => {
  const stories = new Map<string, Array<string>>()
  const seen = new Set<string>()
  for (const record of await readTopic(brokers, topic)) {
    const fact = decodeFact(record)
    if (Result.isFailure(fact) || seen.has(record.id)) continue
    seen.add(record.id)
    const { messageId, type } = fact.success
    const story = stories.get(messageId)
    if (story === undefined) stories.set(messageId, [type])
    else story.push(type)
  }
  const againThoughKnown: Array<string> = []
  let againUnknown = 0
  let messages = 0
  for (const [messageId, story] of stories) {
    const claims = story.flatMap((type, index) => (type === 'HandoverStarted' ? [index] : []))
    if (claims.length > 0) messages += 1
    for (const index of claims.slice(1)) {
      const before = story.slice(0, index)
      const last = before.at(-1)
      if (last === 'HandoverStarted') againUnknown += 1
      else if (last !== 'HandoverRefused') againThoughKnown.push(`${messageId}: ${story.join(' ')}`)
    }
  }
  return { messages, againThoughKnown, againUnknown }
}
