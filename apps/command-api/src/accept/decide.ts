/**
 * What becomes of each send of a flush. Pure: what is known goes in, decisions come out, one for each checked, in order.
 */
import { type ApiError, apiError } from '@hub/contract'
import { Result } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { MessageView } from '../messages/message.ts'
import type { CheckedSend, MessageDraft } from './checked-send.ts'

/** What makes a repeat a repeat: the `client_ref` within its account and mode. */
export const refKey = (owner: Pick<Owner, 'account' | 'mode'>, clientRef: string): string =>
  `${owner.account}:${owner.mode}:${clientRef}`

/** The message that a used `client_ref` belongs to. */
export interface KnownMessage {
  readonly view: MessageView
  /** Recipient hash. */
  readonly recipient: string
  /** Its record has gone through Kafka. */
  readonly published: boolean
}

/** What is known when a flush is decided. */
export interface Knowledge {
  /** By `refKey`; `null` where the reference is used and its message is nowhere to be found. */
  readonly known: ReadonlyMap<string, KnownMessage | null>
  /** By message id: those that were asked for because an idempotency key remembers them, and are recorded. */
  readonly recorded: ReadonlyMap<string, KnownMessage>
  /** Recipient hashes. */
  readonly optedOut: ReadonlySet<string>
  /** Whether this process has seen Kafka acknowledge a code. */
  readonly acknowledged: (messageId: string) => boolean
  /** Whether this process is publishing a code right now. */
  readonly inFlight: (messageId: string) => boolean
}

export type Decision =
  /** New: to be recorded under a new id. */
  | { readonly type: 'accept'; readonly draft: MessageDraft }
  /** A code whose publication was never acknowledged: to be published again under its id. */
  | { readonly type: 'republish'; readonly messageId: string; readonly draft: MessageDraft }
  /**
   * A repeat: the earlier message as it stands. `byKey`: of the idempotency key alone, whose first answer never arrived, so
   * that this one is the first. `recipient`: the earlier message's, hashed.
   */
  | {
      readonly type: 'duplicate'
      readonly view: MessageView
      readonly byKey: boolean
      readonly recipient: string
    }
  /** A repeat of a code that is being published: its answer is that publication's. */
  | { readonly type: 'join'; readonly messageId: string; readonly view: MessageView }
  /** The same reference came earlier in this flush, at this place: a duplicate of that one, if that one is accepted. */
  | { readonly type: 'follow'; readonly leader: number }
  | { readonly type: 'refuse'; readonly error: ApiError }

const refuse = (error: ApiError): Decision => ({ type: 'refuse', error })

const OTHER_CODE =
  'This client_ref belongs to a code for another recipient or class that may still be sent. Use a new client_ref.'

/**
 * A repeat. A `service` message is safe once it is recorded. A code is accepted only when Kafka has it, which an
 * acknowledgement, the read model or a sealed batch proves; until then a repeat publishes it again and waits.
 */
const decideRepeat = (
  checked: CheckedSend,
  known: KnownMessage | null,
  knowledge: Knowledge,
  byKey = false,
): Decision => {
  // Ledger and guard are written together, so this is a damaged or half-restored database.
  if (known === null) return refuse(apiError('internal_error', { retryAfter: 5 }))
  const { view } = known
  if (view.class === 'service' || known.published || knowledge.acknowledged(view.id)) {
    return { type: 'duplicate', view, byKey, recipient: known.recipient }
  }
  if (knowledge.inFlight(view.id)) return { type: 'join', messageId: view.id, view }
  // Under one id there must never be two recipients: if the first publication did land, each would get a message.
  if (checked.class !== 'otp' || checked.recipient !== known.recipient) {
    const param = checked.path === '' ? 'client_ref' : `${checked.path}.client_ref`
    return refuse(apiError('invalid_parameter', { param, message: OTHER_CODE }))
  }
  return Result.isFailure(checked.draft)
    ? refuse(checked.draft.failure)
    : { type: 'republish', messageId: view.id, draft: checked.draft.success }
}

/** Opt-outs are for `service` only; the sandbox has a number of its own that is opted out. */
const isOptedOut = (checked: CheckedSend, draft: MessageDraft, knowledge: Knowledge): boolean =>
  draft.class === 'service' &&
  (checked.owner.mode === 'test' ? draft.scenario === 'opted_out' : knowledge.optedOut.has(checked.recipient))

const decideNew = (checked: CheckedSend, knowledge: Knowledge): Decision => {
  if (Result.isFailure(checked.draft)) return refuse(checked.draft.failure)
  const draft = checked.draft.success
  if (isOptedOut(checked, draft, knowledge)) {
    const param = checked.path === '' ? 'to' : `${checked.path}.to`
    return refuse(apiError('recipient_opted_out', { param }))
  }
  return { type: 'accept', draft }
}

/**
 * Decides a flush. Of several checkedSends with one new reference the first is decided and the others follow it: what they
 * are repeats of is known only when it is recorded.
 */
export const decideSends = (
  checkedSends: ReadonlyArray<CheckedSend>,
  knowledge: Knowledge,
): ReadonlyArray<Decision> => {
  const taken = new Map<string, number>()
  return checkedSends.map((checked, place) => {
    if (checked.clientRef === null) {
      const recorded = checked.messageId === null ? undefined : knowledge.recorded.get(checked.messageId)
      return recorded === undefined
        ? decideNew(checked, knowledge)
        : decideRepeat(checked, recorded, knowledge, true)
    }
    const key = refKey(checked.owner, checked.clientRef)
    const leader = taken.get(key)
    if (leader !== undefined) return { type: 'follow', leader }
    const known = knowledge.known.get(key)
    const decision =
      known === undefined ? decideNew(checked, knowledge) : decideRepeat(checked, known, knowledge)
    if (decision.type === 'accept' || decision.type === 'republish') taken.set(key, place)
    return decision
  })
}
