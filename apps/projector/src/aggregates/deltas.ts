/**
 * Deltas of the aggregates over messages (batches, daily statistics). The contribution of a message
 * is a function of its row alone. A transaction adds the difference between the rows before and
 * after it. So the aggregates are correct for any interleaving, repetition and batching of facts,
 * and follow late corrections. Pure.
 */
import {
  isFinal,
  type MessageClass,
  minorUnits,
  type Mode,
  moneyOf,
  billedPrice,
  type Status,
  toTimestamp,
} from '@hub/domain'
import type { MessageRow } from '../messages/row.ts'

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

/** What a transaction adds to a row of the daily statistics. */
export interface StatsDelta extends Readonly<StatusCounts> {
  /** Day of acceptance in UTC, `2026-11-21`. */
  readonly day: string
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  readonly template: string
  readonly currency: string
  readonly accepted: number
  readonly sent: number
  readonly parts: number
  /** The final price: a string decimal, negative when a message became free. */
  readonly price: string
}

type Sum<Change> = { -readonly [Key in keyof Change]: Change[Key] }
type StatsSum = Sum<Omit<StatsDelta, 'price'>> & { units: bigint }

const DAY_MS = 86_400_000

const ZERO: StatusCounts = { delivered: 0, undelivered: 0, rejected: 0, expired: 0 }

const count = (counts: StatusCounts, status: Status, by: 1 | -1): void => {
  if (status !== 'accepted' && status !== 'sent') counts[status] += by
}

/** Whether two states contribute the same, as after an attempt or a read receipt. */
const contributesTheSame = (a: MessageRow, b: MessageRow): boolean =>
  a.status === b.status &&
  a.reason === b.reason &&
  a.handedOver === b.handedOver &&
  a.subject?.batch === b.subject?.batch

const unitsOf = (row: MessageRow): bigint =>
  row.subject === null ? 0n : minorUnits(billedPrice(row.subject.price, row.status, row.reason))

const hasChanged = (counts: StatusCounts): boolean =>
  counts.delivered !== 0 || counts.undelivered !== 0 || counts.rejected !== 0 || counts.expired !== 0

/** Collects the deltas of one transaction. */
export class AggregateDeltas {
  readonly #batches = new Map<string, Sum<BatchDelta>>()
  readonly #stats = new Map<string, StatsSum>()

  /** Adds the change of a row. A row without its acceptance contributes nothing yet. */
  add(before: MessageRow | undefined, after: MessageRow): void {
    const { subject } = after
    if (subject === null) return
    const previous = before?.subject == null ? null : before
    if (previous !== null && contributesTheSame(previous, after)) return

    const sum = this.#statsOf(subject)
    if (previous === null) {
      sum.accepted += 1
      sum.parts += subject.parts
    } else {
      count(sum, previous.status, -1)
    }
    count(sum, after.status, 1)
    sum.sent += Number(after.handedOver) - Number(previous?.handedOver ?? false)
    sum.units += unitsOf(after) - (previous === null ? 0n : unitsOf(previous))

    // Removes it from its previous batch and adds it to its current one, usually the same.
    if (previous !== null) this.#addToBatch(previous, -1)
    this.#addToBatch(after, 1)
  }

  #addToBatch({ status, subject }: MessageRow, by: 1 | -1): void {
    if (subject === null || subject.batch === null) return
    const batch = this.#batchOf(subject.batch, subject.account, subject.mode)
    batch.members += by
    count(batch, status, by)
    if (isFinal(status)) batch.final += by
  }

  /** The rows that change, each once. */
  get stats(): ReadonlyArray<StatsDelta> {
    return [...this.#stats.values()]
      .filter((sum) => sum.accepted !== 0 || sum.sent !== 0 || sum.units !== 0n || hasChanged(sum))
      .map(({ units, ...sum }) => ({ ...sum, price: moneyOf(units, sum.currency).amount }))
  }

  /** The batches that change, each once. */
  get batches(): ReadonlyArray<BatchDelta> {
    return [...this.#batches.values()].filter(
      (sum) => sum.members !== 0 || sum.final !== 0 || hasChanged(sum),
    )
  }

  #statsOf(subject: NonNullable<MessageRow['subject']>): StatsSum {
    const { account, class: messageClass, mode, template } = subject
    const { currency } = subject.price
    // Every message needs the key, so the day is a number. Only the last part may contain `\n`.
    const key = `${Math.floor(subject.at / DAY_MS)}\n${account}\n${mode}\n${messageClass}\n${currency}\n${template}`
    let sum = this.#stats.get(key)
    if (sum === undefined) {
      sum = {
        day: toTimestamp(subject.at).slice(0, 10),
        account,
        mode,
        class: messageClass,
        template,
        currency,
        accepted: 0,
        sent: 0,
        ...ZERO,
        parts: 0,
        units: 0n,
      }
      this.#stats.set(key, sum)
    }
    return sum
  }

  #batchOf(batch: string, account: string, mode: Mode): Sum<BatchDelta> {
    let sum = this.#batches.get(batch)
    if (sum === undefined) {
      sum = { batch, account, mode, members: 0, final: 0, ...ZERO }
      this.#batches.set(batch, sum)
    }
    return sum
  }
}
