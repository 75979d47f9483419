/** The simulated operator: what it has taken, how often, and which reports it still owes. */
import {
  type Behaviour,
  changeBehaviour,
  DEFAULT_BEHAVIOUR,
  isAnswerDropped,
  isRejected,
  plannedReports,
  type ReportStatus,
} from './behaviour.ts'
import { type Entry, openJournal } from './journal.ts'

export interface Submission {
  readonly reference: string
  readonly parts: number
}

export interface Answer {
  readonly reference: string
  readonly operator_ids: ReadonlyArray<string>
  readonly status: 'accepted' | 'rejected' | 'throttled'
  readonly reason?: string
}

export interface Report {
  readonly operator_id: string
  readonly reference: string
  readonly status: ReportStatus
  readonly reason: string | null
  /** When it happened, ms since the epoch; also when it is first sent. */
  readonly due: number
}

interface Known {
  times: number
  readonly answer: Answer
  readonly reports: Array<Report & { acknowledged: boolean }>
}

/** Reports owed at once. Above it submissions are throttled, as a real operator would, instead of growing for ever. */
const MAX_OPEN_REPORTS = 500_000

/** A read receipt comes after the delivery it belongs to. */
const SEEN_AFTER_MS = 100

export interface Operator {
  readonly behaviour: () => Behaviour
  readonly setBehaviour: (change: unknown) => Behaviour | { readonly error: string }
  /** `dropped`: the answers must not reach the caller. */
  readonly submit: (
    submissions: ReadonlyArray<Submission>,
    now: number,
  ) => { readonly answers: ReadonlyArray<Answer>; readonly dropped: boolean }
  readonly find: (reference: string) => object | null
  readonly statistics: () => object
  /** Up to `limit` reports that are due, removed from the queue: they are to be sent, then settled. */
  readonly takeDue: (now: number, limit: number) => ReadonlyArray<Report>
  /** When the next report is due; null where none is owed. */
  readonly nextDue: () => number | null
  readonly sent: (reports: ReadonlyArray<Report>) => void
  readonly acknowledged: (reports: ReadonlyArray<Report>) => void
  /** Back into the queue, due at `at`. */
  readonly postpone: (reports: ReadonlyArray<Report>, at: number) => void
  readonly close: () => void
}

