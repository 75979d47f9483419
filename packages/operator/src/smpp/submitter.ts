/**
 * Messages on their way to the centre: cut into parts, spread over the binds within their windows and the pace, and answered
 * for once each part is. Callbacks of one process run one after the other; nothing here waits but in the queue, and
 * whatever is in the queue leaves it by a bound.
 *
 * A message of several parts has one outcome:
 * - all parts taken: `accepted`, with all ids;
 * - a part refused for good: `rejected`, whatever became of the others. The message will never be whole, and handing it over
 *   again would repeat the parts that were taken. Reports about those are reports of nobody;
 * - parts refused for now while others were taken (or may have been): those parts are tried again here, for as long as the
 *   lifetime lasts, at most `laterPartsMs`; then `rejected`;
 * - parts refused for now, and none taken: `refused`, the whole message comes again;
 * - the answer to a part was lost: `unknown`, once the other parts are answered for.
 */
import { randomInt } from 'node:crypto'
import type { Submission, SubmitOutcome } from '../port.ts'
import { COMMAND_STATUS, meaningOfStatus } from './errors.ts'
import { canonicalId } from './ids.ts'
import type { SmppMetrics } from './metrics.ts'
import { type Pace, taken, throttled, UNTHROTTLED, waitOf } from './pace.ts'
import type { Fields, Pdu } from './pdu.ts'
import type { Session } from './session.ts'
import type { SmppSettings } from './settings.ts'
import { isAlphanumeric, relativeTime, type Segment, segmentsOf } from './text.ts'

/** Addresses in SMPP: an international number, and a name. Source: SMPP 3.4, 5.2.5 and 5.2.6. */
const INTERNATIONAL = { ton: 1, npi: 1 } as const
const ALPHANUMERIC = { ton: 5, npi: 0 } as const
/** `registered_delivery`: tell success and failure of each part. */
const FINAL_RECEIPT = 1
/** Below it, waiting is not worth a record in the log. */
const LEAST_RETRY_MS = 50

type Part =
  | { readonly type: 'waiting' }
  | { readonly type: 'written' }
  | { readonly type: 'accepted'; readonly id: string }
  | { readonly type: 'lost' }
  | { readonly type: 'rejected'; readonly outcome: SubmitOutcome }

interface Job {
  readonly submission: Submission
  readonly segments: ReadonlyArray<Segment>
  readonly parts: Array<Part>
  readonly mayWrite: () => boolean
  readonly queuedAt: number
  readonly lifetimeEnd: number
  readonly done: (outcome: SubmitOutcome) => void
  written: number
  /** Refused for now: no further part is written before the others are answered for. */
  refusedForMs: number | null
  /** The bind that has its first part. */
  session: Session | null
  over: boolean
}

export interface Submitter {
  /**
   * Takes messages and answers for each of them. Returns what takes back those of which nothing has been written.
   */
  readonly submit: (
    batch: ReadonlyArray<Submission>,
    mayWrite: () => boolean,
    answered: (outcomes: ReadonlyArray<SubmitOutcome>) => void,
  ) => () => void
  /** Writes what may be written now. */
  readonly pump: () => void
  /** Answers for everything that has not been written, and takes nothing more. */
  readonly close: () => void
  readonly waiting: () => number
  readonly pace: () => Pace
}

export interface SubmitterOptions {
  readonly settings: SmppSettings
  /** Sessions that take submissions. */
  readonly sessions: () => ReadonlyArray<Session>
  readonly metrics: SmppMetrics
  /** The centre throttles: the pause, ms. */
  readonly onThrottled: (pauseMs: number) => void
  /** It refused a part for good, or for now. */
  readonly onRefused: (status: number) => void
}

