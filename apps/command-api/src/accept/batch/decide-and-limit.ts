/**
 * Steps 1 and 2 of an acceptance batch: the query of its lookup, the decisions and the limits. Each step
 * returns the decisions that hold after it. Repeats and refusals are complete afterwards.
 */
import type { ApiError } from '@hub/contract'
import type { MessageClass } from '@hub/domain'
import { Effect, Result } from 'effect'
import type { MakeId } from '../../ids/ids.ts'
import { type Decision, decideSends, isNew, type NewSendDecision } from './decide.ts'
import { NOT_QUEUED, STORAGE_DOWN } from '../errors.ts'
import type { LedgerQuery, LedgerSnapshot, Reference } from '../ledger/ledger.port.ts'
import type { CheckedSend } from '../check/checked-send.ts'
import type { Corrections } from '../recovery/corrections.ts'
import { type SendLimits, reservationOf, type SendReservation } from './limits.ts'
import type { OtpInProgress } from './otp-in-progress.ts'
import { refuseSend } from './refuse-send.ts'
import type { PendingRequest, PendingSend } from '../request.ts'

/** A send of the acceptance batch and its decision, which a limit may change to a refusal. */
export interface DecidedSend {
  readonly send: PendingSend
  readonly decision: Decision
}
type Decided = ReadonlyArray<DecidedSend>

/** The send, with the message id under which an earlier commit has recorded it. */
const checkedOf = ({ checked, recordedBefore }: PendingSend): CheckedSend =>
  recordedBefore === null ? checked : { ...checked, messageId: recordedBefore.messageId }

/** The ledger query of an acceptance batch. */
export const ledgerQueryOf = (sends: ReadonlyArray<PendingSend>): LedgerQuery => {
  const references = new Map<string, Reference>()
  const recipients = new Set<string>()
  const remembered = new Set<string>()
  for (const send of sends) {
    const checked = checkedOf(send)
    const { clientRef, messageId, owner } = checked
    if (clientRef !== null) {
      references.set(`${owner.accountUuid}:${owner.mode}:${clientRef}`, { owner, clientRef })
    }
    if (messageId !== null) remembered.add(messageId)
    if (checked.class === 'service' && owner.mode === 'live') recipients.add(checked.recipient)
  }
  return {
    references: [...references.values()],
    recipients: [...recipients],
    remembered: [...remembered],
  }
}

/** The message id of a send that is accepted or republished. */
export const messageIdOf = (send: PendingSend, decision: NewSendDecision): string => {
  const id = decision.type === 'republish' ? decision.messageId : send.messageId
  if (id === null) throw new Error('an accepted send has no message id; registerDecisions must assign it')
  return id
}

/**
 * Decides the sends and registers, in the same synchronous step, codes in progress and their
 * repeats. Message ids rise in the order of the sends, in which a batch lists its messages.
 */
export const registerDecisions = (
  makeMessageId: MakeId,
  otpInProgress: OtpInProgress,
  sends: ReadonlyArray<PendingSend>,
  { at, known, optedOut, recorded }: LedgerSnapshot,
): Decided => {
  const decisions = decideSends(sends.map(checkedOf), {
    known,
    recorded,
    optedOut,
    acknowledged: otpInProgress.isAcknowledged,
    inProgress: otpInProgress.isInProgress,
  })
  const decided = sends.map((send, i): DecidedSend => ({ send, decision: decisions[i]! }))
  const withoutId = decided.filter(
    ({ decision, send }) => decision.type === 'accept' && send.messageId === null,
  )
  const ids = withoutId.map(() => makeMessageId(at)).toSorted()
  for (const [i, { send }] of withoutId.entries()) send.identify(ids[i]!)
  for (const { decision, send } of decided) {
    send.request.create(at)
    if (decision.type === 'join') otpInProgress.join(decision.messageId, send, decision.view)
    else if (isNew(decision) && decision.draft.class === 'otp')
      otpInProgress.begin(messageIdOf(send, decision))
  }
  return decided
}

