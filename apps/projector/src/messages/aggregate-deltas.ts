/**
 * Deltas of the aggregates over messages (batches, and statistics by day, hour and number range). The contribution of
 * a message is a function of its row alone. A transaction subtracts that of the row before it, and
 * adds that of the row after it. So the aggregates are correct for any interleaving, repetition and
 * batching of facts, and follow late corrections. Pure.
 */
import {
  isFinal,
  type MessageClass,
  minorUnits,
  type Mode,
  moneyOf,
  billedPrice,
  type ReasonCode,
  type Status,
  toTimestamp,
} from '@hub/domain'
import type { MessageRow, Subject } from './row.ts'

/** Numbers of messages by final status. */
interface StatusCounts {
  delivered: number
  undelivered: number
  rejected: number
  expired: number
}

/** What a transaction adds to the counts of a batch. */
export interface BatchDelta extends Readonly<StatusCounts> {
  /** `bat_…` */
  readonly batch: string
  /** `acc_…` */
  readonly account: string
  readonly mode: Mode
  /** Accepted messages that are projected. */
  readonly members: number
  /** Members with a final status. */
  readonly final: number
}

/** What a transaction adds to the counts of a row of statistics. */
export interface StatsCounts extends Readonly<StatusCounts> {
  readonly accepted: number
  readonly sent: number
  readonly parts: number
  /** The final price: a string decimal, negative when a message became free. */
  readonly price: string
}

/** The key of a row of the daily statistics. */
interface DailyKey {
  /** Day of acceptance in UTC, `2026-11-21`. */
  readonly day: string
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  readonly template: string
  readonly currency: string
}
export interface DailyDelta extends DailyKey, StatsCounts {}

/** The key of a row of the hourly statistics. */
interface HourlyKey {
  /** Start of the hour of acceptance, `2026-11-21T10:00:00.000Z`. */
  readonly hour: string
  readonly account: string
  readonly mode: Mode
  /** The reason code now. A message moves to another row when it changes. */
  readonly reason: ReasonCode | null
  readonly currency: string
}
export interface HourlyDelta extends HourlyKey, StatsCounts {}

/** The key of a row of the statistics by number range. */
interface RangeKey extends HourlyKey {
  readonly class: MessageClass
  readonly numberRange: string
}
export interface RangeDelta extends RangeKey, StatsCounts {}

type Sum<Change> = { -readonly [Key in keyof Change]: Change[Key] }
type StatsSum<Key> = Key & Sum<Omit<StatsCounts, 'price'>> & { units: bigint }

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

const ZERO: StatusCounts = { delivered: 0, undelivered: 0, rejected: 0, expired: 0 }
const NOTHING = { accepted: 0, sent: 0, ...ZERO, parts: 0, units: 0n }

const count = (counts: StatusCounts, status: Status, by: 1 | -1): void => {
  if (status !== 'accepted' && status !== 'sent') counts[status] += by
}

/** The sum with a key, which begins if there is none. */
const sumAt = <Sum>(sums: Map<string, Sum>, key: string, start: () => Sum): Sum => {
  let sum = sums.get(key)
  if (sum === undefined) {
    sum = start()
    sums.set(key, sum)
  }
  return sum
}

/** Whether two states contribute the same, as after an attempt or a read receipt. */
const contributesTheSame = (a: MessageRow, b: MessageRow): boolean =>
  a.status === b.status &&
  a.reason === b.reason &&
  a.acceptedByOperator === b.acceptedByOperator &&
  a.subject?.batch === b.subject?.batch

const hasChanged = (counts: StatusCounts): boolean =>
  counts.delivered !== 0 || counts.undelivered !== 0 || counts.rejected !== 0 || counts.expired !== 0

/** The rows that change. */
const changedRows = <Key extends { readonly currency: string }>(
  sums: Iterable<StatsSum<Key>>,
): ReadonlyArray<Key & StatsCounts> =>
  [...sums]
    .filter(
      (sum) => sum.accepted !== 0 || sum.sent !== 0 || sum.parts !== 0 || sum.units !== 0n || hasChanged(sum),
    )
    .map(({ units, ...sum }) => ({ ...sum, price: moneyOf(units, sum.currency).amount }) as Key & StatsCounts)

