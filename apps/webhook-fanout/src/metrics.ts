/** The metrics of the fan-out. No label is an account, a subscription or a host. */
import { Metric } from 'effect'

const counter = (name: string, description: string) =>
  Metric.counter(name, { description, incremental: true })

export const metrics = {
  eventsRead: counter('hub_webhook_events_read_total', 'Events read from hub.webhooks.v1.'),
  batchesQueued: counter('hub_webhook_batches_queued_total', 'Batches stored for delivery.'),
  /** Label `result`: `succeeded` or the reason of the failure. */
  attempts: counter('hub_webhook_attempts_total', 'Recorded delivery attempts and expiries, by result.'),
  attemptSeconds: Metric.histogram('hub_webhook_attempt_seconds', {
    description: 'Time until a receiver answered or the attempt timed out or failed, in seconds.',
    boundaries: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  }),
  queueSeconds: Metric.histogram('hub_webhook_first_attempt_wait_seconds', {
    description: 'Time from storing a batch to its first attempt, in seconds.',
    boundaries: [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 10, 60],
  }),
  disabled: counter(
    'hub_webhook_subscriptions_disabled_total',
    'Subscriptions disabled by consecutive failures.',
  ),
  trials: counter('hub_webhook_trials_total', 'Test deliveries made.'),
  notMade: counter(
    'hub_webhook_attempts_not_made_total',
    'Attempts that this process could not make; they do not count as failures and are made later.',
  ),
  deadLetters: counter(
    'hub_webhook_dead_letters_total',
    'Records of hub.webhooks.v1 that could not be decoded and were dead-lettered.',
  ),
  partitionsLost: counter(
    'hub_webhook_partitions_lost_total',
    'Times this process found that another process owns its partition.',
  ),
  inFlight: Metric.gauge('hub_webhook_attempts_in_flight', { description: 'Attempts in flight.' }),
  inFlightFailing: Metric.gauge('hub_webhook_attempts_in_flight_failing', {
    description: 'Attempts in flight for failing subscriptions.',
  }),
  unrecorded: Metric.gauge('hub_webhook_attempts_unrecorded', {
    description:
      'Attempts that have begun and are not recorded. After a crash of the process their batches are delivered again.',
  }),
  openSockets: Metric.gauge('hub_webhook_open_sockets', { description: 'Open sockets to receivers.' }),
  bodyBytes: Metric.gauge('hub_webhook_body_bytes', {
    description: 'Bodies of batches in memory, in bytes.',
  }),
  collected: Metric.gauge('hub_webhook_events_collected', {
    description: 'Events read and not yet stored in a batch.',
  }),
  /** Label `state`: `enabled` or `disabled`. */
  subscriptions: Metric.gauge('hub_webhook_subscriptions', {
    description: 'Subscriptions of the partitions of this process, by state.',
  }),
  batchesWaiting: Metric.gauge('hub_webhook_batches_waiting', {
    description:
      'Batches that wait for their delivery, over all partitions; 100,000 means that many or more. Every process reports the same value.',
  }),
  partitions: Metric.gauge('hub_webhook_partitions', { description: 'Partitions of this process.' }),
  pausedPartitions: Metric.gauge('hub_webhook_partitions_paused', {
    description: 'Partitions that are paused because too many events wait to be stored.',
  }),
} as const
