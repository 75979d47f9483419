/**
 * What the dispatchers did, read from their log: each message's claims and answers in order, what was known when it was claimed,
 * and when each shard handed over.
 */
import { Fence } from '@hub/actor'
import { epochOf } from '@hub/domain'
import { decodeFact, decodeShardOpened, isFactType } from '@hub/kafka'
import { Result } from 'effect'
import { readTopic } from './read-topic.ts'

export interface HandoverHistory {
  /** Messages that were claimed, by their ids. */
  readonly claimed: ReadonlySet<string>
  /**
   * Claims behind another member's fence: nobody acts on them. A member that was stopped and goes on may write some before it
   * knows better.
   */
  readonly voidClaims: number
  /** Claims that ended without a hand-over: the operator said not now, or the lease was over before anything was written. */
  readonly refused: number
  /** Messages of which no answer was ever written down: they count as sent, and a report may or may not come. */
  readonly unknown: ReadonlySet<string>
  /** Claims of a message whose earlier claim had, or may have had, an outcome other than a refusal: its whole history. Must be none. */
  readonly repeated: ReadonlyArray<string>
  /** When each shard claimed, ms since the epoch, ascending. By the clock of whoever claimed, which is this machine's. */
  readonly claimTimes: ReadonlyMap<number, ReadonlyArray<number>>
  /** How often a shard was opened, or its fence repeated. */
  readonly fences: number
}

interface MessageHistory {
  readonly steps: Array<string>
  /** Claimed, and nothing has been said of it since. */
  claimed: boolean
  /** It was handed over, or may have been. */
  sent: boolean
  /** The operator's own ids are known, or its answer was final. */
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
  /** A produce that was given up and repeated may land twice: it is one claim, of one epoch. */
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
        // Before any hand-over it is the operator's answer; after one, a report.
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