export const fieldsOf = (
  { sender, to }: Submission,
  segment: Segment,
  validitySeconds: number,
  numericSender: { readonly ton: number; readonly npi: number },
): Fields => {
  const source = isAlphanumeric(sender) ? ALPHANUMERIC : numericSender
  return {
    source_addr_ton: source.ton,
    source_addr_npi: source.npi,
    source_addr: sender.replace(/^\+(?=\d+$)/u, ''),
    dest_addr_ton: INTERNATIONAL.ton,
    dest_addr_npi: INTERNATIONAL.npi,
    destination_addr: to.replace(/^\+/u, ''),
    esm_class: segment.esmClass,
    validity_period: relativeTime(validitySeconds),
    registered_delivery: FINAL_RECEIPT,
    data_coding: segment.dataCoding,
    short_message: segment.shortMessage,
  }
}

export const makeSubmitter = (options: SubmitterOptions): Submitter => {
  const { metrics, settings } = options
  const now = () => performance.now()
  const window = settings.binds * settings.window
  const queue: Array<Job> = []
  /** Messages whose further parts wait for their time. */
  const later = new Map<Job, NodeJS.Timeout>()
  let pace = UNTHROTTLED
  /** Begins anywhere, so that two processes seldom use one reference for one recipient at a time. */
  let reference = randomInt(0x1_0000)
  let closed = false
  let pumping = false
  let again = false
  let scheduled = false
  let wake: { readonly at: number; readonly timer: NodeJS.Timeout } | null = null

  const finish = (job: Job, outcome: SubmitOutcome) => {
    if (job.over) return
    job.over = true
    job.done(outcome)
  }

  const refused = (forMs: number): Extract<SubmitOutcome, { readonly type: 'refused' }> => ({
    type: 'refused',
    retryAfterMs: Math.ceil(Math.max(LEAST_RETRY_MS, forMs, waitOf(pace, now()))),
  })

  const isCommitted = (job: Job) => job.parts.some(({ type }) => type === 'accepted' || type === 'lost')
  const isWaiting = (job: Job) => job.parts.some(({ type }) => type === 'waiting')

  /** Some of it has left the process. */
  const isBegun = (job: Job) => job.written > 0 || isCommitted(job)
  /** What becomes of the parts that were not written. */
  const instead = (job: Job, part: Part) => {
    for (const [i, { type }] of job.parts.entries()) if (type === 'waiting') job.parts[i] = part
  }

  const unqueue = (job: Job) => {
    const at = queue.indexOf(job)
    if (at >= 0) queue.splice(at, 1)
  }

  /** It will never be whole. */
  const NEVER_WHOLE: SubmitOutcome = { type: 'rejected', reason: 'operator_rejected' }

  /** What follows, once nothing of it is in flight. */
  const settle = (job: Job) => {
    if (job.over || job.written > 0) return
    const rejected = job.parts.find((part) => part.type === 'rejected')
    if (rejected !== undefined) {
      unqueue(job)
      return finish(job, rejected.outcome)
    }
    if (isWaiting(job)) {
      if (job.refusedForMs === null) return
      unqueue(job)
      if (!isCommitted(job)) return finish(job, refused(job.refusedForMs))
      const forMs = Math.max(job.refusedForMs, waitOf(pace, now()))
      const until = Math.min(job.lifetimeEnd, job.queuedAt + settings.laterPartsMs)
      if (closed || now() + forMs >= until) return finish(job, NEVER_WHOLE)
      job.refusedForMs = null
      later.set(
        job,
        setTimeout(() => {
          later.delete(job)
          queue.unshift(job)
          pump()
        }, forMs),
      )
      return
    }
    const ids = job.parts.flatMap((part) => (part.type === 'accepted' ? [part.id] : []))
    finish(
      job,
      ids.length === job.parts.length ? { type: 'accepted', operatorIds: ids } : { type: 'unknown' },
    )
  }

  const answered = (job: Job, index: number, writtenAt: number, answer: Pdu | null) => {
    job.written--
    if (answer === null) {
      metrics.submitted('lost')
      job.parts[index] = { type: 'lost' }
    } else if (answer.command !== 'generic_nack' && answer.status === 0) {
      const id = canonicalId(settings.idFormat, 'answer', answer.text('message_id'))
      pace = taken(pace, writtenAt, window)
      metrics.submitted(id === null ? 'lost' : 'accepted')
      // Taken without an id that a report could be known by: what becomes of it is not known.
      job.parts[index] = id === null ? { type: 'lost' } : { type: 'accepted', id }
    } else {
      const meaning = meaningOfStatus(settings.errors, answer.status)
      switch (meaning) {
        case 'throttled':
          metrics.submitted('throttled')
          pace = throttled(pace, now(), writtenAt, settings.pace)
          options.onThrottled(pace.pause)
          job.parts[index] = { type: 'waiting' }
          job.refusedForMs ??= 0
          unqueue(job)
          break
        case 'retry':
          metrics.submitted('retry')
          options.onRefused(answer.status)
          job.parts[index] = { type: 'waiting' }
          job.refusedForMs = settings.retryMs
          unqueue(job)
          break
        default:
          metrics.submitted('rejected')
          options.onRefused(answer.status)
          job.parts[index] = { type: 'rejected', outcome: { type: 'rejected', reason: meaning } }
          unqueue(job)
      }
    }
    settle(job)
  }

  const inFlight = () => options.sessions().reduce((sum, session) => sum + session.inFlight(), 0)

  /** The bind with the most room. Parts of one message stay together while their bind stands. */
  const bindFor = (job: Job): Session | null => {
    const hasRoom = (session: Session) => session.canWrite() && session.inFlight() < settings.window
    if (job.session?.isBound() === true) return hasRoom(job.session) ? job.session : null
    let best: Session | null = null
    for (const session of options.sessions()) {
      if (hasRoom(session) && (best === null || session.inFlight() < best.inFlight())) best = session
    }
    return best
  }

  const wakeAt = (at: number) => {
    if (wake !== null && wake.at <= at) return
    if (wake !== null) clearTimeout(wake.timer)
    wake = {
      at,
      timer: setTimeout(
        () => {
          wake = null
          pump()
        },
        Math.max(1, at - now()),
      ),
    }
  }

  /** Until when a message may wait in the queue. */
  const patience = (job: Job, stuck: boolean): number => {
    // A window that is full moves with the answers; without a bind or in a pause nothing does.
    const holdMs = stuck ? settings.holdMs : settings.responseDeadlineMs
    return Math.min(job.lifetimeEnd, job.queuedAt + (isBegun(job) ? settings.laterPartsMs : holdMs))
  }

  const isStuck = () => waitOf(pace, now()) > 0 || !options.sessions().some((session) => session.isBound())

  /** Takes out of the queue what has waited too long. */
  const giveUp = () => {
    const at = now()
    const stuck = isStuck()
    for (const job of queue.filter((waiting) => patience(waiting, stuck) <= at)) {
      unqueue(job)
      if (!isBegun(job)) {
        // A lifetime that is over says nothing about the centre.
        finish(job, {
          ...refused(settings.retryMs),
          ...(job.lifetimeEnd <= at ? { affectsOnlyThis: true } : {}),
        })
        continue
      }
      // What is in flight is waited for.
      instead(job, { type: 'rejected', outcome: NEVER_WHOLE })
      settle(job)
    }
  }

  const wakeForNext = () => {
    if (queue.length === 0 || closed) return
    const stuck = isStuck()
    wakeAt(queue.reduce((next, job) => Math.min(next, patience(job, stuck)), Number.POSITIVE_INFINITY))
  }

  const write = (job: Job, session: Session) => {
    const index = job.parts.findIndex(({ type }) => type === 'waiting')
    const writtenAt = now()
    const validity = Math.max(1, (job.lifetimeEnd - writtenAt) / 1000)
    job.parts[index] = { type: 'written' }
    job.written++
    job.session ??= session
    session.request(
      'submit_sm',
      fieldsOf(job.submission, job.segments[index]!, validity, settings.numericSender),
      (answer) => {
        // The centre has forgotten this bind: it will take nothing on it any more.
        if (answer?.status === COMMAND_STATUS.ESME_RINVBNDSTS) session.close(settings.closeMs)
        answered(job, index, writtenAt, answer)
      },
    )
  }

  /** Writes what may go now. */
  const writeQueue = () => {
    const used = new Set<Session>()
    for (let job = queue[0]; job !== undefined; job = queue[0]) {
      const wait = waitOf(pace, now())
      if (wait > 0) {
        wakeAt(now() + wait)
        break
      }
      if (inFlight() >= pace.allowance) break
      const session = bindFor(job)
      if (session === null) break
      // Asked here, and the socket is written below, in the same tick: nothing else runs in between.
      if (!job.mayWrite()) {
        queue.shift()
        // Whoever took over knows no more of it than this.
        if (isBegun(job)) {
          instead(job, { type: 'lost' })
          settle(job)
        } else finish(job, { type: 'notWritten' })
        continue
      }
      if (job.session !== null && !job.session.isBound()) job.session = null
      write(job, session)
      used.add(session)
      if (!isWaiting(job)) queue.shift()
    }
    for (const session of used) session.flush()
  }

  function pump(): void {
    // An answer may bring the next message at once, in the midst of this.
    again = true
    if (pumping || queue.length === 0) return
    pumping = true
    while (again) {
      again = false
      giveUp()
      writeQueue()
    }
    wakeForNext()
    pumping = false
  }

  /** Codes go before what has not begun to leave; messages of one kind keep their order. */
  const enqueue = (job: Job) => {
    const behind =
      job.submission.urgent === true
        ? queue.findIndex((other) => other.submission.urgent !== true && !isBegun(other))
        : -1
    if (behind < 0) queue.push(job)
    else queue.splice(behind, 0, job)
  }

  return {
    submit: (batch, mayWrite, tell) => {
      const outcomes: Array<SubmitOutcome | null> = batch.map(() => null)
      let open = batch.length
      // Once it has said no, nothing more of the batch is written.
      let stopped = false
      const may = () => {
        if (!stopped) stopped = !mayWrite()
        return !stopped
      }
      const at = now()
      const jobs = batch.map((submission, i): Job => {
        const segments = segmentsOf(submission.text, reference)
        if (segments.length > 1) reference = (reference + 1) & 0xffff
        return {
          submission,
          segments,
          parts: segments.map(() => ({ type: 'waiting' })),
          mayWrite: may,
          queuedAt: at,
          lifetimeEnd: at + submission.validitySeconds * 1000,
          done: (outcome) => {
            outcomes[i] = outcome
            open--
            if (open === 0) tell(outcomes.map((told) => told ?? { type: 'unknown' }))
          },
          written: 0,
          refusedForMs: null,
          session: null,
          over: false,
        }
      })
      if (jobs.length === 0) tell([])
      else if (closed) for (const job of jobs) finish(job, refused(settings.retryMs))
      else {
        for (const job of jobs) enqueue(job)
        // What is submitted in one tick leaves in one write, at its end.
        if (!scheduled) {
          scheduled = true
          queueMicrotask(() => {
            scheduled = false
            pump()
          })
        }
      }
      return () => {
        for (const job of jobs) {
          if (!isBegun(job)) {
            unqueue(job)
            job.over = true
          }
        }
      }
    },
    pump,
    close: () => {
      closed = true
      if (wake !== null) clearTimeout(wake.timer)
      for (const [job, timer] of later) {
        clearTimeout(timer)
        finish(job, NEVER_WHOLE)
      }
      later.clear()
      for (const job of queue.splice(0)) {
        if (!isBegun(job)) {
          finish(job, refused(settings.retryMs))
          continue
        }
        instead(job, { type: 'rejected', outcome: NEVER_WHOLE })
        settle(job)
      }
    },
    waiting: () => queue.length + later.size,
    pace: () => pace,
  }
}