export const makeOperator = (journalPath: string): Operator => {
  const { entries, journal } = openJournal(journalPath)
  const known = new Map<string, Known>()
  /** Owed reports by the moment they are to be sent, earliest first. */
  let owed: Array<{ readonly at: number; readonly report: Report }> = []
  let sorted = true
  let behaviour = DEFAULT_BEHAVIOUR
  let dropped = new Set<string>()
  const counts = { submissions: 0, repeated: 0, rejected: 0, throttled: 0, sent: 0, acknowledged: 0 }
  let second = { start: 0, taken: 0 }

  const owe = (at: number, report: Report): void => {
    const last = owed.at(-1)
    if (last !== undefined && last.at > at) sorted = false
    owed.push({ at, report })
  }
  const sort = (): void => {
    if (!sorted) owed.sort((a, b) => a.at - b.at)
    sorted = true
  }

  /** Applies an entry, new or read back: one place says what each means. */
  const apply = (entry: Entry): void => {
    switch (entry.entry) {
      case 'taken': {
        counts.submissions++
        if (entry.status === 'rejected') counts.rejected++
        const reports = entry.operator_ids.flatMap((operatorId) =>
          entry.reports.map(({ due, reason, status }) => ({
            operator_id: operatorId,
            reference: entry.reference,
            status,
            reason,
            due,
            acknowledged: false,
          })),
        )
        known.set(entry.reference, {
          times: 1,
          answer: {
            reference: entry.reference,
            operator_ids: entry.operator_ids,
            status: entry.status,
            ...(entry.reason === null ? {} : { reason: entry.reason }),
          },
          reports,
        })
        break
      }
      case 'repeated': {
        counts.submissions++
        counts.repeated++
        const message = known.get(entry.reference)
        if (message !== undefined) message.times++
        break
      }
      case 'throttled':
        counts.submissions += entry.count
        counts.throttled += entry.count
        break
      case 'sent':
        counts.sent += entry.count
        break
      case 'acknowledged':
        counts.acknowledged += entry.reports.length
        for (const [operatorId, status, reference] of entry.reports) {
          const report = known
            .get(reference)
            ?.reports.find((one) => one.operator_id === operatorId && one.status === status)
          if (report !== undefined) report.acknowledged = true
        }
        break
    }
  }

  for (const entry of entries) apply(entry)
  for (const message of known.values()) {
    for (const report of message.reports) if (!report.acknowledged) owe(report.due, report)
  }

  const write = (added: ReadonlyArray<Entry>): void => {
    journal.append(added)
    for (const entry of added) apply(entry)
  }

  const throttled = (now: number): boolean => {
    if (owed.length >= MAX_OPEN_REPORTS) return true
    if (behaviour.throttle_per_second === null) return false
    if (now - second.start >= 1000) second = { start: now, taken: 0 }
    if (second.taken >= behaviour.throttle_per_second) return true
    second.taken++
    return false
  }

  const takeNew = ({ parts, reference }: Submission, now: number): Entry => {
    if (isRejected(behaviour, reference)) {
      return {
        entry: 'taken',
        reference,
        status: 'rejected',
        reason: 'spam_filter_content',
        operator_ids: [],
        reports: [],
      }
    }
    // Numbered by what was taken, not at random: an id is the same after the journal is read back.
    const number = known.size + 1
    return {
      entry: 'taken',
      reference,
      status: 'accepted',
      reason: null,
      operator_ids: Array.from({ length: parts }, (_, part) => `sim-${number}-${part + 1}`),
      reports: plannedReports(behaviour, reference).map(({ reason, status }, index) => ({
        status,
        reason,
        due: now + behaviour.report_delay_ms + index * SEEN_AFTER_MS,
      })),
    }
  }

  return {
    behaviour: () => behaviour,
    setBehaviour: (change) => {
      const changed = changeBehaviour(behaviour, change)
      if (!('error' in changed)) behaviour = changed
      return changed
    },
    submit: (submissions, now) => {
      const answers = submissions.map((submission): Answer => {
        const before = known.get(submission.reference)
        if (before !== undefined) {
          write([{ entry: 'repeated', reference: submission.reference }])
          return before.answer
        }
        if (throttled(now)) {
          write([{ entry: 'throttled', count: 1 }])
          return { reference: submission.reference, operator_ids: [], status: 'throttled' }
        }
        write([takeNew(submission, now)])
        const message = known.get(submission.reference)
        if (message === undefined) throw new Error('a submission was taken and is not known')
        for (const report of message.reports) owe(report.due, report)
        return message.answer
      })
      const first = submissions[0]?.reference
      const drop = first !== undefined && !dropped.has(first) && isAnswerDropped(behaviour, first)
      if (drop) {
        dropped.add(first)
        // Enough to spare every request of a test run its second drop; an old one may be dropped again.
        if (dropped.size > 100_000) dropped = new Set()
      }
      return { answers, dropped: drop }
    },
    find: (reference) => {
      const message = known.get(reference)
      if (message === undefined) return null
      return {
        reference,
        times: message.times,
        status: message.answer.status,
        reason: message.answer.reason ?? null,
        operator_ids: message.answer.operator_ids,
        reports: message.reports.map(({ acknowledged, due, operator_id, reason, status }) => ({
          operator_id,
          status,
          reason,
          at: new Date(due).toISOString(),
          acknowledged,
        })),
      }
    },
    statistics: () => ({
      submissions: counts.submissions,
      references: known.size,
      repeated: counts.repeated,
      rejected: counts.rejected,
      throttled: counts.throttled,
      reports_sent: counts.sent,
      reports_acknowledged: counts.acknowledged,
      reports_waiting: owed.length,
    }),
    takeDue: (now, limit) => {
      sort()
      let count = 0
      while (count < limit && count < owed.length && (owed[count]?.at ?? Infinity) <= now) count++
      return owed.splice(0, count).map(({ report }) => report)
    },
    nextDue: () => {
      sort()
      return owed[0]?.at ?? null
    },
    sent: (reports) => write([{ entry: 'sent', count: reports.length }]),
    acknowledged: (reports) =>
      write([
        {
          entry: 'acknowledged',
          reports: reports.map(({ operator_id, reference, status }) => [operator_id, status, reference]),
        },
      ]),
    postpone: (reports, at) => {
      for (const report of reports) owe(at, report)
    },
    close: journal.close,
  }
}
