/**
 * What the projectors read: accepted messages in the lanes and their facts in the log, as
 * command-api and dispatchers write them. Records are repeated, and facts of earlier owners of a
 * shard come behind the fence of a later one.
 */
import {
  eventIdOf,
  type LogFact,
  type MessageAccepted,
  newId,
  numberRangeOf,
  recipientHash,
  REJECTED_REASONS,
  UNDELIVERED_REASONS,
  withEpoch,
} from '@hub/domain'
import {
  acceptedRecord,
  batchSealedRecord,
  logRecord,
  openMessagesCarriedRecord,
  type OutgoingRecord,
  shardOpenedRecord,
  topicNames,
} from '@hub/kafka'
import type { JournalEntry, JournalKey } from '@hub/projector'
import { encodePayload } from '@hub/store'
import { randomBytes, randomUUID } from 'node:crypto'
import { HASH_SECRET } from '../dispatching/dispatchers.ts'
import { messageKey } from '../dispatching/stores.ts'
import type { SeededRandom } from '../world/random.ts'
import type { Simulation } from '../world/simulation.ts'
import { REJECTED_TEMPLATE, unreadable } from './poison.ts'

const OPERATOR = 'smpp'
const DEADLINE_MS = 60_000
/** Between two facts of a message. */
const PAUSES_MS = [0, 5, 100, 1000, 4000]

/** The facts of a message in their order, without epochs. */
const historyOf = (random: SeededRandom, messageId: string, parts: number): ReadonlyArray<LogFact> => {
  const at = 0
  const facts: Array<LogFact> = []
  const claim = (attempt: number, unsubmitted: number) =>
    facts.push({
      type: 'HandoverStarted',
      messageId,
      at,
      epoch: 0,
      attempt,
      operator: OPERATOR,
      unsubmitted: unsubmitted === 0 ? null : unsubmitted,
    })
  const refusals = random.pick([0, 0, 0, 1, 2])
  let unsubmitted = 0
  for (let attempt = 1; attempt <= refusals; attempt++) {
    claim(attempt, unsubmitted)
    if (random.chance(0.3)) unsubmitted++
    facts.push({ type: 'HandoverRefused', messageId, at, attempt, retryAt: DEADLINE_MS, unsubmitted })
  }
  if (random.chance(0.1)) {
    return [...facts, { type: 'MessageExpired', messageId, at, reason: 'ttl_expired_before_submit' }]
  }
  claim(refusals + 1, unsubmitted)
  if (random.chance(0.15)) {
    return [...facts, { type: 'MessageRejected', messageId, at, reason: random.pick(REJECTED_REASONS) }]
  }
  const operatorIds = random.chance(0.1)
    ? []
    : Array.from({ length: parts }, (_, part) => `${messageId}-${part}`)
  facts.push({
    type: 'MessageSent',
    messageId,
    at,
    operator: OPERATOR,
    operatorIds,
    reportDeadline: DEADLINE_MS,
  })
  const reports: ReadonlyArray<ReadonlyArray<LogFact>> = [
    [{ type: 'MessageDelivered', messageId, at }],
    [
      { type: 'MessageDelivered', messageId, at },
      { type: 'MessageSeen', messageId, at },
    ],
    [{ type: 'MessageUndelivered', messageId, at, reason: random.pick(UNDELIVERED_REASONS) }],
    [{ type: 'MessageExpired', messageId, at, reason: 'dlr_timeout' }],
    // The operator corrects a report: the first one stays.
    [
      { type: 'MessageUndelivered', messageId, at, reason: 'recipient_unreachable' },
      { type: 'MessageDelivered', messageId, at },
    ],
    [{ type: 'MessageExpired', messageId, at, reason: 'dlr_timeout_local' }],
    [
      { type: 'MessageExpired', messageId, at, reason: 'dlr_timeout_local' },
      { type: 'MessageDelivered', messageId, at },
    ],
    [
      { type: 'MessageExpired', messageId, at, reason: 'dlr_timeout_local' },
      { type: 'MessageUndelivered', messageId, at, reason: 'delivery_failed' },
    ],
    [],
  ]
  return [...facts, ...random.pick(reports)]
}

interface WorkloadOptions {
  readonly accounts: ReadonlyArray<string>
  /** The number of messages. */
  readonly count: number
  /** Messages are accepted within this time. Their facts follow. */
  readonly withinMs: number
  /** command-api charges an accepted message. */
  readonly onAccepted: (fact: MessageAccepted) => void
  /** Some event that does not come from a message. */
  readonly onEntries: (entries: ReadonlyArray<JournalEntry>) => void
}

