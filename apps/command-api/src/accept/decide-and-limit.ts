/**
 * Steps 1 and 2 of an acceptance batch: the query of its lookup, the decisions and the limits.
 * Repeats and refusals are complete afterwards.
 */
import type { ApiError } from '@hub/contract'
import type { MessageClass } from '@hub/domain'
import { Effect, Result } from 'effect'
import { type AcceptorContext, cancelOtp, releaseInBackground } from './acceptor-context.ts'
import { type Decision, decideSends, isNew, type NewSendDecision } from './decide.ts'
import { NOT_QUEUED, STORAGE_DOWN } from './errors.ts'
import type { LedgerQuery, LedgerSnapshot, Reference } from './ledger.port.ts'
import type { CheckedSend } from './checked-send.ts'
import { reservationOf, type SendReservation } from './limits.ts'
import type { PendingRequest, PendingSend } from './request.ts'

/** A send of the acceptance batch and its decision, which a limit may change to a refusal. */
export interface DecidedSend {
  readonly send: PendingSend
  decision: Decision
}

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
  { makeMessageId, otpInProgress }: AcceptorContext,
  sends: ReadonlyArray<PendingSend>,
  { at, known, optedOut, recorded }: LedgerSnapshot,
): ReadonlyArray<DecidedSend> => {
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

/** A limit refuses the send. */
const refuseNew = (acceptor: AcceptorContext, one: DecidedSend, error: ApiError): void => {
  if (isNew(one.decision)) cancelOtp(acceptor, messageIdOf(one.send, one.decision))
  one.decision = { type: 'refuse', error }
}

/** Refuses new sends of a class without a payload key. Repeats need none. */
export const refuseWithoutKey = (
  acceptor: AcceptorContext,
  keys: ReadonlyMap<MessageClass, unknown>,
  decided: ReadonlyArray<DecidedSend>,
): void => {
  for (const one of decided) {
    if (!isNew(one.decision)) continue
    const { class: messageClass } = one.decision.draft
    if (!keys.has(messageClass)) refuseNew(acceptor, one, messageClass === 'otp' ? NOT_QUEUED : STORAGE_DOWN)
  }
}

/** Applies the hub's daily limit once per request: it is refused as a whole. */
export const applyDailyLimit = Effect.fnUntraced(function* (
  acceptor: AcceptorContext,
  at: number,
  decided: ReadonlyArray<DecidedSend>,
) {
  const creating = new Set(decided.filter(({ decision }) => isNew(decision)).map(({ send }) => send.request))
  if (creating.size === 0) return
  const today = yield* Effect.cached(acceptor.limits.daily(at))
  const refused = new Map<PendingRequest, ApiError>()
  for (const request of creating) {
    const error = yield* request.dailyLimit(today)
    if (error !== null) refused.set(request, error)
  }
  if (refused.size === 0) return
  for (const one of decided) {
    const error = refused.get(one.send.request)
    if (error !== undefined && one.decision.type !== 'join') refuseNew(acceptor, one, error)
  }
})

export const reserveFloodWindows = Effect.fnUntraced(function* (
  acceptor: AcceptorContext,
  decided: ReadonlyArray<DecidedSend>,
) {
  const asking: Array<DecidedSend> = []
  const reservations: Array<SendReservation> = []
  for (const one of decided) {
    const { decision, send } = one
    if (!isNew(decision)) continue
    asking.push(one)
    reservations.push(reservationOf(send.checked, decision.draft, messageIdOf(send, decision)))
  }
  if (asking.length === 0) return
  const errors = yield* acceptor.limits.reserve(reservations)
  for (const [i, one] of asking.entries()) {
    const error = errors[i] ?? null
    if (error === null) one.send.reserve(reservations[i]!)
    else refuseNew(acceptor, one, error)
  }
})

/** Completes repeats and refusals. */
export const completeKnown = Effect.fnUntraced(function* (
  acceptor: AcceptorContext,
  decided: ReadonlyArray<DecidedSend>,
) {
  const unused: Array<SendReservation> = []
  for (const { decision, send } of decided) {
    if (decision.type === 'refuse') acceptor.unresolved.refuse(send, decision.error)
    if (decision.type !== 'duplicate') continue
    // Another send got its client_ref after this one had made a reservation. The two share it if
    // their recipients are equal. Otherwise nobody uses it.
    const { reservation } = send
    if (reservation !== null && decision.recipient !== send.checked.recipient) unused.push(reservation)
    send.finish(Result.succeed({ view: decision.view, duplicate: !decision.byKey }))
  }
  yield* releaseInBackground(acceptor, unused)
})

/**
 * Withdraws new sends whose request has reached a deadline: they are refused or must be. Afterwards
 * the others are `recording`. Synchronous, so nothing is refused between this step and the commit.
 */
export const withdrawLate = (
  acceptor: AcceptorContext,
  now: number,
  decided: ReadonlyArray<DecidedSend>,
): ReadonlyArray<SendReservation> => {
  const unused: Array<SendReservation> = []
  for (const one of decided) {
    const { decision, send } = one
    if (!isNew(decision)) continue
    if (send.outcome === null && (now < send.request.recordBefore || send.recordedBefore !== null)) {
      send.record()
      continue
    }
    if (send.reservation !== null) unused.push(send.reservation)
    const error = decision.draft.class === 'otp' ? NOT_QUEUED : STORAGE_DOWN
    refuseNew(acceptor, one, error)
    acceptor.unresolved.refuse(send, error)
  }
  return unused
}
