/** The metrics of the fan-out. No label is an account, a subscription or a host. */
import { EXPIRY_REASONS } from '@hub/domain'
import { counter, gauge, labelSets, withOldName } from '@hub/telemetry'
import { FAILURE_REASONS } from '@hub/webhooks'
import { Metric } from 'effect'

export const metrics = {
  eventsRead: counter('hub_webhook_events_read_total', 'Events read from hub.webhooks.v1.'),
  batchesQueued: counter('hub_webhook_batches_queued_total', 'Batches stored for delivery.'),
  /** Label `result`: `succeeded` or the reason of the failure. */
  attempts: counter(
    'hub_webhook_attempts_total',
    'Recorded delivery attempts and expiries, by result.',
    labelSets({ result: ['succeeded', ...FAILURE_REASONS, ...EXPIRY_REASONS] }),
  ),
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
  onDemand: withOldName(
    counter('hub_webhook_deliveries_on_demand_total', 'Test deliveries and resends made.'),
    counter(
      'hub_webhook_trials_total',
      'Old name of hub_webhook_deliveries_on_demand_total, until version 0.5.0.',
    ),
  ),
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
  inFlight: gauge('hub_webhook_attempts_in_flight', 'Attempts in flight.'),
  inFlightFailing: gauge(
    'hub_webhook_attempts_in_flight_failing',
    'Attempts in flight for failing subscriptions.',
  ),
  unrecorded: gauge(
    'hub_webhook_attempts_unrecorded',
    'Attempts that have begun and are not recorded. After a crash of the process their batches are delivered again.',
  ),
  openSockets: gauge('hub_webhook_open_sockets', 'Open sockets to receivers.'),
  bodyBytes: gauge('hub_webhook_body_bytes', 'Bodies of batches in memory, in bytes.'),
  collected: gauge('hub_webhook_events_collected', 'Events read and not yet stored in a batch.'),
  /** Label `state`: `enabled` or `disabled`. */
  subscriptions: gauge(
    'hub_webhook_subscriptions',
    'Subscriptions of the partitions of this process, by state.',
  ),
  batchesWaiting: gauge(
    'hub_webhook_batches_waiting',
    'Batches that wait for their delivery, over all partitions; 100,000 means that many or more. Every process reports the same value.',
  ),
  endingCertificates: gauge(
    'hub_webhook_client_certificates_ending',
    'Enabled subscriptions whose client certificate has expired or expires within 14 days. Every process reports the same value.',
  ),
  partitions: gauge('hub_webhook_partitions', 'Partitions of this process.'),
  pausedPartitions: gauge(
    'hub_webhook_partitions_paused',
    'Partitions that are paused because too many events wait to be stored.',
  ),
} as const
