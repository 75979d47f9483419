/** Time limits of a message. Source: MSG-6, MSG-30 to MSG-32. */
import type { SandboxScenario } from '../recipient/sandbox.ts'
import type { MessageClass } from '../values/classification.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/**
 * Time limits of a message, in milliseconds. Facts contain absolute times (`expiresAt`,
 * `reportDeadline`), so a different configuration does not change messages that are already
 * accepted.
 */
export interface Lifetimes {
  /** From acceptance to the latest submit. */
  readonly beforeSubmit: Readonly<Record<MessageClass, number>>
  /** From submit to the latest delivery report. */
  readonly report: Readonly<Record<MessageClass, number>>
}

/**
 * A code is useless after five minutes. A service message is useful for a day. Operators try to
 * deliver for the whole validity period and report then, so the report limit is two hours longer.
 */
export const DEFAULT_LIFETIMES: Lifetimes = {
  beforeSubmit: { otp: 5 * MINUTE, service: 24 * HOUR },
  report: { otp: 15 * MINUTE, service: 26 * HOUR },
}

/** Both limits for the sandbox numbers that let them expire. Their users watch the result. */
const SANDBOX_LIMIT = 10 * SECOND

/**
 * Returns the end of the lifetime before submit. `ttlMs` shortens it. `scenario` is the sandbox scenario, `null` in live
 * mode. Only the scenario `always_throttled` has the short limit, so that other sandbox messages
 * survive a restart.
 */
export const expiresAt = (
  lifetimes: Lifetimes,
  message: {
    readonly class: MessageClass
    readonly acceptedAt: number
    readonly scenario: SandboxScenario | null
    readonly ttlMs?: number | undefined
  },
): number =>
  message.acceptedAt +
  Math.min(
    message.ttlMs ?? Number.POSITIVE_INFINITY,
    message.scenario === 'always_throttled' ? SANDBOX_LIMIT : lifetimes.beforeSubmit[message.class],
  )

/** Returns the report deadline. `scenario` as in `expiresAt`. */
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
    ? SANDBOX_LIMIT
    : lifetimes.report[message.class])
