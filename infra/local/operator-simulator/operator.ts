/**
 * The state of the simulated operator: its submissions, their counts, and the pending reports. Over
 * HTTP it deduplicates by reference. SMPP has no reference, so each submission over SMPP is new,
 * and the operator counts how often the same text came for the same number.
 */
import { EventEmitter } from 'node:events'
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
import { makeDueQueue, type Pushes } from './due-queue.ts'
import { evictOldest } from './evict-oldest.ts'
import { type Entry, openJournal, type PlannedReportEntry } from './journal.ts'
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

interface PartReport extends PlannedReportEntry {
  readonly operator_id: string
}

export interface DeliveryReport extends PartReport {
  readonly reference: string
}

/** A report over SMPP. */
export interface Receipt extends PartReport {
  /** The id in the receipt. Some SMSCs use another notation than in `submit_sm_resp`. */
  readonly receipt_id: string
  /** The recipient of the message, which is the source address of the receipt: E.164. */
  readonly to: string
  /** The sender of the message, which is the destination address of the receipt. */
  readonly sender: string
}

/** A `submit_sm`. */
export interface Part {
  /** E.164. */
  readonly to: string
  readonly sender: string
  /** Whether the client requested a delivery report. */
  readonly wantsReceipt: boolean
  /** Whether the message has several parts, and this is the last one. */
  readonly isLastOfSeveral: boolean
}

export type PartAnswer =
  | {
      readonly status: 'accepted'
      readonly operatorId: string
      readonly receipts: ReadonlyArray<Receipt>
      /** Whether to send the answer, to close the connection instead, or to do nothing. */
      readonly answer: 'sent' | 'dropped' | 'never'
    }
  | { readonly status: 'rejected' | 'throttled' }

interface ReportState extends PartReport {
  acknowledged: boolean
}

interface MessageState {
  times: number
  answer: Answer
  reports: ReadonlyArray<ReportState>
}

/** The maximum of pending reports. Above it, submissions are throttled, to bound the memory. */
const MAX_OPEN_REPORTS = 500_000

/** The delay of a read receipt after its delivery receipt. */
const SEEN_AFTER_MS = 100

/**
 * The number of messages and parts over SMPP that the operator remembers, only for its statistics.
 * The limit bounds the memory of a long run. A repeated message beyond it counts as new.
 */
const MAX_REMEMBERED = 200_000

/** Above 2⁵³, as with many SMSCs, so that tests detect ids that are parsed as inexact numbers. */
const FIRST_PART_ID = 1n << 60n

const REJECTION = 'spam_filter_content'

/** Like real operators, the simulator drops a report after a day. */
export const GIVE_UP_AFTER_MS = 24 * 60 * 60 * 1000

const answerOf = (
  { reason, reference, status }: Extract<Entry, { entry: 'taken' | 'handed_over' }>,
  operatorIds: ReadonlyArray<string>,
): Answer => ({ reference, operator_ids: operatorIds, status, ...(reason === null ? {} : { reason }) })

const unacknowledged = (
  reports: ReadonlyArray<PlannedReportEntry>,
  operatorId: string,
): ReadonlyArray<ReportState> =>
  reports.map((report) => ({ ...report, operator_id: operatorId, acknowledged: false }))

