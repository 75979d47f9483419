/**
 * Sums over messages. What a message adds to them is a function of its row alone, and a poll adds the difference between
 * its rows as they were and as they are: so the sums are right however facts are interleaved, repeated or cut
 * into polls, and move with a late correction. Pure.
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

/** Messages by the final status that they have. */
interface StatusCounts {
  delivered: number
  undelivered: number
  rejected: number
  expired: number
}

/** By how much a poll moves the counts of a batch. */
export interface BatchChange extends Readonly<StatusCounts> {
  /** `bat_…` */
  readonly batch: string
  /** `acc_…` */
  readonly account: string
  readonly mode: Mode
  /** Accepted messages that have been projected. */
  readonly members: number
  /** Those of them that are final. */
  readonly final: number
}

/** By how much a poll moves a line of the daily statistics. */
export interface StatsChange extends Readonly<StatusCounts> {
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
  /** As charged in the end: a string decimal, negative where something became free. */
  readonly price: string
}

type Sum<Change> = { -readonly [Key in keyof Change]: Change[Key] }
type StatsSum = Sum<Omit<StatsChange, 'price'>> & { units: bigint }

const DAY_MS = 86_400_000

const NOTHING: StatusCounts = { delivered: 0, undelivered: 0, rejected: 0, expired: 0 }

const count = (counts: StatusCounts, status: Status, by: 1 | -1): void => {
  if (status !== 'accepted' && status !== 'sent') counts[status] += by
}

/** Most changes of a row: an attempt, a read receipt. */
const addsTheSame = (a: MessageRow, b: MessageRow): boolean =>
  a.status === b.status &&
  a.reason === b.reason &&
  a.handedOver === b.handedOver &&
  a.subject?.batch === b.subject?.batch

const unitsOf = (row: MessageRow): bigint =>
  row.subject === null ? 0n : minorUnits(billedPrice(row.subject.price, row.status, row.reason))

const moved = (counts: StatusCounts): boolean =>
  counts.delivered !== 0 || counts.undelivered !== 0 || counts.rejected !== 0 || counts.expired !== 0

/** Collects what the rows of a poll add. */
export class Tally {
  readonly #batches = new Map<string, Sum<BatchChange>>()
  readonly #stats = new Map<string, StatsSum>()

  /** A row as it was, where it was there, and as it is. A row without its acceptance adds nothing yet. */
  add(before: MessageRow | undefined, after: MessageRow): void {
    const { subject } = after
    if (subject === null) return
    const known = before?.subject == null ? null : before
    if (known !== null && addsTheSame(known, after)) return

    const sum = this.#statsOf(subject)
    if (known === null) {
      sum.accepted += 1
      sum.parts += subject.parts
    } else {
      count(sum, known.status, -1)
    }
    count(sum, after.status, 1)
    sum.sent += Number(after.handedOver) - Number(known?.handedOver ?? false)
    sum.units += unitsOf(after) - (known === null ? 0n : unitsOf(known))

    // Out of the batch that it was in, into the one that it is in: the same one, as a rule.
    if (known !== null) this.#addToBatch(known, -1)
    this.#addToBatch(after, 1)
  }

  #addToBatch({ status, subject }: MessageRow, by: 1 | -1): void {
    if (subject === null || subject.batch === null) return
    const batch = this.#batchOf(subject.batch, subject.account, subject.mode)
    batch.members += by
    count(batch, status, by)
    if (isFinal(status)) batch.final += by
  }

  /** Lines that move, each once. */
  get stats(): ReadonlyArray<StatsChange> {
    return [...this.#stats.values()]
      .filter((sum) => sum.accepted !== 0 || sum.sent !== 0 || sum.units !== 0n || moved(sum))
      .map(({ units, ...sum }) => ({ ...sum, price: moneyOf(units, sum.currency).amount }))
  }

  /** Batches that move, each once. */
  get batches(): ReadonlyArray<BatchChange> {
    return [...this.#batches.values()].filter((sum) => sum.members !== 0 || sum.final !== 0 || moved(sum))
  }

  #statsOf(subject: NonNullable<MessageRow['subject']>): StatsSum {
    const { account, class: messageClass, mode, template } = subject
    const { currency } = subject.price
    // Days are counted for the key, which is made for every message, and named once a line. No part but the last can
    // hold a line feed.
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
        ...NOTHING,
        parts: 0,
        units: 0n,
      }
      this.#stats.set(key, sum)
    }
    return sum
  }

  #batchOf(batch: string, account: string, mode: Mode): Sum<BatchChange> {
    let sum = this.#batches.get(batch)
    if (sum === undefined) {
      sum = { batch, account, mode, members: 0, final: 0, ...NOTHING }
      this.#batches.set(batch, sum)
    }
    return sum
  }
}
