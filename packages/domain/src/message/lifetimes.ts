import type { SandboxScenario } from '../recipient/sandbox.ts'
import type { MessageClass } from '../vocabulary.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/**
 * How long a message waits for what, in milliseconds. A value of the configuration: it is passed in, and what is written
 * into facts are moments (`expiresAt`, `reportDeadline`), so that a change never moves a message already accepted.
 */
export interface Lifetimes {
  /** From acceptance until it must have been handed over. */
  readonly beforeHandover: Readonly<Record<MessageClass, number>>
  /** From hand-over until its report must have come. */
  readonly report: Readonly<Record<MessageClass, number>>
  /** Both of them for the sandbox numbers that wait one out. */
  readonly sandbox: number
}

/**
 * A code that is five minutes old is of no use to anybody; a service message is worth a day. Reports may trail: operators
 * keep trying for the validity period and then tell, hence two hours more than a day. A sandbox is there to
 * be watched, so ten seconds. Source: contract, Message (lifetime), Sandbox numbers.
 */
export const DEFAULT_LIFETIMES: Lifetimes = {
  beforeHandover: { otp: 5 * MINUTE, service: 24 * HOUR },
  report: { otp: 15 * MINUTE, service: 26 * HOUR },
  sandbox: 10 * SECOND,
}

/**
 * End of the lifetime of a message accepted at `acceptedAt`. `scenario` is that of a test key's recipient, `null` in live
 * mode; only the number that waits its lifetime out has a short one, so that a sandbox survives a restart as live does.
 */
export const expiresAt = (
  lifetimes: Lifetimes,
  message: {
    readonly class: MessageClass
    readonly acceptedAt: number
    readonly scenario: SandboxScenario | null
  },
): number =>
  message.acceptedAt +
  (message.scenario === 'never_handed_over' ? lifetimes.sandbox : lifetimes.beforeHandover[message.class])

/** When the report of a message handed over at `sentAt` is no longer awaited. `scenario` as in `expiresAt`. */
export const reportDeadline = (
  lifetimes: Lifetimes,
  message: {
    readonly class: MessageClass
    readonly sentAt: number
    readonly scenario: SandboxScenario | null
  },
): number =>
  message.sentAt +
  (message.scenario === 'silent' || message.scenario === 'silent_then_delivered'
    ? lifetimes.sandbox
    : lifetimes.report[message.class])
