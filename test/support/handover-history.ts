/**
 * Reads from the log what the dispatchers did: handover claims and outcomes of each message,
 * repeated claims, and the claim times of each shard.
 */
import { Fence } from '@hub/actor'
import { epochOf } from '@hub/domain'
import { decodeFact, decodeShardOpened, isFactType } from '@hub/kafka'
import { Result } from 'effect'
import { readTopic } from './read-topic.ts'

export interface HandoverHistory {
  /** Ids of messages with a handover claim. */
  readonly claimed: ReadonlySet<string>
  /**
   * Claims behind the fence of another member. Nobody acts on them. A paused member may append some
   * before it knows that it lost the shard.
   */
  readonly voidClaims: number
  /**
   * Claims that ended without a handover: the operator refused for now, or the lease ended before
   * the submit.
   */
  readonly refused: number
  /**
   * Messages whose submit has no recorded response. They count as sent. A delivery report may or
   * may not follow.
   */
  readonly unknown: ReadonlySet<string>
  /**
   * Messages that were claimed again although an earlier claim had, or may have had, another
   * outcome than a refusal, with all their facts. Must be empty.
   */
  readonly repeated: ReadonlyArray<string>
  /**
   * The claim times of each shard in ms since the epoch, ascending. All processes use the clock of
   * this machine.
   */
  readonly claimTimes: ReadonlyMap<number, ReadonlyArray<number>>
  /** The number of fences, repeated ones included. */
  readonly fences: number
}

interface MessageHistory {
  readonly steps: Array<string>
  /** The last fact is a claim. */
  claimed: boolean
  /** The message was handed over, or may have been. */
  sent: boolean
  /** The ids of the operator are known, or its response was final. */
  answered: boolean
}

const LOG = 'hub.messages.v1'

export const readHandoverHistory = async (
  brokers: ReadonlyArray<string>,
  withinMs?: number,
): Promise<HandoverHistory> => {
  const fences = new Map<number, Fence>()
  const histories = new Map<string, MessageHistory>()
  const claimTimes = new Map<number, Array<number>>()
  /** A repeated produce may append a record twice. Both are one claim of one epoch. */
  const seen = new Set<string>()
  const repeated = new Set<string>()
  let voidClaims = 0
  let refused = 0
  let opened = 0
  for (const record of await readTopic(brokers, LOG, withinMs)) {
    const { offset, partition } = record
    let fence = fences.get(partition)
    if (fence === undefined) fences.set(partition, (fence = new Fence()))
    if (record.type === 'ShardOpened') {
      fence.observe(offset, Result.getOrThrow(decodeShardOpened(record)))
      opened++
      continue
    }
    if (!isFactType(record.type)) continue
    const fact = Result.getOrThrow(decodeFact(record))
    const epoch = epochOf(fact)
    if (epoch !== null && fence.isVoid(epoch)) {
      if (fact.type === 'HandoverStarted') voidClaims++
      continue
    }
    const key = `${record.id}:${epoch}`
    if (seen.has(key)) continue
    seen.add(key)
    const { messageId } = fact
    let history = histories.get(messageId)
    if (history === undefined) {
      history = { steps: [], claimed: false, sent: false, answered: false }
      histories.set(messageId, history)
    }
    history.steps.push(`${fact.type}${epoch === null ? '' : ` (${epoch})`}`)
    switch (fact.type) {
      case 'HandoverStarted': {
        if (history.claimed || history.sent) repeated.add(messageId)
        history.claimed = true
        const times = claimTimes.get(partition)
        if (times === undefined) claimTimes.set(partition, [fact.at])
        else times.push(fact.at)
        break
      }
      case 'HandoverRefused':
        history.claimed = false
        refused++
        break
      case 'MessageSent':
      case 'OpenMessageCarried':
        history.sent = true
        history.answered ||= fact.operatorIds.length > 0
        break
      case 'MessageRejected':
        // Before a handover the operator rejected the submit. After one, a delivery report says so.
        history.answered ||= !history.sent
        history.sent = true
        break
      case 'MessageDelivered':
      case 'MessageUndelivered':
      case 'MessageExpired':
      case 'MessageSeen':
        history.sent = true
        break
      case 'MessageAccepted':
    }
  }
  const claimed = new Set<string>()
  const unknown = new Set<string>()
  for (const [messageId, { answered, sent, steps }] of histories) {
    if (!steps.some((step) => step.startsWith('HandoverStarted'))) continue
    claimed.add(messageId)
    if (sent && !answered) unknown.add(messageId)
  }
  return {
    claimed,
    voidClaims,
    refused,
    unknown,
    repeated: [...repeated].map((messageId) => `${messageId}: ${histories.get(messageId)!.steps.join(', ')}`),
    claimTimes: new Map([...claimTimes].map(([shard, times]) => [shard, times.toSorted((a, b) => a - b)])),
    fences: opened,
  }
}