export interface Operator {
  readonly behaviour: () => Behaviour
  readonly setBehaviour: (change: unknown) => Behaviour | { readonly error: string }
  /** `dropped`: the connection must be closed without an answer. */
  readonly submit: (
    submissions: ReadonlyArray<Submission>,
    now: number,
  ) => { readonly answers: ReadonlyArray<Answer>; readonly dropped: boolean }
  readonly submitPart: (part: Part, now: number) => PartAnswer
  /** Records a complete or rejected message over SMPP. A rejected one has no `operatorIds`. */
  readonly recordMessage: (to: string, text: string, operatorIds: ReadonlyArray<string>) => void
  readonly find: (reference: string) => object | null
  /** The reference of a message over SMPP: a keyed hash. */
  readonly referenceOf: (to: string, text: string) => string
  readonly statistics: () => Record<string, number>
  /** The new items of the queues of reports, receipts and inbound messages. */
  readonly pushes: Pushes
  /** Removes up to `limit` due reports. The caller must acknowledge or postpone each of them. */
  readonly takeDue: (now: number, limit: number) => ReadonlyArray<DeliveryReport>
  /** The time of the next report, or null. */
  readonly nextDueAt: () => number | null
  readonly sent: (count: number) => void
  readonly acknowledged: (reports: ReadonlyArray<DeliveryReport>) => void
  /** Puts reports back into the queue, due at `at`. */
  readonly postpone: (reports: ReadonlyArray<DeliveryReport>, at: number) => void
  /** As `takeDue`, for receipts. */
  readonly takeDueReceipts: (now: number, limit: number) => ReadonlyArray<Receipt>
  readonly receiptsWaiting: () => number
  readonly queueReceipt: (receipt: Receipt, at: number) => void
  readonly acknowledgeReceipts: (receipts: ReadonlyArray<Receipt>) => void
  /** Counts queued and acknowledged parts of inbound messages. */
  readonly inbound: (count: number) => void
  readonly inboundAcknowledged: (count: number) => void
  readonly close: () => void
}

