/**
 * For tests without I/O: histories of messages, streams of their facts, and a model of the tables.
 */
import { encodeId, type LogFact, type MessageAccepted, type MessageFact } from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import fc from 'fast-check'
import { type Changes, type Charge, fold, derivedColumns } from '../messages/fold.ts'
import type { MessageRow } from '../messages/row.ts'
import { assignSequences } from '../events/journal.ts'
import type { BatchDelta, DailyDelta, HourlyDelta, RangeDelta } from '../messages/aggregate-deltas.ts'

export const idOf = (n: number) =>
  encodeId('msg', `0193a1b2-0000-7000-8000-${n.toString(16).padStart(12, '0')}`)
export const account = encodeId('acc', '0193a1b2-0000-7000-8000-00000000acc0')
export const T = Date.UTC(2026, 10, 21)

export const acceptedOf = (
  messageId: string,
  at = T,
  fields: Partial<MessageAccepted> = {},
): MessageAccepted =>
  messageAccepted({
    messageId,
    at,
    account,
    recipient: 'ab'.repeat(32),
    clientRef: 'order-1',
    parts: 2,
    price: { amount: '4.00', currency: 'RUB' },
    expiresAt: T + 86_400_000,
    ...fields,
  })

/** A model of the tables, to which batches are applied one after the other. */
export const makeModel = () => {
  const rows = new Map<string, MessageRow>()
  const operatorIds = new Set<string>()
  /** Aggregates, by row of the statistics or by batch, then by field. */
  const sums = new Map<string, Map<string, bigint>>()
  const charges: Array<Charge> = []
  const add = (line: string, { ...fields }: Readonly<Record<string, unknown>>) => {
    const sum = sums.get(line) ?? new Map<string, bigint>()
    sums.set(line, sum)
    for (const [field, value] of Object.entries(fields)) {
      const by = field === 'price' ? BigInt(String(value).replace('.', '')) : value
      if (typeof by === 'number' || typeof by === 'bigint')
        sum.set(field, (sum.get(field) ?? 0n) + BigInt(by))
    }
  }
  const dailyLine = (of: DailyDelta) =>
    [of.day, of.account, of.mode, of.class, of.template, of.currency].join(' ')
  const hourlyLine = (of: HourlyDelta) =>
    [of.hour, of.account, of.mode, of.reason ?? 'none', of.currency].join(' ')
  const rangeLine = (of: RangeDelta) =>
    [of.hour, of.account, of.mode, of.class, of.numberRange, of.reason ?? 'none', of.currency].join(' ')
  const batchLine = (of: Pick<BatchDelta, 'batch' | 'account' | 'mode'>) =>
    [of.batch, of.account, of.mode].join(' ')
  const journal: Array<{ readonly id: string; readonly sequence: number; readonly body: string }> = []
  return {
    rows,
    operatorIds,
    journal,
    sums,
    charges,
    apply: (facts: ReadonlyArray<MessageFact>): Changes => {
      const changes = fold(rows, facts)
      for (const row of [...changes.accepted.map((a) => a.row), ...changes.updated, ...changes.unaccepted]) {
        rows.set(row.messageId, row)
      }
      for (const { messageId, operator, operatorId } of changes.operatorIds) {
        operatorIds.add(`${operator} ${operatorId} ${messageId}`)
      }
      for (const change of changes.dailyStats) add(dailyLine(change), { ...change })
      for (const change of changes.hourlyStats) add(hourlyLine(change), { ...change })
      for (const change of changes.rangeStats) add(rangeLine(change), { ...change })
      for (const change of changes.batches) add(batchLine(change), { ...change })
      charges.push(...changes.charges)
      const { events } = assignSequences(
        changes.events,
        [{ account, mode: 'live', sequence: journal.length, recordedAt: T, subscribed: true }],
        new Set(journal.map((event) => event.id)),
      )
      journal.push(...events)
      return changes
    },
    /** The content without sequence numbers, which depend on the order of arrival. */
    content: () => ({
      rows: [...rows.values()]
        .map((row) => ({ ...row, ...derivedColumns(row) }))
        .sort((a, b) => (a.messageId < b.messageId ? -1 : 1)),
      operatorIds: [...operatorIds].sort(),
      events: journal.map(({ body }) => body).sort(),
      // A line of statistics by hour that counts no message equals a missing one.
      sums: Object.fromEntries(
        [...sums]
          .map(([line, fields]) => [line, Object.fromEntries(fields)] as const)
          .filter(([, fields]) => Object.values(fields).some((value) => value !== 0n)),
      ),
      charges: charges.toSorted((a, b) => (a.messageId + a.kind < b.messageId + b.kind ? -1 : 1)),
    }),
  }
}

export const run = (batches: ReadonlyArray<ReadonlyArray<MessageFact>>) => {
  const model = makeModel()
  for (const batch of batches) model.apply(batch)
  return model
}

