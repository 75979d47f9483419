/**
 * Submits messages to the SMSC: splits them into parts, distributes the parts over the binds within
 * the window, and reports one outcome for each message when all of its parts are
 * answered. Every message leaves the queue by a deadline. The outcome of several parts:
 * - all parts accepted: `accepted` with all ids;
 * - a part rejected permanently: `rejected`. The message can never be complete, and another submit
 *   would repeat the accepted parts. Reports of these parts match no message;
 * - parts refused for now while others are (or may be) accepted: only the refused parts are
 *   submitted again, within the lifetime and for at most `laterPartsMs`; then `rejected`;
 * - parts refused for now and none accepted: `refused`, so that the caller submits it again;
 * - the answer to a part lost: `unknown`, once the other parts are answered.
 */
import { stopAtFirstRefusal, type Submission, type SubmitOutcome, THROTTLED_RETRY_MS } from '../port.ts'
import { COMMAND_STATUS, meaningOfStatus } from './errors.ts'
import { canonicalId } from './ids.ts'
import type { SmppMetrics } from './metrics.ts'
import type { Pdu } from './pdu/index.ts'
import {
  hasWaitingParts,
  isStarted,
  mayBeAccepted,
  type PendingMessage,
  replaceWaitingParts,
} from './pending-message.ts'
import { makeReferences } from './references.ts'
import type { Session } from './session.ts'
import type { SmppSettings } from './settings.ts'
import { submitSmFields } from './submit-sm.ts'
import { segmentsOf } from './text.ts'

/**
 * The longest wait before the retry of a throttled part. It doubles with each throttled answer to the
 * message.
 */
const LONGEST_RETRY_MS = 8000

/** The outcome of a message that can never be complete. */
const INCOMPLETE: SubmitOutcome = { type: 'rejected', reason: 'operator_rejected' }

interface SubmitterOptions {
  readonly settings: SmppSettings
  readonly sessions: () => ReadonlyArray<Session>
  readonly metrics: SmppMetrics
  readonly onThrottled: () => void
  /** The SMSC answered a part, in any way. */
  readonly onAnswer: (submission: Submission, frame: Uint8Array) => void
  /** The SMSC refused a part, for now or permanently. */
  readonly onRefused: (status: number) => void
}

