/** What the simulated operator does with a message: a pure function of its number, its reference and the settings. */
import { createHash } from 'node:crypto'
import { sandboxScenario } from '@hub/domain'

/** How the id in a receipt relates to the one in the answer. */
const ID_FORMS = ['opaque', 'hexadecimal_answer'] as const
/** Where a receipt says what it is about: in optional parameters, in its text, or in both. */
const RECEIPT_FORMS = ['both', 'text', 'parameters'] as const

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
  /** SMPP: taken, and not answered, on a bind that lives on. */
  readonly unanswered_percent: number
  /** SMPP: the receipt is sent before the answer that names its id. */
  readonly receipts_before_answer: boolean
  readonly id_form: (typeof ID_FORMS)[number]
  readonly receipt_form: (typeof RECEIPT_FORMS)[number]
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
  unanswered_percent: 0,
  receipts_before_answer: false,
  id_form: 'opaque',
  receipt_form: 'both',
}

/** A day: longer delays than any deadline of the hub are of no use. */
const MAX_DELAY_MS = 24 * 60 * 60 * 1000

/** What a setting must be, where this value is not it; else null. */
const requirementOf = (name: keyof Behaviour, value: unknown): string | null => {
  const oneOf = (values: ReadonlyArray<string>): string | null =>
    typeof value === 'string' && values.includes(value) ? null : `one of ${values.join(', ')}`
  const upTo = (most: number): string | null =>
    typeof value === 'number' && Number.isFinite(value) && value >= 0 && value <= most
      ? null
      : `a number from 0 to ${most}`
  switch (name) {
    case 'id_form':
      return oneOf(ID_FORMS)
    case 'receipt_form':
      return oneOf(RECEIPT_FORMS)
    case 'receipts_before_answer':
      return typeof value === 'boolean' ? null : 'true or false'
    case 'throttle_per_second':
      return value === null ? null : upTo(1_000_000)
    case 'report_delay_ms':
    case 'submit_delay_ms':
      return upTo(MAX_DELAY_MS)
    default:
      return upTo(100)
  }
}

/** The settings after a change, or what is wrong with the change. */
export const changeBehaviour = (
  current: Behaviour,
  change: unknown,
): Behaviour | { readonly error: string } => {
  if (typeof change !== 'object' || change === null || Array.isArray(change)) {
    return { error: 'an object of settings is expected' }
  }
  const next: Record<string, unknown> = { ...current }
  for (const [name, value] of Object.entries(change)) {
    if (!Object.hasOwn(DEFAULT_BEHAVIOUR, name)) return { error: `${name} is not a setting` }
    const wrong = requirementOf(name as keyof Behaviour, value)
    if (wrong !== null) return { error: `${name} must be ${wrong}` }
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

/** What the settings and the sandbox's table of numbers decide upon. */
export interface Selector {
  /** E.164. */
  readonly to: string
  /** What the percentages go by: the reference, or over SMPP, which has none, the number. */
  readonly reference: string
}

const DELIVERED: PlannedReport = { status: 'delivered', reason: null }
const SEEN: PlannedReport = { status: 'seen', reason: null }
const EXPIRED: PlannedReport = { status: 'expired', reason: null }
const REJECTED: PlannedReport = { status: 'rejected', reason: 'spam_filter_sender' }
const undelivered = (reason: string): PlannedReport => ({ status: 'undelivered', reason })

/** What the number alone decides, or null: the settings do. */
const reportsByNumber = (to: string): ReadonlyArray<PlannedReport> | null => {
  const scenario = sandboxScenario(to)
  switch (scenario) {
    case 'recipient_unreachable':
    case 'recipient_nonexistent':
    case 'recipient_blocked':
      return [undelivered(scenario)]
    case 'rejected_by_report':
      return [REJECTED]
    case 'dlr_timeout':
      return [EXPIRED]
    case 'seen':
      return [DELIVERED, SEEN]
    // A live message waits a day for its report: nobody would see the late one.
    case 'silent':
    case 'silent_then_delivered':
      return []
    default:
      return null
  }
}

/** The reports of a message, in order; none for a silent one. */
export const plannedReports = (
  behaviour: Behaviour,
  { reference, to }: Selector,
): ReadonlyArray<PlannedReport> => {
  const byNumber = reportsByNumber(to)
  if (byNumber !== null) return byNumber
  const outcomes: ReadonlyArray<readonly [number, ReadonlyArray<PlannedReport>]> = [
    [behaviour.undelivered_percent, [undelivered('recipient_unreachable')]],
    [behaviour.rejected_by_report_percent, [REJECTED]],
    [behaviour.expired_percent, [EXPIRED]],
    [behaviour.seen_percent, [DELIVERED, SEEN]],
    [behaviour.silent_percent, []],
  ]
  let at = share(reference, 'report')
  for (const [percent, reports] of outcomes) {
    if (at < percent) return reports
    at -= percent
  }
  return [DELIVERED]
}

export const isRejected = (behaviour: Behaviour, { reference, to }: Selector): boolean =>
  sandboxScenario(to) === 'rejected_at_handover' || share(reference, 'answer') < behaviour.rejected_percent

/** Whether it is throttled whatever the rate. */
export const isAlwaysThrottled = (to: string): boolean => sandboxScenario(to) === 'never_handed_over'

export const isAnswerDropped = (behaviour: Behaviour, reference: string): boolean =>
  share(reference, 'drop') < behaviour.dropped_answer_percent

export const isUnanswered = (behaviour: Behaviour, reference: string): boolean =>
  share(reference, 'silence') < behaviour.unanswered_percent