/** The facts of a message in the log, in order. */
export const messageHistoryArbitrary = (messageId: string): fc.Arbitrary<ReadonlyArray<LogFact>> =>
  fc
    .record({
      refusals: fc.integer({ min: 0, max: 2 }),
      /** Nothing was submitted after the refused claims. */
      held: fc.boolean(),
      carried: fc.boolean(),
      end: fc.constantFrom(
        'queued',
        'sent',
        'delivered',
        'undelivered',
        'rejected at hand-over',
        'rejected by report',
        'operator gave up',
        'silent',
        'silent, then delivered',
        'silent, then undelivered',
        'never submitted',
        'seen',
      ),
    })
    .map(({ carried, end, held, refusals }) => {
      let at = T
      const next = () => (at += 10)
      const facts: Array<LogFact> = []
      for (let attempt = 1; attempt <= refusals; attempt++) {
        facts.push({
          type: 'HandoverStarted',
          messageId,
          at: next(),
          epoch: 1,
          attempt,
          operator: 'http',
          unsubmitted: held ? attempt - 1 : null,
        })
        facts.push({
          type: 'HandoverRefused',
          messageId,
          at: next(),
          attempt,
          retryAt: at + 5,
          unsubmitted: held ? attempt : null,
        })
      }
      if (end === 'queued') return facts
      if (end === 'never submitted') {
        return [
          ...facts,
          { type: 'MessageExpired', messageId, at: next(), reason: 'ttl_expired_before_submit' },
        ]
      }
      facts.push({
        type: 'HandoverStarted',
        messageId,
        at: next(),
        epoch: 1,
        attempt: refusals + 1,
        operator: 'http',
        unsubmitted: held ? refusals : null,
      })
      if (end === 'rejected at hand-over') {
        return [...facts, { type: 'MessageRejected', messageId, at: next(), reason: 'spam_filter_content' }]
      }
      facts.push({
        type: 'MessageSent',
        messageId,
        at: next(),
        operator: 'http',
        operatorIds: [`${messageId}-1`, `${messageId}-2`],
        reportDeadline: at + 100,
      })
      if (carried) {
        facts.push({
          type: 'OpenMessageCarried',
          messageId,
          at: next(),
          operator: 'http',
          operatorIds: [`${messageId}-1`, `${messageId}-2`],
          class: 'service',
          attempts: refusals + 1,
          sentAt: T,
          reportDeadline: at + 100,
        })
      }
      switch (end) {
        case 'sent':
          break
        case 'undelivered':
          facts.push({ type: 'MessageUndelivered', messageId, at: next(), reason: 'recipient_blocked' })
          break
        case 'rejected by report':
          facts.push({ type: 'MessageRejected', messageId, at: next(), reason: 'spam_filter_sender' })
          break
        case 'operator gave up':
          facts.push({ type: 'MessageExpired', messageId, at: next(), reason: 'dlr_timeout' })
          break
        case 'delivered':
          facts.push({ type: 'MessageDelivered', messageId, at: next() })
          break
        case 'seen':
          facts.push({ type: 'MessageDelivered', messageId, at: next() })
          facts.push({ type: 'MessageSeen', messageId, at: next() })
          break
        default:
          facts.push({ type: 'MessageExpired', messageId, at: next(), reason: 'dlr_timeout_local' })
          if (end === 'silent, then delivered')
            facts.push({ type: 'MessageDelivered', messageId, at: next() })
          if (end === 'silent, then undelivered') {
            facts.push({ type: 'MessageUndelivered', messageId, at: next(), reason: 'delivery_failed' })
          }
      }
      return facts
    })

/** Repeats facts after their first occurrence. A repetition may have a later time. */
export const withRepeats = <F extends MessageFact>(
  facts: ReadonlyArray<F>,
  repeats: ReadonlyArray<readonly [number, number]>,
) => {
  const out = [...facts]
  for (const [which, distance] of repeats) {
    if (out.length === 0) break
    const from = which % out.length
    const fact = out[from]
    if (fact !== undefined)
      out.splice(Math.min(out.length, from + 1 + distance), 0, { ...fact, at: fact.at + 1 })
  }
  return out
}

/** Merges two ordered streams as `choices` says, and divides the result into batches. */
export const interleave = (
  lane: ReadonlyArray<MessageFact>,
  log: ReadonlyArray<MessageFact>,
  choices: ReadonlyArray<readonly [boolean, boolean]>,
) => {
  const batches: Array<Array<MessageFact>> = [[]]
  let [l, g] = [0, 0]
  for (let i = 0; l < lane.length || g < log.length; i++) {
    const [fromLane, cut] = choices[i % choices.length] ?? [true, false]
    const fact = (fromLane && l < lane.length) || g >= log.length ? lane[l++] : log[g++]
    if (fact !== undefined) batches.at(-1)?.push(fact)
    if (cut) batches.push([])
  }
  return batches
}

const repeatsArbitrary = fc.array(fc.tuple(fc.nat(50), fc.nat(20)), { maxLength: 8 })
export const streamsArbitrary = fc.record({
  histories: fc.tuple(
    messageHistoryArbitrary(idOf(1)),
    messageHistoryArbitrary(idOf(2)),
    messageHistoryArbitrary(idOf(3)),
  ),
  mix: fc.array(fc.nat(2), { minLength: 1, maxLength: 12 }),
  laneRepeats: repeatsArbitrary,
  logRepeats: repeatsArbitrary,
  choices: fc.array(fc.tuple(fc.boolean(), fc.boolean()), { minLength: 1, maxLength: 30 }),
})

/** Mixes the histories of several messages into one log, each in its order. */
export const mixHistories = (
  histories: ReadonlyArray<ReadonlyArray<LogFact>>,
  mix: ReadonlyArray<number>,
) => {
  const rest = histories.map((history) => [...history])
  const log: Array<LogFact> = []
  for (let i = 0; rest.some((history) => history.length > 0); i++) {
    const wanted = rest[mix[i % mix.length] ?? 0]
    const history =
      wanted !== undefined && wanted.length > 0 ? wanted : rest.find((other) => other.length > 0)
    const fact = history?.shift()
    if (fact !== undefined) log.push(fact)
  }
  return log
}
