/** Acceptance of a send: the fact `MessageAccepted` and its price. */
import type { MessageClass, Mode } from '../values/classification.ts'
import { type Money, multiplyMoney, zeroMoney } from '../values/money.ts'
import type { SandboxScenario } from '../recipient/sandbox.ts'
import type { Rendered } from '../template/template.ts'
import type { MessageAccepted } from './fact.ts'
import { expiresAt, type Lifetimes } from './lifetimes.ts'

/** A send that passed all checks, with its encrypted payload. */
export interface Acceptance {
  /** `msg_…` */
  readonly messageId: string
  /** Milliseconds since the epoch, from the clock of the ledger's database. */
  readonly at: number
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  /** Recipient hash: 64 hexadecimal digits. */
  readonly recipient: string
  /** The sandbox scenario of the number, `null` in live mode. */
  readonly scenario: SandboxScenario | null
  readonly template: string
  readonly sender: string
  readonly clientRef: string | null
  readonly batch: string | null
  readonly rendered: Pick<Rendered, 'parts' | 'variables'>
  /** The account's price for this class. */
  readonly pricePerPart: Money
  readonly lifetimes: Lifetimes
  /** A shorter lifetime before the submit, milliseconds. */
  readonly ttlMs?: number | undefined
  readonly payloadKey: string
  readonly ciphertext: Uint8Array
  /** `req_…` and `key_…` of the send; `null`: not known. */
  readonly request: string | null
  readonly apiKey: string | null
  /** See `numberRangeOf`. */
  readonly numberRange: string | null
}

/** The price of a text. Estimates show it in both modes. */
export const priceOf = (pricePerPart: Money, parts: number): Money => multiplyMoney(pricePerPart, parts)

/** The charge at acceptance: zero in test mode. */
export const chargeOf = (mode: Mode, pricePerPart: Money, parts: number): Money =>
  mode === 'test' ? zeroMoney(pricePerPart.currency) : priceOf(pricePerPart, parts)

/** Makes the fact of acceptance. Source: MSG-1, LIM-14. */
export const accept = (acceptance: Acceptance): MessageAccepted => ({
  type: 'MessageAccepted',
  messageId: acceptance.messageId,
  at: acceptance.at,
  account: acceptance.account,
  mode: acceptance.mode,
  class: acceptance.class,
  recipient: acceptance.recipient,
  template: acceptance.template,
  sender: acceptance.sender,
  clientRef: acceptance.clientRef,
  batch: acceptance.batch,
  parts: acceptance.rendered.parts,
  price: chargeOf(acceptance.mode, acceptance.pricePerPart, acceptance.rendered.parts),
  variables: acceptance.rendered.variables,
  expiresAt: expiresAt(acceptance.lifetimes, {
    class: acceptance.class,
    acceptedAt: acceptance.at,
    scenario: acceptance.scenario,
    ttlMs: acceptance.ttlMs,
  }),
  payloadKey: acceptance.payloadKey,
  ciphertext: acceptance.ciphertext,
  republished: false,
  request: acceptance.request,
  apiKey: acceptance.apiKey,
  numberRange: acceptance.numberRange,
})

/** Marks a fact for publication after an unknown outcome. The fact keeps its id. */
export const republish = (fact: MessageAccepted): MessageAccepted => ({ ...fact, republished: true })
