/**
 * The simulated operator: what it has taken, how often, and which reports it still owes. Over HTTP it recognises a reference; over
 * SMPP, which has none, it takes every hand-over for a new one, and counts how often it saw the same text for the same number.
 */
import {
  type Behaviour,
  changeBehaviour,
  DEFAULT_BEHAVIOUR,
  isAnswerDropped,
  isAlwaysThrottled,
  isRejected,
  isUnanswered,
  plannedReports,
  type ReportStatus,
} from './behaviour.ts'
import { makeDueQueue } from './due-queue.ts'
import { type Entry, openJournal } from './journal.ts'
import { makePrivacy } from './privacy.ts'

export interface Submission {
  readonly reference: string
  /** E.164. */
  readonly to: string
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

/** A report that travels over SMPP. */
export interface Receipt {
  readonly operator_id: string
  /** What the receipt calls it: with some centres another notation of the id. */
  readonly receipt_id: string
  readonly status: ReportStatus
  readonly reason: string | null
  /** When it happened, ms since the epoch; also when it is first sent. */
  readonly due: number
  /** The message's recipient, whom the receipt comes from: E.164. */
  readonly to: string
  /** The message's sender, whom the receipt goes to. */
  readonly sender: string
}

/** What came over SMPP as one `submit_sm`. */
export interface Part {
  /** E.164. */
  readonly to: string
  readonly sender: string
  /** Whether its sender wants to hear of it again. */
  readonly wantsReceipt: boolean
}

export type PartAnswer =
  | {
      readonly status: 'accepted'
      readonly operatorId: string
      readonly receipts: ReadonlyArray<Receipt>
      /** What becomes of the answer: it is sent, or its connection is closed instead, or nothing happens. */
      readonly answer: 'sent' | 'dropped' | 'never'
    }
  | { readonly status: 'rejected' | 'throttled' }

interface ReportState {
  readonly operator_id: string
  readonly status: ReportStatus
  readonly reason: string | null
  readonly due: number
  acknowledged: boolean
}

interface MessageState {
  times: number
  answer: Answer
  reports: ReadonlyArray<ReportState>
}

/** Reports pendingReports at once. Above it submissions are throttled, as a real operator would, instead of growing for ever. */
const MAX_OPEN_REPORTS = 500_000

/** A read receipt comes after the delivery it belongs to. */
const SEEN_AFTER_MS = 100

/**
 * Messages and parts that came over SMPP and are remembered, which nothing but curiosity needs: a long run must not fill the memory. A
 * message that is forgotten and comes again counts as a new one.
 */
const MAX_REMEMBERED = 200_000

const evictOldest = (map: Map<string, unknown>): void => {
  if (map.size <= MAX_REMEMBERED) return
  for (const oldest of map.keys()) {
    map.delete(oldest)
    return
  }
}

/** Above 2⁵³, where a double is not exact any more: many centres count that far. */
const FIRST_PART_ID = 1n << 60n

const REJECTION = 'spam_filter_content'

export interface Operator {
  readonly behaviour: () => Behaviour
  readonly setBehaviour: (change: unknown) => Behaviour | { readonly error: string }
  /** `dropped`: the answers must not reach the caller. */
  readonly submit: (
    submissions: ReadonlyArray<Submission>,
    now: number,
  ) => { readonly answers: ReadonlyArray<Answer>; readonly dropped: boolean }
  readonly submitPart: (part: Part, now: number) => PartAnswer
  /** Every part of a message has come over SMPP, or its only one was rejected. `operatorIds`: in order, none where it was rejected. */
  readonly recordMessage: (to: string, text: string, operatorIds: ReadonlyArray<string>) => void
  readonly find: (reference: string) => object | null
  /** What a message that came over SMPP is known by. */
  readonly referenceOf: (to: string, text: string) => string
  readonly statistics: () => Record<string, number>
  /** Up to `limit` reports that are due, removed from the queue: they are to be sent, then settled. */
  readonly takeDue: (now: number, limit: number) => ReadonlyArray<Report>
  /** When the next report is due; null where none is pendingReports. */
  readonly nextDueAt: () => number | null
  readonly sent: (count: number) => void
  readonly acknowledged: (reports: ReadonlyArray<Report>) => void
  /** Back into the queue, due at `at`. */
  readonly postpone: (reports: ReadonlyArray<Report>, at: number) => void
  /** The same for receipts. */
  readonly takeDueReceipts: (now: number, limit: number) => ReadonlyArray<Receipt>
  readonly queueReceipt: (receipt: Receipt, at: number) => void
  readonly acknowledgeReceipts: (receipts: ReadonlyArray<Receipt>) => void
  /** Counts inbound messages: taken to be sent, and acknowledged. */
  readonly inbound: (count: number) => void
  readonly inboundAcknowledged: (count: number) => void
  readonly close: () => void
}

/** Opens the operator. `secret`: what the addresses in the journal are sealed with. */
export const makeOperator = (journalPath: string, secret: string): Operator => {
  const { entries, journal } = openJournal(journalPath)
  const privacy = makePrivacy(secret)
  /** What came over HTTP: it dedupes, and forgets nothing. */
  const known = new Map<string, MessageState>()
  /** What came over SMPP. */
  const counted = new Map<string, MessageState>()
  /** Of parts that came over SMPP, by operator id. */
  const told = new Map<string, ReadonlyArray<ReportState>>()
  const pendingReports = makeDueQueue<Report>()
  const pendingReceipts = makeDueQueue<Receipt>()
  let behaviour = DEFAULT_BEHAVIOUR
  let dropped = new Set<string>()
  const counts = {
    submissions: 0,
    references: 0,
    repeated: 0,
    rejected: 0,
    throttled: 0,
    parts: 0,
    sent: 0,
    acknowledged: 0,
    inbound: 0,
    inboundAcknowledged: 0,
  }
  let second = { start: 0, taken: 0 }

  const acknowledge = (
    reports: ReadonlyArray<ReportState> | undefined,
    id: string,
    status: ReportStatus,
  ): void => {
    const report = reports?.find((one) => one.operator_id === id && one.status === status)
    if (report !== undefined) report.acknowledged = true
  }

  /** Applies an entry, new or read back: one place says what each means. */
  const apply = (entry: Entry): void => {
    switch (entry.entry) {
      case 'taken': {
        counts.submissions++
        counts.references++
        if (entry.status === 'rejected') counts.rejected++
        const reports = entry.operator_ids.flatMap((operatorId) =>
          entry.reports.map((report) => ({ ...report, operator_id: operatorId, acknowledged: false })),
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
      case 'part':
        counts.parts++
        told.set(
          entry.operator_id,
          entry.reports.map((report) => ({ ...report, operator_id: entry.operator_id, acknowledged: false })),
        )
        evictOldest(told)
        break
      case 'handed_over': {
        counts.submissions++
        if (entry.status === 'rejected') counts.rejected++
        const before = counted.get(entry.reference)
        if (before === undefined) counts.references++
        else counts.repeated++
        counted.set(entry.reference, {
          times: (before?.times ?? 0) + 1,
          answer: {
            reference: entry.reference,
            // Every hand-over was answered with ids of its own.
            operator_ids: [...(before?.answer.operator_ids ?? []), ...entry.operator_ids],
            status: entry.status,
            ...(entry.reason === null ? {} : { reason: entry.reason }),
          },
          reports: [...(before?.reports ?? []), ...entry.operator_ids.flatMap((id) => told.get(id) ?? [])],
        })
        evictOldest(counted)
        break
      }
      case 'throttled':
        counts.submissions += entry.count
        counts.throttled += entry.count
        break
      case 'sent':
        counts.sent += entry.count
        break
      case 'inbound':
        counts.inbound += entry.count
        break
      case 'inbound_acknowledged':
        counts.inboundAcknowledged += entry.count
        break
      case 'acknowledged':
        counts.acknowledged += entry.reports.length
        for (const [operatorId, status, reference] of entry.reports) {
          acknowledge(known.get(reference)?.reports, operatorId, status)
        }
        break
      case 'receipts_acknowledged':
        counts.acknowledged += entry.receipts.length
        for (const [operatorId, status] of entry.receipts) {
          acknowledge(told.get(operatorId), operatorId, status)
        }
        break
    }
  }

  /** The receipts of a part that are not acknowledged. None where the addresses cannot be read any more. */
  const receiptsOf = (entry: Extract<Entry, { entry: 'part' }>): ReadonlyArray<Receipt> => {
    const addresses = privacy.open(entry.addresses)?.split('\n')
    const [to, sender] = addresses ?? []
    if (to === undefined || sender === undefined) return []
    return (told.get(entry.operator_id) ?? []).flatMap(({ acknowledged, due, reason, status }) =>
      acknowledged
        ? []
        : [
            {
              operator_id: entry.operator_id,
              receipt_id: entry.receipt_id,
              status,
              reason,
              due,
              to,
              sender,
            },
          ],
    )
  }

  for (const entry of entries) apply(entry)
  for (const entry of entries) {
    if (entry.entry === 'taken') {
      for (const { acknowledged, ...report } of known.get(entry.reference)?.reports ?? []) {
        if (!acknowledged) pendingReports.push(report.due, { ...report, reference: entry.reference })
      }
    } else if (entry.entry === 'part') {
      for (const receipt of receiptsOf(entry)) pendingReceipts.push(receipt.due, receipt)
    }
  }

  const write = (added: ReadonlyArray<Entry>): void => {
    journal.append(added)
    for (const entry of added) apply(entry)
  }

  const throttled = (to: string, now: number): boolean => {
    if (isAlwaysThrottled(to) || pendingReports.size() + pendingReceipts.size() >= MAX_OPEN_REPORTS)
      return true
    if (behaviour.throttle_per_second === null) return false
    if (now - second.start >= 1000) second = { start: now, taken: 0 }
    if (second.taken >= behaviour.throttle_per_second) return true
    second.taken++
    return false
  }

  /** Whether this answer is to be dropped; a reference is spared the second time. */
  const dropsAnswer = (reference: string): boolean => {
    if (dropped.has(reference) || !isAnswerDropped(behaviour, reference)) return false
    dropped.add(reference)
    // Enough to spare every message of a test run its second drop; an old one may be dropped again.
    if (dropped.size > 100_000) dropped = new Set()
    return true
  }

  const planned = (reference: string, to: string, now: number) =>
    plannedReports(behaviour, { reference, to }).map(({ reason, status }, index) => ({
      status,
      reason,
      due: now + behaviour.report_delay_ms + index * SEEN_AFTER_MS,
    }))

  const acceptNew = ({ parts, reference, to }: Submission, now: number): Entry => {
    if (isRejected(behaviour, { reference, to })) {
      return {
        entry: 'taken',
        reference,
        status: 'rejected',
        reason: REJECTION,
        operator_ids: [],
        reports: [],
      }
    }
    // Numbered by what was taken, not at random: an id is the same after the journal is read back.
    const number = counts.references + 1
    return {
      entry: 'taken',
      reference,
      status: 'accepted',
      reason: null,
      operator_ids: Array.from({ length: parts }, (_, part) => `sim-${number}-${part + 1}`),
      reports: planned(reference, to, now),
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
        if (throttled(submission.to, now)) {
          write([{ entry: 'throttled', count: 1 }])
          return { reference: submission.reference, operator_ids: [], status: 'throttled' }
        }
        write([acceptNew(submission, now)])
        const message = known.get(submission.reference)
        if (message === undefined) throw new Error('a submission was taken and is not known')
        for (const { acknowledged: _, ...report } of message.reports) {
          pendingReports.push(report.due, { ...report, reference: submission.reference })
        }
        return message.answer
      })
      const first = submissions[0]?.reference
      return { answers, dropped: first !== undefined && dropsAnswer(first) }
    },
    submitPart: ({ sender, to, wantsReceipt }, now) => {
      if (throttled(to, now)) {
        write([{ entry: 'throttled', count: 1 }])
        return { status: 'throttled' }
      }
      if (isRejected(behaviour, { reference: to, to })) return { status: 'rejected' }
      const id = FIRST_PART_ID + BigInt(counts.parts)
      const entry = {
        entry: 'part',
        operator_id: behaviour.id_form === 'hexadecimal_answer' ? id.toString(16) : id.toString(10),
        receipt_id: id.toString(10),
        addresses: privacy.seal(`${to}\n${sender}`),
        reports: wantsReceipt ? planned(to, to, now) : [],
      } as const
      write([entry])
      return {
        status: 'accepted',
        operatorId: entry.operator_id,
        receipts: receiptsOf(entry),
        answer: dropsAnswer(to) ? 'dropped' : isUnanswered(behaviour, to) ? 'never' : 'sent',
      }
    },
    recordMessage: (to, text, operatorIds) => {
      const isTaken = operatorIds.length > 0
      write([
        {
          entry: 'handed_over',
          reference: privacy.reference(to, text),
          status: isTaken ? 'accepted' : 'rejected',
          reason: isTaken ? null : REJECTION,
          operator_ids: operatorIds,
        },
      ])
    },
    referenceOf: privacy.reference,
    find: (reference) => {
      const message = known.get(reference) ?? counted.get(reference)
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
      references: counts.references,
      repeated: counts.repeated,
      rejected: counts.rejected,
      throttled: counts.throttled,
      parts: counts.parts,
      reports_sent: counts.sent,
      reports_acknowledged: counts.acknowledged,
      reports_waiting: pendingReports.size() + pendingReceipts.size(),
      inbound: counts.inbound,
      inbound_acknowledged: counts.inboundAcknowledged,
    }),
    takeDue: pendingReports.take,
    nextDueAt: pendingReports.next,
    sent: (count) => write([{ entry: 'sent', count }]),
    acknowledged: (reports) =>
      write([
        {
          entry: 'acknowledged',
          reports: reports.map(({ operator_id, reference, status }) => [operator_id, status, reference]),
        },
      ]),
    postpone: (reports, at) => {
      for (const report of reports) pendingReports.push(at, report)
    },
    takeDueReceipts: pendingReceipts.take,
    queueReceipt: (receipt, at) => pendingReceipts.push(at, receipt),
    acknowledgeReceipts: (receipts) =>
      write([
        {
          entry: 'receipts_acknowledged',
          receipts: receipts.map(({ operator_id, status }) => [operator_id, status]),
        },
      ]),
    inbound: (count) => write([{ entry: 'inbound', count }]),
    inboundAcknowledged: (count) => write([{ entry: 'inbound_acknowledged', count }]),
    close: journal.close,
  }
}
