/**
 * Decides each send of an acceptance batch: accept, republish, refuse, or answer as a repeat. Pure.
 */
import { type ApiError, apiError, paramAt } from '@hub/contract'
import { Result } from 'effect'
import type { Owner } from '../../accounts/account.ts'
import type { MessageView } from '../../messages/message.ts'
import { type CheckedSend, type MessageDraft } from '../check/checked-send.ts'

/** The identity of a `client_ref`: it is unique within an account and mode. */
export const refKey = (owner: Pick<Owner, 'account' | 'mode'>, clientRef: string): string =>
  `${owner.account}:${owner.mode}:${clientRef}`

/** The message that a used `client_ref` belongs to. */
export interface EarlierMessage {
  readonly view: MessageView
  /** Recipient hash. */
  readonly recipient: string
  /** True if Kafka has certainly acknowledged its record. */
  readonly published: boolean
  /** True for a code that Kafka certainly does not contain: none of its tries was given to Kafka. */
  readonly unpublished: boolean
}

/** What is known when an acceptance batch is decided. */
export interface Knowledge {
  /** By `refKey`. `null`: the reference is used, but its message does not exist. */
  readonly known: ReadonlyMap<string, EarlierMessage | null>
  /** By message id: the recorded ones of the ids that idempotency keys remember. */
  readonly recorded: ReadonlyMap<string, EarlierMessage>
  /** Recipient hashes. */
  readonly optedOut: ReadonlySet<string>
  /** True if this process has received Kafka's acknowledgement of the code. */
  readonly acknowledged: (messageId: string) => boolean
  /** True while this process records and publishes the code. */
  readonly inProgress: (messageId: string) => boolean
}

export type Decision =
  /** A new message: record it under a new id. */
  | { readonly type: 'accept'; readonly draft: MessageDraft }
  /**
   * A code that Kafka has not acknowledged: publish it again under its id. `batch`: `bat_…`, the
   * batch of the message. It never changes once Kafka may contain the code. `duplicate`: the message
   * belongs to an earlier request.
   */
  | {
      readonly type: 'republish'
      readonly messageId: string
      readonly batch: string | null
      readonly duplicate: boolean
      readonly draft: MessageDraft
    }
  /**
   * A repeat: answer with the earlier message. `byKey`: only the idempotency key makes it a repeat.
   * Its first response was lost, so the client gets this one as the first. `recipient`: recipient
   * hash of the earlier message.
   */
  | {
      readonly type: 'duplicate'
      readonly view: MessageView
      readonly byKey: boolean
      readonly recipient: string
    }
  /** A repeat of a code that this process is publishing: it gets the same outcome. */
  | { readonly type: 'join'; readonly messageId: string; readonly view: MessageView }
  /** Follows an earlier send of this batch (its index) with the same new reference. */
  | { readonly type: 'follow'; readonly leader: number }
  | { readonly type: 'refuse'; readonly error: ApiError }

export type NewSendDecision = Extract<Decision, { readonly draft: MessageDraft }>
export const isNew = (decision: Decision): decision is NewSendDecision =>
  decision.type === 'accept' || decision.type === 'republish'

const refuse = (error: ApiError): Decision => ({ type: 'refuse', error })

const OTHER_CODE =
  'This client_ref belongs to a code for another recipient or class that may still be sent. Use a new client_ref.'

/**
 * A `service` message is accepted when it is recorded. A code is accepted only when Kafka has it.
 * An acknowledgement, the read model or a sealed batch proves that. Until then a repeat publishes
 * the code again and waits.
 */
const decideRepeat = (
  send: CheckedSend,
  known: EarlierMessage | null,
  knowledge: Knowledge,
  byKey = false,
): Decision => {
  // One transaction writes both, so the database is damaged or partly restored.
  if (known === null)
    return refuse(apiError('internal_error', { retryAfter: 5, reason: 'a used reference has no message' }))
  const { view } = known
  if (view.class === 'service' || known.published || knowledge.acknowledged(view.id)) {
    return { type: 'duplicate', view, byKey, recipient: known.recipient }
  }
  if (knowledge.inProgress(view.id)) return { type: 'join', messageId: view.id, view }
  // One id never has two recipients: if Kafka has the first record, both would get a message.
  if (send.class !== 'otp' || send.recipient !== known.recipient) {
    const param = paramAt(send.path, 'client_ref')
    return refuse(apiError('invalid_parameter', { param, message: OTHER_CODE }))
  }
  if (Result.isFailure(send.draft)) return refuse(send.draft.failure)
  const batch = known.unpublished ? send.batch : view.batch
  const duplicate = batch !== send.batch
  return { type: 'republish', messageId: view.id, batch, duplicate, draft: send.draft.success }
}

/** Opt-outs apply to `service` messages only. In test mode one sandbox number is opted out. */
const isOptedOut = (send: CheckedSend, draft: MessageDraft, knowledge: Knowledge): boolean =>
  draft.class === 'service' &&
  (send.owner.mode === 'test' ? draft.scenario === 'opted_out' : knowledge.optedOut.has(send.recipient))

const decideNew = (send: CheckedSend, knowledge: Knowledge): Decision => {
  if (Result.isFailure(send.draft)) return refuse(send.draft.failure)
  const draft = send.draft.success
  if (isOptedOut(send, draft, knowledge)) {
    return refuse(apiError('recipient_opted_out', { param: paramAt(send.path, 'to') }))
  }
  return { type: 'accept', draft }
}

/**
 * Of several sends with one new reference, the first is decided. The others follow it: they are
 * duplicates only once it is recorded.
 */
export const decideSends = (
  sends: ReadonlyArray<CheckedSend>,
  knowledge: Knowledge,
): ReadonlyArray<Decision> => {
  const leaders = new Map<string, number>()
  return sends.map((send, index) => {
    if (send.clientRef === null) {
      const recorded = send.messageId === null ? undefined : knowledge.recorded.get(send.messageId)
      return recorded === undefined
        ? decideNew(send, knowledge)
        : decideRepeat(send, recorded, knowledge, true)
    }
    const key = refKey(send.owner, send.clientRef)
    const leader = leaders.get(key)
    if (leader !== undefined) return { type: 'follow', leader }
    const known = knowledge.known.get(key)
    // Its own id: its commit was reported as failed.
    const isOwn = known != null && known.view.id === send.messageId
    const decision =
      known === undefined ? decideNew(send, knowledge) : decideRepeat(send, known, knowledge, isOwn)
    if (isNew(decision)) leaders.set(key, index)
    return decision
  })
}
