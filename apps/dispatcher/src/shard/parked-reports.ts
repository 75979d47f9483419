/**
 * Reports that match no message in memory: the submit answer with their id is in progress, the
 * message is final and forgotten, or it is not ours. They pin their offsets. The shard drops one
 * only if a read model that has reached the log position of that time does not know it.
 */
import { operatorKey, type DeliveryReport } from './message.ts'

export interface ParkedReport {
  readonly report: DeliveryReport
  readonly since: number
  /** The projector must have applied all log records before this offset. */
  readonly logOffset: number
  lookedUpAt: number
  /** The read model knows no message for the report. */
  unknown: boolean
  /** Two messages of the recipient can have caused it, so it is never matched by recipient. */
  isAmbiguous: boolean
}

/** The time before the first lookup, in which the submit answer may arrive. */
const BEFORE_LOOKUP_MS = 250
const LOOKUP_EVERY_MS = 1000
/**
 * The maximum of parked reports, 0.5 kB each. Beyond it, the shard drops the oldest report if the
 * read model does not know it, or reads no further reports.
 */
const MAX_PARKED = 10_000
/** The partition is resumed only below this number, so that it does not pause for every record. */
const ROOM_BELOW = 0.9 * MAX_PARKED

export class ParkedReports {
  readonly #all = new Map<number, ParkedReport>()
  readonly #byKey = new Map<string, Array<ParkedReport>>()

  get size(): number {
    return this.#all.size
  }

  /** Whether no further report may be read: the shard could not drop any report safely. */
  get isFull(): boolean {
    return this.#all.size >= MAX_PARKED && this.#oldest()?.unknown !== true
  }

  get hasRoom(): boolean {
    return this.#all.size <= ROOM_BELOW || this.#oldest()?.unknown === true
  }

  get(offset: number): ParkedReport | undefined {
    return this.#all.get(offset)
  }

  /** Adds a report. Returns the oldest one if it was evicted, unknown to the read model. */
  add(report: DeliveryReport, now: number, logOffset: number): DeliveryReport | null {
    const oldest = this.#all.size >= MAX_PARKED ? this.#oldest() : undefined
    const evicted = oldest?.unknown === true ? oldest : null
    if (evicted !== null) this.remove(evicted)
    const parked: ParkedReport = {
      report,
      since: now,
      logOffset,
      lookedUpAt: 0,
      unknown: false,
      isAmbiguous: false,
    }
    this.#all.set(report.offset, parked)
    const key = keyOf(report)
    const same = this.#byKey.get(key)
    if (same === undefined) this.#byKey.set(key, [parked])
    else same.push(parked)
    return evicted?.report ?? null
  }

  remove(parked: ParkedReport): void {
    this.#all.delete(parked.report.offset)
    const key = keyOf(parked.report)
    const rest = (this.#byKey.get(key) ?? []).filter((other) => other !== parked)
    if (rest.length === 0) this.#byKey.delete(key)
    else this.#byKey.set(key, rest)
  }

  /** Removes and returns the reports with this key (`operatorKey`), in order. */
  take(key: string): ReadonlyArray<DeliveryReport> {
    const found = this.#byKey.get(key)
    if (found === undefined) return []
    this.#byKey.delete(key)
    for (const { report } of found) this.#all.delete(report.offset)
    return found.map(({ report }) => report)
  }

  /** The reports of delivered parts that this operator sent for a recipient, one for each operator id. */
  delivered(operator: string, recipient: string): ReadonlyArray<ParkedReport> {
    const found: Array<ParkedReport> = []
    for (const [parked] of this.#byKey.values()) {
      if (parked === undefined) continue
      const { report } = parked
      if (report.recipient !== recipient || report.operator !== operator) continue
      if (report.outcome.status === 'delivered') found.push(parked)
    }
    return found
  }

  /** The reports that are due for a lookup, the oldest first. Each is due again a second later. */
  due(now: number, limit: number): ReadonlyArray<ParkedReport> {
    const found: Array<ParkedReport> = []
    for (const parked of this.#all.values()) {
      if (found.length === limit) break
      if (now - parked.since < BEFORE_LOOKUP_MS || now - parked.lookedUpAt < LOOKUP_EVERY_MS) continue
      parked.lookedUpAt = now
      found.push(parked)
    }
    return found
  }

  #oldest(): ParkedReport | undefined {
    return this.#all.values().next().value
  }
}

const keyOf = ({ operator, operatorId, recipient }: DeliveryReport) =>
  operatorKey(operator, operatorId, recipient)
