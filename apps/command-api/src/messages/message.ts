/** The API representation of a message. Pure. Source: MSG-15 to MSG-21. */
import type { AcceptedMessage, Message } from '@hub/contract'
import {
  isFinal,
  type MessageAccepted,
  type MessageClass,
  type Mode,
  type Money,
  billedPrice,
  type ReasonCode,
  type Status,
  toTimestamp,
} from '@hub/domain'

export interface StatusChange {
  readonly status: Status
  readonly reason: ReasonCode | null
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** A message from the read model or the ledger. The masked number is its only personal data. */
export interface MessageView {
  /** `msg_…` */
  readonly id: string
  readonly mode: Mode
  readonly class: MessageClass
  /** The masked number; empty after its deletion. */
  readonly toMasked: string
  readonly status: Status
  readonly reason: ReasonCode | null
  readonly createdAt: number
  readonly updatedAt: number
  readonly clientRef: string | null
  /** `bat_…` */
  readonly batch: string | null
  readonly template: string
  readonly sender: string
  readonly attempts: number
  readonly parts: number
  /** The charge at acceptance. */
  readonly price: Money
  /** Sorted names; `null` after a year. */
  readonly variables: ReadonlyArray<string> | null
  readonly history: ReadonlyArray<StatusChange>
}

/** Text and variables of a `service` message in its first year. */
export interface MessageContent {
  readonly text: string
  readonly variables: Readonly<Record<string, string>>
}

/** The view of a message that was just accepted. */
export const acceptedView = (fact: MessageAccepted, toMasked: string): MessageView => ({
  id: fact.messageId,
  mode: fact.mode,
  class: fact.class,
  toMasked,
  status: 'accepted',
  reason: null,
  createdAt: fact.at,
  updatedAt: fact.at,
  clientRef: fact.clientRef,
  batch: fact.batch,
  template: fact.template,
  sender: fact.sender,
  attempts: 0,
  parts: fact.parts,
  price: fact.price,
  variables: fact.variables,
  history: [{ status: 'accepted', reason: null, at: fact.at }],
})

/** The response to a send: without text and variables. `duplicate` is present only if true. */
export const acceptedBody = (view: MessageView, duplicate: boolean): AcceptedMessage => ({
  id: view.id,
  object: 'message',
  status: view.status,
  final: isFinal(view.status),
  to: view.toMasked,
  class: view.class,
  created_at: toTimestamp(view.createdAt),
  updated_at: toTimestamp(view.updatedAt),
  reason_code: view.reason,
  client_ref: view.clientRef,
  batch: view.batch,
  template: view.template,
  sender: view.sender,
  attempts: view.attempts,
  parts: view.parts,
  price: billedPrice(view.price, view.status, view.reason),
  history: view.history.map(({ status, reason, at }) => ({
    status,
    reason_code: reason,
    at: toTimestamp(at),
  })),
  mode: view.mode,
  ...(duplicate ? { duplicate: true as const } : undefined),
})

/** Replaces the values of a code's variables, which are never stored. */
const MASKED_VALUE = '***'

/** The response to a read. `content` is `null` for a code, and after a year. */
export const messageBody = (view: MessageView, content: MessageContent | null): Message => ({
  ...acceptedBody(view, false),
  text: view.class === 'otp' ? null : (content?.text ?? null),
  variables:
    view.class === 'otp'
      ? view.variables && Object.fromEntries(view.variables.map((name) => [name, MASKED_VALUE]))
      : (content?.variables ?? null),
})
