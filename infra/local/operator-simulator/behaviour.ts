/** What the simulated operator does with a message: a pure function of its reference and the settings. */
import { createHash } from 'node:crypto'

export interface Behaviour {
  /** From the submission to its report. */
  readonly report_delay_ms: number
  /** Before a submission is answered. */
  readonly submit_delay_ms: number
  readonly undelivered_percent: number
  readonly rejected_by_report_percent: number
  readonly expired_percent: number
  /** Delivered, and then seen. */
  readonly seen_percent: number
  /** Accepted, and never reported. */
  readonly silent_percent: number
  readonly rejected_percent: number
  /** Taken, and the connection closed without an answer. */
  readonly dropped_answer_percent: number
  /** Answers `throttled` above so many a second; null: never. */
  readonly throttle_per_second: number | null
}

export const DEFAULT_BEHAVIOUR: Behaviour = {
  report_delay_ms: 200,
  submit_delay_ms: 0,
  undelivered_percent: 0,
  rejected_by_report_percent: 0,
  expired_percent: 0,
  seen_percent: 0,
  silent_percent: 0,
  rejected_percent: 0,
  dropped_answer_percent: 0,
  throttle_per_second: null,
}

/** A day: longer delays than any deadline of the hub are of no use. */
const MAX_DELAY_MS = 24 * 60 * 60 * 1000

/** The settings after a change, or what is wrong with the change. */
export const changeBehaviour = (
  current: Behaviour,
  change: unknown,
): Behaviour | { readonly error: string } => {
  if (typeof change !== 'object' || change === null || Array.isArray(change)) {
    return { error: 'an object of settings is expected' }
  }
  const next: Record<string, number | null> = { ...current }
  for (const [name, value] of Object.entries(change)) {
    if (!Object.hasOwn(DEFAULT_BEHAVIOUR, name)) return { error: `${name} is not a setting` }
    if (name === 'throttle_per_second' && value === null) {
      next[name] = null
      continue
    }
    const most = name.endsWith('_percent') ? 100 : name.endsWith('_ms') ? MAX_DELAY_MS : 1_000_000
    if (typeof value !== 'number' || !Number.isFinite(value) || value < 0 || value > most) {
      return { error: `${name} must be a number from 0 to ${most}` }
    }
    next[name] = value
  }
  const changed = next as unknown as Behaviour
  const outcomes =
    changed.undelivered_percent +
    changed.rejected_by_report_percent +
    changed.expired_percent +
    changed.seen_percent +
    changed.silent_percent
  return outcomes > 100 ? { error: `the reported outcomes add up to ${outcomes} percent` } : changed
}

/** A number from 0 up to 100 that belongs to a reference, another one for each question that is asked of it. */
export const share = (reference: string, question: string): number =>
  createHash('sha256').update(`${question}:${reference}`).digest().readUInt32BE(0) / (0x1_0000_0000 / 100)

export type ReportStatus = 'delivered' | 'undelivered' | 'rejected' | 'expired' | 'seen'

export interface PlannedReport {
  readonly status: ReportStatus
  readonly reason: string | null
}

/** The reports of a message, in order; none for a silent one. */
export const plannedReports = (behaviour: Behaviour, reference: string): ReadonlyArray<PlannedReport> => {
  const delivered: PlannedReport = { status: 'delivered', reason: null }
  const outcomes: ReadonlyArray<readonly [number, ReadonlyArray<PlannedReport>]> = [
    [behaviour.undelivered_percent, [{ status: 'undelivered', reason: 'recipient_unreachable' }]],
    [behaviour.rejected_by_report_percent, [{ status: 'rejected', reason: 'spam_filter_sender' }]],
    [behaviour.expired_percent, [{ status: 'expired', reason: null }]],
    [behaviour.seen_percent, [delivered, { status: 'seen', reason: null }]],
    [behaviour.silent_percent, []],
  ]
  let at = share(reference, 'report')
  for (const [percent, reports] of outcomes) {
    if (at < percent) return reports
    at -= percent
  }
  return [delivered]
}

export const isRejected = (behaviour: Behaviour, reference: string): boolean =>
  share(reference, 'answer') < behaviour.rejected_percent

export const isAnswerDropped = (behaviour: Behaviour, reference: string): boolean =>
  share(reference, 'drop') < behaviour.dropped_answer_percent