/** Opens the operator. The `secret` encrypts the addresses in the journal. Without a path, it has none. */
export const makeOperator = (journalPath: string | null, secret: string): Operator => {
  const { entries, journal } = openJournal(journalPath)
  const privacy = makePrivacy(secret)
  /** Messages over HTTP by reference, without a limit, because they are deduplicated. */
  const httpMessages = new Map<string, MessageState>()
  /** Messages over SMPP by reference. */
  const smppMessages = new Map<string, MessageState>()
  /** Reports of parts over SMPP by operator id. */
  const partReports = new Map<string, ReadonlyArray<ReportState>>()
  const pushes: Pushes = new EventEmitter()
  const pendingReports = makeDueQueue<DeliveryReport>(pushes)
  const pendingReceipts = makeDueQueue<Receipt>(pushes)
  let behaviour = DEFAULT_BEHAVIOUR
  let dropped = new Set<string>()
  /** In the form of `GET /statistics`. */
  const counts = {
    submissions: 0,
    references: 0,
    repeated: 0,
    rejected: 0,
    throttled: 0,
    parts: 0,
    reports_sent: 0,
    reports_acknowledged: 0,
    inbound: 0,
    inbound_acknowledged: 0,
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

  /** Applies a journal entry, for new entries and after a restart. */
  const apply = (entry: Entry): void => {
    switch (entry.entry) {
      case 'taken': {
        counts.submissions++
        counts.references++
        if (entry.status === 'rejected') counts.rejected++
        const reports = entry.operator_ids.flatMap((id) => unacknowledged(entry.reports, id))
        httpMessages.set(entry.reference, {
          times: 1,
          answer: answerOf(entry, entry.operator_ids),
          reports,
        })
        break
      }
      case 'repeated': {
        counts.submissions++
        counts.repeated++
        const message = httpMessages.get(entry.reference)
        if (message !== undefined) message.times++
        break
      }
      case 'part':
        counts.parts++
        partReports.set(entry.operator_id, unacknowledged(entry.reports, entry.operator_id))
        evictOldest(partReports, MAX_REMEMBERED)
        break
      case 'handed_over': {
        counts.submissions++
        if (entry.status === 'rejected') counts.rejected++
        const before = smppMessages.get(entry.reference)
        if (before === undefined) counts.references++
        else counts.repeated++
        smppMessages.set(entry.reference, {
          times: (before?.times ?? 0) + 1,
          // Each submission got its own ids.
          answer: answerOf(entry, [...(before?.answer.operator_ids ?? []), ...entry.operator_ids]),
          reports: [
            ...(before?.reports ?? []),
            ...entry.operator_ids.flatMap((id) => partReports.get(id) ?? []),
          ],
        })
        evictOldest(smppMessages, MAX_REMEMBERED)
        break
      }
      case 'throttled':
        counts.submissions += entry.count
        counts.throttled += entry.count
        break
      case 'sent':
        counts.reports_sent += entry.count
        break
      case 'inbound':
      case 'inbound_acknowledged':
        counts[entry.entry] += entry.count
        break
      case 'acknowledged':
        counts.reports_acknowledged += entry.reports.length
        for (const [operatorId, status, reference] of entry.reports) {
          acknowledge(httpMessages.get(reference)?.reports, operatorId, status)
        }
        break
      case 'receipts_acknowledged':
        counts.reports_acknowledged += entry.receipts.length
        for (const [operatorId, status] of entry.receipts) {
          acknowledge(partReports.get(operatorId), operatorId, status)
        }
        break
    }
  }

  /** The unacknowledged receipts of a part. None if the addresses cannot be decrypted. */
  const receiptsOf = (entry: Extract<Entry, { entry: 'part' }>): ReadonlyArray<Receipt> => {
    const addresses = privacy.decrypt(entry.addresses)?.split('\n')
    const [to, sender] = addresses ?? []
    if (to === undefined || sender === undefined) return []
    return (partReports.get(entry.operator_id) ?? []).flatMap(({ acknowledged, ...report }) =>
      acknowledged ? [] : [{ ...report, receipt_id: entry.receipt_id, to, sender }],
    )
  }

  for (const entry of entries) apply(entry)
  for (const entry of entries) {
    if (entry.entry === 'taken') {
      for (const { acknowledged, ...report } of httpMessages.get(entry.reference)?.reports ?? []) {
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

  const waiting = (): number => pendingReports.size() + pendingReceipts.size()

  const throttled = (to: string, now: number): boolean => {
    if (isAlwaysThrottled(to) || waiting() >= MAX_OPEN_REPORTS) return true
    if (behaviour.throttle_per_second === null) return false
    if (now - second.start >= 1000) second = { start: now, taken: 0 }
    if (second.taken >= behaviour.throttle_per_second) return true
    second.taken++
    return false
  }

  /** Whether to drop the answer. The answers of a reference are dropped at most once. */
  const dropsAnswer = (reference: string): boolean => {
    if (dropped.has(reference) || !isAnswerDropped(behaviour, reference)) return false
    dropped.add(reference)
    // Bounds the memory. It is enough for the messages of a test run.
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
    const common = { entry: 'taken', reference } as const
    if (isRejected(behaviour, { reference, to })) {
      return { ...common, status: 'rejected', reason: REJECTION, operator_ids: [], reports: [] }
    }
    // Counts references, so that ids stay unique after a restart.
    const number = counts.references + 1
    return {
      ...common,
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
        const before = httpMessages.get(submission.reference)
        if (before !== undefined) {
          write([{ entry: 'repeated', reference: submission.reference }])
          return before.answer
        }
        if (throttled(submission.to, now)) {
          write([{ entry: 'throttled', count: 1 }])
          return { reference: submission.reference, operator_ids: [], status: 'throttled' }
        }
        write([acceptNew(submission, now)])
        const message = httpMessages.get(submission.reference)
        if (message === undefined) throw new Error('A recorded submission is missing.')
        for (const { acknowledged: _, ...report } of message.reports) {
          pendingReports.push(report.due, { ...report, reference: submission.reference })
        }
        return message.answer
      })
      const first = submissions[0]?.reference
      return { answers, dropped: first !== undefined && dropsAnswer(first) }
    },
    submitPart: ({ isLastOfSeveral, sender, to, wantsReceipt }, now) => {
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
        addresses: privacy.encrypt(`${to}\n${sender}`),
        reports: wantsReceipt
          ? planned(to, to, now + (isLastOfSeveral ? behaviour.last_part_delay_ms : 0))
          : [],
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
      const isAccepted = operatorIds.length > 0
      write([
        {
          entry: 'handed_over',
          reference: privacy.reference(to, text),
          status: isAccepted ? 'accepted' : 'rejected',
          reason: isAccepted ? null : REJECTION,
          operator_ids: operatorIds,
        },
      ])
    },
    referenceOf: privacy.reference,
    find: (reference) => {
      const message = httpMessages.get(reference) ?? smppMessages.get(reference)
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
    statistics: () => ({ ...counts, reports_waiting: waiting() }),
    pushes,
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
    receiptsWaiting: pendingReceipts.size,
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
