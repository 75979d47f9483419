/**
 * Steps 1 and 2 of an acceptance batch: the query of its lookup, the decisions and the limits.
 * Repeats and refusals are complete afterwards.
 */
import { type ApiError, apiError } from '@hub/contract'
import { Effect, Result } from 'effect'
import { type AcceptorContext, cancelOtp, releaseInBackground } from './acceptor-context.ts'
import { type Decision, decideSends, isNew, type NewSendDecision } from './decide.ts'
import type { LedgerQuery, LedgerSnapshot, Reference } from './ledger.port.ts'
import { reservationOf, type SendReservation } from './limits.ts'
import type { PendingRequest, PendingSend } from './pending-send.ts'

/** A send of the acceptance batch and its decision, which a limit may change to a refusal. */
export interface DecidedSend {
  readonly send: PendingSend
  decision: Decision
}

/** The ledger query of an acceptance batch. */
export const ledgerQueryOf = (sends: ReadonlyArray<PendingSend>): LedgerQuery => {
  const references = new Map<string, Reference>()
  const recipients = new Set<string>()
  const remembered = new Set<string>()
  for (const { checked } of sends) {
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
  const id = decision.type === 'republish' ? decision.messageId : (send.messageId ?? send.checked.messageId)
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
  const decisions = decideSends(
    sends.map(({ checked }) => checked),
    {
      known,
      recorded,
      optedOut,
      acknowledged: otpInProgress.isAcknowledged,
      inProgress: otpInProgress.isInProgress,
    },
  )
  const decided = sends.map((send, i): DecidedSend => ({ send, decision: decisions[i]! }))
  const withoutId = decided.filter(
    ({ decision, send }) =>
      decision.type === 'accept' && send.messageId === null && send.checked.messageId === null,
  )
  const ids = withoutId.map(() => makeMessageId(at)).toSorted()
  for (const [i, { send }] of withoutId.entries()) send.messageId = ids[i]!
  for (const { decision, send } of decided) {
    send.request.createdAt ??= at
    if (decision.type === 'join') otpInProgress.join(decision.messageId, { send, view: decision.view })
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

/** Applies the hub's daily limit once per request: it is refused as a whole. */
export const applyDailyLimit = Effect.fnUntraced(function* (
  acceptor: AcceptorContext,
  at: number,
  decided: ReadonlyArray<DecidedSend>,
) {
  const creating = new Set(decided.filter(({ decision }) => isNew(decision)).map(({ send }) => send.request))
  if (creating.size === 0) return
  const today = yield* Effect.cached(acceptor.limits.daily(at))
  for (const request of creating) request.dailyLimitRetryAfter ??= today
  const refused = new Map<PendingRequest, ApiError>()
  for (const request of creating) {
    const seconds = yield* request.dailyLimitRetryAfter ?? today
    if (seconds !== null) refused.set(request, apiError('hub_daily_limit_reached', { retryAfter: seconds }))
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
    if (error === null) one.send.reserved = true
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
    if (decision.type === 'refuse') acceptor.pending.refuse(send, decision.error)
    if (decision.type !== 'duplicate') continue
    const { checked } = send
    // Another send got its client_ref after this one had made a reservation. The two share it if
    // their recipients are equal. Otherwise nobody uses it.
    if (send.reserved && decision.recipient !== checked.recipient && Result.isSuccess(checked.draft)) {
      unused.push(reservationOf(checked, checked.draft.success, decision.view.id))
    }
    send.reserved = false
    acceptor.pending.accept(send, decision.view, !decision.byKey)
  }
  yield* releaseInBackground(acceptor, unused)
})
