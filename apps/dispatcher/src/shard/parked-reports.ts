/**
 * Reports that match no message in memory. The submit answer with their id may still be on its way, the message may be long
 * finished and forgotten, or it may be none of ours. They hold the mark of the reports until that is known.
 *
 * A report is nobody's only once the read model has said so, and has come as far in the log as the shard had when the report
 * was read: all that the shard has forgotten lies before that place. While the read model cannot be asked, or is
 * behind, reports wait, and when too many do, no further ones are read.
 */
import { operatorKey, type Report } from './message.ts'

/** A report that waits. */
export interface ParkedReport {
  readonly report: Report
  /** ms since the epoch. */
  readonly since: number
  /** How far in the log the projector must have come for its answer to count. */
  readonly logOffset: number
  askedAt: number
  /** The read model knows of no message that it could change. */
  unknown: boolean
}

/** A report is looked up after this long: its submit answer may be on its way. */
const BEFORE_LOOKUP_MS = 250
const LOOKUP_EVERY_MS = 1000
/** Half a kilobyte each. From here on the oldest makes room where it has been looked up, and otherwise the reports are not read on. */
const MOST = 10_000
/** With some distance to `MOST`, so that the partition is not paused and resumed for each record. */
const ROOM_BELOW = 0.9 * MOST

export class ParkedReports {
  /** By offset, and so in order. */
  readonly #all = new Map<number, ParkedReport>()
  readonly #byKey = new Map<string, Array<ParkedReport>>()

  get size(): number {
    return this.#all.size
  }

  /** No further report must be read: whichever left would be lost. */
  get isFull(): boolean {
    return this.#all.size >= MOST && this.#oldest()?.unknown !== true
  }

  /** There is room enough to read on, once it was full. */
  get hasRoom(): boolean {
    return this.#all.size <= ROOM_BELOW || this.#oldest()?.unknown === true
  }

  get(offset: number): ParkedReport | undefined {
    return this.#all.get(offset)
  }

  /** Adds a report. Answers the oldest, where it has to leave for it: it was looked up, and is nobody's. */
  add(report: Report, now: number, logOffset: number): Report | null {
    const oldest = this.#all.size >= MOST ? this.#oldest() : undefined
    const leaves = oldest?.unknown === true ? oldest : null
    if (leaves !== null) this.remove(leaves)
    const parked: ParkedReport = { report, since: now, logOffset, askedAt: 0, unknown: false }
    this.#all.set(report.offset, parked)
    const key = keyOf(report)
    const same = this.#byKey.get(key)
    if (same === undefined) this.#byKey.set(key, [parked])
    else same.push(parked)
    return leaves?.report ?? null
  }

  remove(parked: ParkedReport): void {
    this.#all.delete(parked.report.offset)
    const key = keyOf(parked.report)
    const rest = (this.#byKey.get(key) ?? []).filter((other) => other !== parked)
    if (rest.length === 0) this.#byKey.delete(key)
    else this.#byKey.set(key, rest)
  }

  /** Takes out what waits under a key (`operatorKey`), in order. */
  take(key: string): ReadonlyArray<Report> {
    const found = this.#byKey.get(key)
    if (found === undefined) return []
    this.#byKey.delete(key)
    for (const { report } of found) this.#all.delete(report.offset)
    return found.map(({ report }) => report)
  }

  /** Those that are due to be looked up, the oldest first; each is due again a second later. */
  due(now: number, limit: number): ReadonlyArray<ParkedReport> {
    const found: Array<ParkedReport> = []
    for (const parked of this.#all.values()) {
      if (found.length === limit) break
      if (now - parked.since < BEFORE_LOOKUP_MS || now - parked.askedAt < LOOKUP_EVERY_MS) continue
      parked.askedAt = now
      found.push(parked)
    }
    return found
  }

  #oldest(): ParkedReport | undefined {
    for (const parked of this.#all.values()) return parked
    return undefined
  }
}

const keyOf = ({ operator, operatorId, recipient }: Report) => operatorKey(operator, operatorId, recipient)