const refuse = ({ send }: DecidedSend, error: ApiError): DecidedSend => ({
  send,
  decision: { type: 'refuse', error },
})
const unavailable = (messageClass: MessageClass): ApiError =>
  messageClass === 'otp' ? NOT_QUEUED : STORAGE_DOWN

/** Refuses new sends of a class without a payload key. Repeats need none. */
export const refuseWithoutKey = (keys: ReadonlyMap<MessageClass, unknown>, decided: Decided): Decided =>
  decided.map((one) => {
    if (!isNew(one.decision)) return one
    const { class: messageClass } = one.decision.draft
    return keys.has(messageClass) ? one : refuse(one, unavailable(messageClass))
  })

/** Applies the hub's daily limit once per request: it is refused as a whole. */
export const applyDailyLimit = Effect.fnUntraced(function* (
  limits: Pick<SendLimits['Service'], 'daily'>,
  at: number,
  decided: Decided,
) {
  const creating = new Set(decided.filter(({ decision }) => isNew(decision)).map(({ send }) => send.request))
  if (creating.size === 0) return decided
  const today = yield* Effect.cached(limits.daily(at))
  const refused = new Map<PendingRequest, ApiError>()
  for (const request of creating) {
    const error = yield* request.dailyLimit(today)
    if (error !== null) refused.set(request, error)
  }
  if (refused.size === 0) return decided
  return decided.map((one) => {
    const error = refused.get(one.send.request)
    return error === undefined || one.decision.type === 'join' ? one : refuse(one, error)
  })
})

/** Reserves new sends in the flood windows of their recipients, or refuses them. */
export const reserveFloodWindows = Effect.fnUntraced(function* (
  limits: Pick<SendLimits['Service'], 'reserve'>,
  decided: Decided,
) {
  const asking = new Map<DecidedSend, SendReservation>()
  for (const one of decided) {
    const { decision, send } = one
    if (isNew(decision))
      asking.set(one, reservationOf(send.checked, decision.draft, messageIdOf(send, decision)))
  }
  if (asking.size === 0) return decided
  const errors = yield* limits.reserve([...asking.values()])
  const refused = new Map<DecidedSend, ApiError>()
  for (const [i, [one, reservation]] of [...asking].entries()) {
    const error = errors[i] ?? null
    if (error === null) one.send.reserve(reservation)
    else refused.set(one, error)
  }
  if (refused.size === 0) return decided
  return decided.map((one) => {
    const error = refused.get(one)
    return error === undefined ? one : refuse(one, error)
  })
})

/** Completes repeats and refusals. Returns the reservations that nobody uses. */
export const completeKnown = (
  corrections: Pick<Corrections, 'refund'>,
  decided: Decided,
): ReadonlyArray<SendReservation> => {
  const unused: Array<SendReservation> = []
  for (const { decision, send } of decided) {
    if (decision.type === 'refuse') refuseSend(corrections, send, decision.error)
    if (decision.type !== 'duplicate') continue
    // Another send got its client_ref after this one had made a reservation. The two share it if
    // their recipients are equal. Otherwise nobody uses it.
    const { reservation } = send
    if (reservation !== null && decision.recipient !== send.checked.recipient) unused.push(reservation)
    send.finish(Result.succeed({ view: decision.view, duplicate: !decision.byKey }))
  }
  return unused
}

/**
 * Refuses new sends whose request has reached a deadline, and returns their reservations, which nobody
 * uses. Afterwards the other new sends are `Recording`. Synchronous, so nothing is refused between this
 * step and the commit.
 */
export const beginRecording = (
  corrections: Pick<Corrections, 'refund'>,
  now: number,
  decided: Decided,
): { readonly decided: Decided; readonly unused: ReadonlyArray<SendReservation> } => {
  const unused: Array<SendReservation> = []
  const inTime = decided.map((one) => {
    const { decision, send } = one
    if (!isNew(decision)) return one
    if (send.outcome === null && (now < send.request.recordBefore || send.recordedBefore !== null)) {
      send.record()
      return one
    }
    if (send.reservation !== null) unused.push(send.reservation)
    const error = unavailable(decision.draft.class)
    refuseSend(corrections, send, error)
    return refuse(one, error)
  })
  return { decided: inTime, unused }
}
