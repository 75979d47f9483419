/** Limits and intervals of the fan-out, with their reasons. Only tests change them. */
import { DELIVERY_RULES, type DeliveryRules } from '@hub/domain'
import { kafkaTlsConfig } from '@hub/kafka'
import {
  allowedHostsConfig,
  deniedNetworksConfig,
  egressProxyConfig,
  RECEIVER_DEADLINE_MS,
} from '@hub/webhooks'
import { Context } from 'effect'

/** The name of the app: in logs, as its Kafka client and as its PostgreSQL application. */
export const APP = 'webhook-fanout'

/** Checked together with the catalogue of settings before anything connects. */
export const checks = [allowedHostsConfig, deniedNetworksConfig, egressProxyConfig, kafkaTlsConfig]

export interface Settings extends DeliveryRules {
  /** Events in a batch. Source: DEL-2. */
  readonly batchEvents: number
  /** How long the first event of a batch waits for others, ms. Source: DEL-2. */
  readonly batchWindowMs: number
  /** For connecting, sending and the status line together, ms. Source: DEL-11. */
  readonly deadlineMs: number

  /**
   * Attempts in flight in this process. Each has a socket and some dozens of kB. 256 attempts to
   * receivers that answer in 10 ms are 25,000 attempts/s, more than PostgreSQL records. One account
   * has half of them at most.
   */
  readonly inFlight: number
  /** Of these, for all failing subscriptions. The other half serves healthy ones. */
  readonly inFlightFailing: number
  /** For one subscription: 160 batches/s to a receiver that answers in 100 ms. */
  readonly inFlightEach: number
  /** For one failing subscription: one attempt may hang while the other succeeds. */
  readonly inFlightEachFailing: number
  /**
   * Attempts of one healthy subscription that have begun and are not recorded. A crash of this
   * process delivers at most these a second time. It is large enough that 240 successes can wait or
   * be recorded while 16 attempts are in flight.
   */
  readonly unrecordedEach: number
  /** The same for the process. It bounds memory while PostgreSQL is away. */
  readonly unrecorded: number

  /**
   * Outcomes that are recorded without waiting for more: half of what `unrecordedEach` leaves
   * beside `inFlightEach`. So one group gathers while the other is recorded.
   */
  readonly recordTogether: number
  /**
   * How long a success waits for others, ms. This delays only the delivery log. Failures, and
   * successes of a failing subscription, do not wait: the next attempts depend on them.
   */
  readonly recordWithinMs: number

  /** Batches in the ready queue of a subscription; the others stay in PostgreSQL. */
  readonly readyQueueLength: number
  /** Bodies in ready queues, bytes. Above it, bodies are read before their attempts. */
  readonly bodyBytes: number
  /** Concurrent reads of due batches. Half of the connections remain for recording and storing. */
  readonly concurrentReads: number

  /** Events that are not stored yet, per partition; above it the partition is paused. */
  readonly collectedEvents: number
  /** The same in characters of their bodies. */
  readonly collectedCharacters: number
  /** Events stored in one transaction, which takes PostgreSQL some 20 ms. */
  readonly storeEvents: number

  /** Interval between deletions of rows of deleted subscriptions, ms. */
  readonly purgeEveryMs: number

  /** Interval between updates of the gauges, ms. Attempts that the lease stopped begin then, too. */
  readonly gaugesEveryMs: number
  /** The same for gauges that need a query to PostgreSQL or Kafka. */
  readonly queriedGaugesEveryMs: number

  /** How long a rebalance waits until attempts are recorded, ms. Others would repeat them. */
  readonly revokeDrainMs: number
  /** The same at shutdown, of the 10 s that a process has to leave the group and close. */
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
  readyQueueLength: 128,
  bodyBytes: 32 * 1024 * 1024,
  concurrentReads: 2,
  collectedEvents: 20_000,
  collectedCharacters: 16 * 1024 * 1024,
  storeEvents: 2000,
  purgeEveryMs: 10_000,
  gaugesEveryMs: 1000,
  queriedGaugesEveryMs: 5000,
  revokeDrainMs: 1000,
  stopDrainMs: 5000,
}

export const FanoutSettings = Context.Reference<Settings>('@hub/webhook-fanout/FanoutSettings', {
  defaultValue: () => FANOUT_DEFAULTS,
})