export const makeSubmitter = (options: SubmitterOptions) => {
  const { metrics, settings } = options
  const now = () => performance.now()
  const queue: Array<PendingMessage> = []
  /** Messages that return to the queue later: for a retry, or for their next part. */
  const laterTimers = new Map<PendingMessage, NodeJS.Timeout>()
  const nextReference = makeReferences()
  let closed = false
  let isPumping = false
  let pumpAgain = false
  let isPumpScheduled = false
  let wakeUp: { readonly at: number; readonly timer: NodeJS.Timeout } | null = null

  const finish = (message: PendingMessage, outcome: SubmitOutcome) => {
    if (message.isFinished) return
    message.isFinished = true
    const { throttledParts } = message
    message.onOutcome(throttledParts > 0 ? { ...outcome, throttledParts } : outcome)
  }

  const refused = (retryAfterMs: number, submitted: boolean): SubmitOutcome => ({
    type: 'refused',
    submitted,
    retryAfterMs,
  })

  const removeFromQueue = (message: PendingMessage) => {
    clearTimeout(laterTimers.get(message))
    laterTimers.delete(message)
    const at = queue.indexOf(message)
    if (at >= 0) queue.splice(at, 1)
  }

  const returnLater = (message: PendingMessage, afterMs: number) => {
    laterTimers.set(
      message,
      setTimeout(() => {
        laterTimers.delete(message)
        queue.unshift(message)
        pump()
      }, afterMs),
    )
  }

  const retryLater = (message: PendingMessage, retryInMs: number) => {
    const until = Math.min(message.lifetimeEnd, message.queuedAt + settings.laterPartsMs)
    if (closed || now() + retryInMs >= until) return finish(message, INCOMPLETE)
    message.retryInMs = null
    returnLater(message, retryInMs)
  }

  /** Decides the outcome or the retry of a message, once all of its written parts are answered. */
  const settle = (message: PendingMessage) => {
    if (message.isFinished || message.unanswered > 0) return
    const rejected = message.parts.find((part) => part.type === 'rejected')
    if (rejected !== undefined) {
      removeFromQueue(message)
      return finish(message, rejected.outcome)
    }
    if (hasWaitingParts(message)) {
      if (message.retryInMs === null) return
      removeFromQueue(message)
      return mayBeAccepted(message)
        ? retryLater(message, message.retryInMs)
        : finish(message, refused(message.retryInMs, true))
    }
    const ids = message.parts.flatMap((part) => (part.type === 'accepted' ? [part.id] : []))
    finish(
      message,
      ids.length === message.parts.length ? { type: 'accepted', operatorIds: ids } : { type: 'unknown' },
    )
  }

  const handleAnswer = (message: PendingMessage, index: number, answer: Pdu | null) => {
    message.unanswered--
    if (answer !== null) options.onAnswer(message.submission, answer.frame)
    if (answer === null) {
      metrics.submitted('lost')
      message.parts[index] = { type: 'lost' }
    } else if (answer.command !== 'generic_nack' && answer.status === 0) {
      const id = canonicalId(settings.idFormat, 'answer', answer.text('message_id'))
      metrics.submitted(id === null ? 'lost' : 'accepted')
      // Without an id no report can be matched to the part, so its outcome is unknown.
      message.parts[index] = id === null ? { type: 'lost' } : { type: 'accepted', id }
    } else {
      const meaning = meaningOfStatus(settings.errors, answer.status)
      switch (meaning) {
        case 'throttled':
          metrics.submitted('throttled')
          options.onThrottled()
          message.parts[index] = { type: 'waiting' }
          message.throttledParts++
          if (message.parts.length > 1) message.onThrottled()
          message.retryInMs ??= Math.min(
            LONGEST_RETRY_MS,
            THROTTLED_RETRY_MS * 2 ** (message.throttledParts - 1),
          )
          break
        case 'retry':
          metrics.submitted('retry')
          options.onRefused(answer.status)
          message.parts[index] = { type: 'waiting' }
          message.retryInMs = settings.retryMs
          break
        default:
          metrics.submitted('rejected')
          options.onRefused(answer.status)
          message.parts[index] = { type: 'rejected', outcome: { type: 'rejected', reason: meaning } }
      }
      removeFromQueue(message)
    }
    settle(message)
  }

  /** The session can take submits, perhaps after an answer. */
  const isUsable = (session: Session) => session.isBound() && !session.isStalled()

  /** Selects the least loaded session. Parts of a message use the same one while it is usable. */
  const selectSession = (message: PendingMessage): Session | null => {
    const hasRoom = (session: Session) => session.canWrite() && session.inFlight() < settings.window
    const { session } = message
    if (session !== null && isUsable(session)) return hasRoom(session) ? session : null
    let best: Session | null = null
    for (const session of options.sessions()) {
      if (hasRoom(session) && (best === null || session.inFlight() < best.inFlight())) best = session
    }
    return best
  }

  const wakeAt = (at: number) => {
    if (wakeUp !== null && wakeUp.at <= at) return
    if (wakeUp !== null) clearTimeout(wakeUp.timer)
    wakeUp = {
      at,
      timer: setTimeout(
        () => {
          wakeUp = null
          pump()
        },
        Math.max(1, at - now()),
      ),
    }
  }

  const isBlocked = () => !options.sessions().some(isUsable)

  /** Returns the time until which a message may wait in the queue. */
  const queueDeadline = (message: PendingMessage, blocked: boolean): number => {
    // A full window moves with the answers. Without a bind nothing moves.
    const holdMs = blocked ? settings.holdMs : settings.responseDeadlineMs
    return Math.min(
      message.lifetimeEnd,
      message.queuedAt + (isStarted(message) ? settings.laterPartsMs : holdMs),
    )
  }

  /** Removes the messages whose queue deadline has passed. */
  const removeOverdue = () => {
    const at = now()
    const blocked = isBlocked()
    for (const message of queue.filter((candidate) => queueDeadline(candidate, blocked) <= at)) {
      removeFromQueue(message)
      if (!isStarted(message)) {
        // The end of the message's own lifetime is no sign of a problem at the SMSC.
        finish(message, {
          ...refused(settings.retryMs, false),
          ...(message.lifetimeEnd <= at ? { affectsOnlyThis: true } : {}),
        })
        continue
      }
      // The outcome follows when the parts in flight are answered.
      replaceWaitingParts(message, { type: 'rejected', outcome: INCOMPLETE })
      settle(message)
    }
  }

  const wakeAtNextDeadline = () => {
    if (queue.length === 0 || closed) return
    const blocked = isBlocked()
    wakeAt(
      queue.reduce(
        (next, message) => Math.min(next, queueDeadline(message, blocked)),
        Number.POSITIVE_INFINITY,
      ),
    )
  }

  const write = (message: PendingMessage, session: Session) => {
    const index = message.parts.findIndex(({ type }) => type === 'waiting')
    const validity = Math.max(1, (message.lifetimeEnd - now()) / 1000)
    message.parts[index] = { type: 'written' }
    message.unanswered++
    message.session ??= session
    session.request(
      'submit_sm',
      submitSmFields(message.submission, message.segments[index]!, validity, settings.numericSender),
      (answer) => {
        // The SMSC does not know this bind any more and will accept nothing on it.
        if (answer?.status === COMMAND_STATUS.ESME_RINVBNDSTS) session.close(settings.closeMs)
        handleAnswer(message, index, answer)
      },
    )
  }

  const writeQueue = () => {
    const used = new Set<Session>()
    for (let message = queue[0]; message !== undefined; message = queue[0]) {
      const session = selectSession(message)
      if (session === null) break
      // `flush` below writes the socket in the same tick, so the lease cannot end in between.
      if (!message.mayWrite()) {
        queue.shift()
        // The new owner of the shard does not know the outcome either.
        if (isStarted(message)) {
          replaceWaitingParts(message, { type: 'lost' })
          settle(message)
        } else finish(message, { type: 'notWritten' })
        continue
      }
      if (message.session !== null && !isUsable(message.session)) message.session = null
      write(message, session)
      used.add(session)
      const gapMs = message.submission.partGapMs ?? 0
      if (!hasWaitingParts(message)) queue.shift()
      else if (gapMs > 0) {
        queue.shift()
        returnLater(message, gapMs)
      }
    }
    for (const session of used) session.flush()
  }

  /** Writes all parts that can be written now. */
  function pump(): void {
    // An outcome may add the next message synchronously, while this function runs.
    pumpAgain = true
    if (isPumping || queue.length === 0) return
    isPumping = true
    while (pumpAgain) {
      pumpAgain = false
      removeOverdue()
      writeQueue()
    }
    wakeAtNextDeadline()
    isPumping = false
  }

  /** Puts urgent messages before other messages that are not started. */
  const enqueue = (message: PendingMessage) => {
    const before =
      message.submission.urgent === true
        ? queue.findIndex((other) => other.submission.urgent !== true && !isStarted(other))
        : -1
    if (before < 0) queue.push(message)
    else queue.splice(before, 0, message)
  }

  return {
    /** Submits messages. The returned function withdraws those that are not started. */
    submit: (
      batch: ReadonlyArray<Submission>,
      mayWrite: () => boolean,
      onOutcomes: (outcomes: ReadonlyArray<SubmitOutcome>) => void,
      onThrottled: () => void = () => {},
    ) => {
      const outcomes: Array<SubmitOutcome | null> = batch.map(() => null)
      let open = batch.length
      const mayWriteBatch = stopAtFirstRefusal(mayWrite)
      const at = now()
      const messages = batch.map((submission, i): PendingMessage => {
        const segments = segmentsOf(submission.text, () => nextReference(submission.recipient))
        return {
          submission,
          segments,
          parts: segments.map(() => ({ type: 'waiting' })),
          mayWrite: mayWriteBatch,
          queuedAt: at,
          lifetimeEnd: at + submission.validitySeconds * 1000,
          onOutcome: (outcome) => {
            outcomes[i] = outcome
            open--
            if (open === 0) onOutcomes(outcomes.map((known) => known ?? { type: 'unknown' }))
          },
          onThrottled,
          unanswered: 0,
          throttledParts: 0,
          retryInMs: null,
          session: null,
          isFinished: false,
        }
      })
      if (messages.length === 0) onOutcomes([])
      else if (closed) for (const message of messages) finish(message, refused(settings.retryMs, false))
      else {
        for (const message of messages) enqueue(message)
        // All messages submitted in one tick leave in one write at its end.
        if (!isPumpScheduled) {
          isPumpScheduled = true
          queueMicrotask(() => {
            isPumpScheduled = false
            pump()
          })
        }
      }
      return () => {
        for (const message of messages) {
          if (!isStarted(message)) {
            removeFromQueue(message)
            message.isFinished = true
          }
        }
      }
    },
    pump,
    /** Reports an outcome for every message that is not written, and accepts no more messages. */
    close: () => {
      closed = true
      if (wakeUp !== null) clearTimeout(wakeUp.timer)
      for (const timer of laterTimers.values()) clearTimeout(timer)
      const all = [...laterTimers.keys(), ...queue.splice(0)]
      laterTimers.clear()
      for (const message of all) {
        if (!isStarted(message)) {
          finish(message, refused(settings.retryMs, false))
          continue
        }
        replaceWaitingParts(message, { type: 'rejected', outcome: INCOMPLETE })
        settle(message)
      }
    },
    waiting: () => queue.length + laterTimers.size,
  }
}