/** Writes lanes and log. Returns what is still to come. */
export const startWorkload = (
  { broker, world, ...simulation }: Simulation,
  { accounts, count, onAccepted, onEntries, withinMs }: WorkloadOptions,
) => {
  const random = simulation.random('workload')
  const topics = topicNames()
  const epochs = Array.from({ length: broker.partitions }, () => 1)
  let pending = 0
  const later = (ms: number, act: () => void) => {
    pending++
    world.after(ms, () => {
      pending--
      act()
    })
  }
  const hasPoison = random.chance(0.25)
  /** An append that was not acknowledged is repeated. */
  const append = (record: OutgoingRecord) => {
    world.note('writer', () => `appends ${record.type} ${record.id}`)
    if (hasPoison && random.chance(0.03)) broker.append([unreadable(record, randomUUID())])
    broker.append([record])
    if (random.chance(0.1)) later(random.between(0, 3000), () => broker.append([record]))
  }

  const appendFacts = (accepted: MessageAccepted, facts: ReadonlyArray<LogFact>) => {
    const [fact, ...rest] = facts
    if (fact === undefined) return
    later(random.between(0, random.pick(PAUSES_MS)), () => {
      const at = world.now()
      const { recipient } = accepted
      const shard = broker.partitionOf(logRecord(topics, { ...fact, at }, recipient))
      const epoch = epochs[shard] ?? 1
      const recordOf = (of: LogFact, by: number) =>
        logRecord(
          topics,
          withEpoch(of.type === 'HandoverStarted' ? { ...of, at, epoch: by } : { ...of, at }, by),
          recipient,
        )
      if (epoch > 1 && random.chance(0.15)) {
        // A zombie claims the message again, or lets it expire.
        const zombie: LogFact = random.chance(0.5)
          ? { type: 'HandoverStarted', messageId: fact.messageId, at, epoch, attempt: 9, operator: OPERATOR }
          : { type: 'MessageExpired', messageId: fact.messageId, at, reason: 'ttl_expired_before_submit' }
        append(recordOf(zombie, epoch - 1))
      }
      append(recordOf(fact, epoch))
      if (fact.type === 'MessageSent' && random.chance(0.2)) {
        append(
          openMessagesCarriedRecord(topics, {
            type: 'OpenMessagesCarried',
            shard,
            at,
            messages: [
              {
                messageId: fact.messageId,
                attempts: 1,
                class: accepted.class,
                recipient: accepted.recipient,
                traceparent: null,
                operator: OPERATOR,
                operatorIds: fact.operatorIds,
                reportDeadline: DEADLINE_MS,
                sentAt: at,
              },
            ],
          }),
        )
      }
      appendFacts(accepted, rest)
    })
  }

  const numbers = Array.from({ length: random.between(1, 8) }, (_, i) => `+7900123456${i}`)
  const accept = ({ account, mode }: JournalKey, batch: string | null): MessageAccepted => {
    const at = world.now()
    const messageClass = random.pick(['otp', 'service'] as const)
    const to = random.pick(numbers)
    const messageId = newId('msg', at, randomBytes(10))
    const key = messageKey(messageClass, at)
    const isRejected = hasPoison && random.chance(0.1)
    const fact: MessageAccepted = {
      type: 'MessageAccepted',
      messageId,
      at,
      account,
      mode,
      class: messageClass,
      recipient: recipientHash(HASH_SECRET, to),
      template: isRejected ? REJECTED_TEMPLATE : random.pick(['code', 'order']),
      sender: 'HUB',
      clientRef: null,
      batch,
      parts: random.pick([1, 1, 2]),
      price: { amount: mode === 'test' ? '0.00' : '1.50', currency: 'RUB' },
      variables: [],
      expiresAt: at + DEADLINE_MS,
      payloadKey: key.id,
      ciphertext: key.encrypt(messageId, encodePayload({ to, text: 'Code 1234', variables: {} })),
      republished: false,
      // Older versions did not record it.
      numberRange: random.chance(0.1) ? null : numberRangeOf(to),
    }
    if (!isRejected) onAccepted(fact)
    append(acceptedRecord(topics, fact))
    if (random.chance(0.1)) {
      const again = random.between(1000, 8000)
      later(again, () => append(acceptedRecord(topics, { ...fact, at: at + again, republished: true })))
    }
    appendFacts(fact, historyOf(random, messageId, fact.parts))
    return fact
  }

  const journals = accounts.flatMap((account): ReadonlyArray<JournalKey> => [
    { account, mode: 'live' },
    { account, mode: 'live' },
    { account, mode: 'test' },
  ])
  for (let left = count; left > 0;) {
    const size = random.chance(0.25) ? Math.min(left, random.between(2, 6)) : 1
    left -= size
    const owner = random.pick(journals)
    later(random.between(0, withinMs), () => {
      if (size === 1) return void accept(owner, null)
      const createdAt = world.now()
      const batch = newId('bat', createdAt, randomBytes(10))
      for (let i = 0; i < size; i++) accept(owner, batch)
      later(random.between(0, random.pick([10, 6000])), () => {
        const [duplicate, rejected] = [random.below(2), random.below(2)]
        append(
          batchSealedRecord(topics, {
            type: 'BatchSealed',
            batch,
            ...owner,
            total: size + duplicate + rejected,
            accepted: size,
            duplicate,
            rejected,
            createdAt,
            at: world.now(),
          }),
        )
      })
    })
  }
  for (let i = 0; i < random.pick([0, 1, 3]); i++) {
    later(random.between(0, withinMs), () => {
      const shard = random.below(broker.partitions)
      epochs[shard] = (epochs[shard] ?? 1) + 1
      const [epoch, at] = [epochs[shard], world.now()]
      append(shardOpenedRecord(topics, { type: 'ShardOpened', shard, at, epoch, member: `member-${epoch}` }))
    })
  }
  for (let i = 0; i < random.pick([0, 2, 5]); i++) {
    const { account, mode } = random.pick(journals)
    const type = 'template.approved'
    const entry: JournalEntry = {
      account,
      mode,
      event: { id: eventIdOf(`template ${i}`, type), type, object: {} },
    }
    later(random.between(0, withinMs), () => onEntries([entry]))
    // The same event, by another way.
    if (random.chance(0.3)) later(random.between(0, withinMs), () => onEntries([entry]))
  }
  return { isOver: () => pending === 0 }
}