/** Collects the deltas of one transaction. */
export class AggregateDeltas {
  readonly #batches = new Map<string, Sum<BatchDelta>>()
  readonly #daily = new Map<string, StatsSum<DailyKey>>()
  readonly #hourly = new Map<string, StatsSum<HourlyKey>>()
  readonly #ranges = new Map<string, StatsSum<RangeKey>>()

  /** Adds the change of a row. A row without its acceptance contributes nothing yet. */
  add(before: MessageRow | undefined, after: MessageRow): void {
    if (before?.subject != null) {
      if (contributesTheSame(before, after)) return
      this.#count(before, -1)
    }
    this.#count(after, 1)
  }

  #count(row: MessageRow, by: 1 | -1): void {
    const { reason, status, subject } = row
    if (subject === null) return
    const units = minorUnits(billedPrice(subject.price, status, reason))
    const { numberRange } = subject
    const sums: Array<StatsSum<object>> = [this.#dailyOf(subject), this.#hourlyOf(subject, reason)]
    if (numberRange !== null) sums.push(this.#rangeOf(subject, numberRange, reason))
    for (const sum of sums) {
      sum.accepted += by
      sum.sent += row.acceptedByOperator ? by : 0
      count(sum, status, by)
      sum.parts += by * subject.parts
      sum.units += by === 1 ? units : -units
    }
    this.#addToBatch(row, by)
  }

  #addToBatch({ status, subject }: MessageRow, by: 1 | -1): void {
    if (subject === null || subject.batch === null) return
    const batch = this.#batchOf(subject.batch, subject.account, subject.mode)
    batch.members += by
    count(batch, status, by)
    if (isFinal(status)) batch.final += by
  }

  /** The rows of the daily statistics that change, each once. */
  get daily(): ReadonlyArray<DailyDelta> {
    return changedRows(this.#daily.values())
  }

  /** The rows of the hourly statistics that change, each once. */
  get hourly(): ReadonlyArray<HourlyDelta> {
    return changedRows(this.#hourly.values())
  }

  /** The rows of the statistics by number range that change, each once. */
  get ranges(): ReadonlyArray<RangeDelta> {
    return changedRows(this.#ranges.values())
  }

  /** The batches that change, each once. */
  get batches(): ReadonlyArray<BatchDelta> {
    return [...this.#batches.values()].filter(
      (sum) => sum.members !== 0 || sum.final !== 0 || hasChanged(sum),
    )
  }

  // Every message needs the keys, so day and hour are numbers. Only the last part of a key may contain `\n`.

  #dailyOf(subject: Subject): StatsSum<DailyKey> {
    const { account, class: messageClass, mode, template } = subject
    const { currency } = subject.price
    const key = `${Math.floor(subject.at / DAY_MS)}\n${account}\n${mode}\n${messageClass}\n${currency}\n${template}`
    return sumAt(this.#daily, key, () => {
      const day = toTimestamp(subject.at).slice(0, 10)
      return { day, account, mode, class: messageClass, template, currency, ...NOTHING }
    })
  }

  #hourlyOf(subject: Subject, reason: ReasonCode | null): StatsSum<HourlyKey> {
    const { account, mode } = subject
    const { currency } = subject.price
    const hours = Math.floor(subject.at / HOUR_MS)
    const key = `${hours}\n${account}\n${mode}\n${reason}\n${currency}`
    return sumAt(this.#hourly, key, () => {
      const hour = toTimestamp(hours * HOUR_MS)
      return { hour, account, mode, reason, currency, ...NOTHING }
    })
  }

  #rangeOf(subject: Subject, numberRange: string, reason: ReasonCode | null): StatsSum<RangeKey> {
    const { account, class: messageClass, mode } = subject
    const { currency } = subject.price
    const hours = Math.floor(subject.at / HOUR_MS)
    const key = `${hours}\n${account}\n${mode}\n${messageClass}\n${numberRange}\n${reason}\n${currency}`
    return sumAt(this.#ranges, key, () => {
      const hour = toTimestamp(hours * HOUR_MS)
      return { hour, account, mode, class: messageClass, numberRange, reason, currency, ...NOTHING }
    })
  }

  #batchOf(batch: string, account: string, mode: Mode): Sum<BatchDelta> {
    return sumAt(this.#batches, batch, () => ({ batch, account, mode, members: 0, final: 0, ...ZERO }))
  }
}
