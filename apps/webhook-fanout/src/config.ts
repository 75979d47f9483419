/** What can be set, and why the defaults are what they are. Tests shorten; production has no reason to differ. */
import { DELIVERY_RULES, type DeliveryRules } from '@hub/domain'
import { RECEIVER_DEADLINE_MS } from '@hub/webhooks'
import { Context } from 'effect'

export interface Settings extends DeliveryRules {
  /** Events a batch. Source: specification, Other limits. */
  readonly batchEvents: number
  /** How long the first event of a batch waits for others, ms. Source: the same. */
  readonly batchWindowMs: number
  /** Connecting, sending and the status together, ms. Source: the same. */
  readonly deadlineMs: number

  /**
   * Attempts under way in this process. Each is a socket and a few dozen kB; 256 of them with 10 ms receivers are
   * 25,000 attempts/s, more than PostgreSQL records.
   */
  readonly inFlight: number
  /** Of these, for all failing subscriptions together: however many hang, half the process serves the others. */
  readonly inFlightFailing: number
  /** For one subscription: enough to drain a backlog to a receiver 100 ms away at 160 batches/s. */
  readonly inFlightEach: number
  /** For one failing subscription: one attempt that hangs, and one that may show that the receiver is back. */
  readonly inFlightEachFailing: number
  /**
   * Attempts of one healthy subscription that have begun and are not recorded. A crash of this process delivers at most
   * these a second time. It is large enough that 240 successes can wait or be recorded while 16 attempts are in flight.
   */
  readonly unrecordedEach: number
  /** The same for the whole process: no attempt begins above it, so memory stays bounded while PostgreSQL is away. */
  readonly unrecorded: number

  /**
   * Outcomes that are recorded at once, without waiting for more: half of what `unrecordedEach` leaves beside
   * `inFlightEach`. So one group gathers while the other is recorded.
   */
  readonly recordTogether: number
  /**
   * How long a success waits for others, ms. Its slot is free meanwhile, so this only delays the delivery log. Failures,
   * and successes of a failing subscription, do not wait: the next attempts depend on them.
   */
  readonly recordWithinMs: number

  /** Batches of a subscription that are lined up for their attempt; the others stay in PostgreSQL. */
  readonly linedUpEach: number
  /** Bodies held for batches that are lined up, bytes; above it a body is read again when its turn comes. */
  readonly bodyBytes: number
  /** Batches read from PostgreSQL at once, each a query; half of the connections are left for what is recorded and stored. */
  readonly concurrentReads: number

  /** Events collected but not yet in PostgreSQL, for each partition; above it the partition is paused. */
  readonly collectedEvents: number
  /** The same in characters of their bodies. */
  readonly collectedCharacters: number
  /** Events in one transaction: some 20 ms of PostgreSQL's time. */
  readonly flushEvents: number

  /** How often what deleted subscriptions have left is looked for, ms. */
  readonly clearEveryMs: number

  /** Before partitions may move, what is under way and quick is finished, so that it is not delivered twice, ms. */
  readonly revokeDrainMs: number
  /** The same when the process ends: the larger part of its 10 s, less what leaving the group and closing take. */
  readonly stopDrainMs: number
}

export const FANOUT_DEFAULTS: Settings = {
  ...DELIVERY_RULES,
  batchEvents: 100,
  batchWindowMs: 1000,
  deadlineMs: RECEIVER_DEADLINE_MS,
  inFlight: 256,
  inFlightFailing: 128,
  inFlightEach: 16,
  inFlightEachFailing: 2,
  unrecordedEach: 256,
  unrecorded: 1024,
  recordTogether: 120,
  recordWithinMs: 40,
  linedUpEach: 128,
  bodyBytes: 32 * 1024 * 1024,
  concurrentReads: 2,
  collectedEvents: 20_000,
  collectedCharacters: 16 * 1024 * 1024,
  flushEvents: 2000,
  clearEveryMs: 10_000,
  revokeDrainMs: 1000,
  stopDrainMs: 5000,
}

export const FanoutSettings = Context.Reference<Settings>('@hub/webhook-fanout/FanoutSettings', {
  defaultValue: () => FANOUT_DEFAULTS,
})
