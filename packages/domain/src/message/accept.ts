import { type MessageClass, type Mode, type Money, multiplyMoney, zeroMoney } from '../vocabulary.ts'
import type { SandboxScenario } from '../recipient/sandbox.ts'
import type { Rendered } from '../template/template.ts'
import type { MessageAccepted } from './fact.ts'
import { expiresAt, type Lifetimes } from './lifetimes.ts'

/** A send that has passed every check, and its sealed payload. */
export interface Acceptance {
  /** `msg_…` */
  readonly messageId: string
  /** Milliseconds since the epoch, by the ledger's clock. */
  readonly at: number
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  /** What a test key's number is to meet; `null` in live mode. */
  readonly scenario: SandboxScenario | null
  readonly template: string
  readonly sender: string
  readonly clientRef: string | null
  readonly batch: string | null
  readonly rendered: Pick<Rendered, 'parts' | 'variables'>
  /** The account's tariff for the class. */
  readonly pricePerPart: Money
  readonly lifetimes: Lifetimes
  readonly sealingKey: string
  readonly sealed: Uint8Array
}

/** What a text of so many parts costs; estimates show it in both modes. Source: contract, General (tariff). */
export const priceOf = (pricePerPart: Money, parts: number): Money => multiplyMoney(pricePerPart, parts)

/** What is charged at acceptance: nothing in test mode. */
export const chargeOf = (mode: Mode, pricePerPart: Money, parts: number): Money =>
  mode === 'test' ? zeroMoney(pricePerPart.currency) : priceOf(pricePerPart, parts)

/** The fact by which the service answers for a message. Source: specification, Rules of POST /v1/messages, 1. */
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
  }),
  sealingKey: acceptance.sealingKey,
  sealed: acceptance.sealed,
  republished: false,
})

/** The same fact for a second publication, after one whose outcome was never known. Its id stays. */
export const republish = (fact: MessageAccepted): MessageAccepted => ({ ...fact, republished: true })
