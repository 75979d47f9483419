/** The Grafana dashboards as data: acceptance, delivery, webhooks, pipeline and operations. */
import {
  byLabel,
  type Dashboard,
  increase,
  occurring,
  perSecond,
  quantile,
  quantiles,
  query,
  rate,
} from './panels.ts'

/** A gauge that has no sample yet. */
const FIRST_SECONDS = 'in the first seconds'
/** The processes of the hub. Other programs have metrics with the same names. */
const OURS = '{job=~"command-api|dispatcher|projector|webhook-fanout|operations-api"}'
const SENDS = '{method="POST",route="/v1/messages"}'

/** The ratio of two rates per second, by the same labels. */
const share = (metric: string, by: string, selector: string): string =>
  `${perSecond(metric, by, selector)} / ${perSecond(metric, by)}`

const acceptance: Dashboard = {
  uid: 'hub-acceptance',
  title: 'Hub: acceptance',
  about: 'command-api: requests, answers and their duration.',
  panels: [
    {
      title: 'Requests by route',
      about: 'Requests per second.',
      unit: 'reqps',
      queries: [rate('hub_http_request_seconds_count', 'method, route')],
    },
    {
      title: 'Answers by status',
      about: '5xx is a fault of the hub. 429 means that a client exceeds its limit.',
      unit: 'reqps',
      queries: [occurring(rate('hub_http_answers_total', 'status'))],
    },
    {
      title: 'Share of 5xx',
      about: 'HubApiErrors fires at 1 %.',
      unit: 'percentunit',
      queries: [query(share('hub_http_answers_total', '', '{status=~"5.."}'), '5xx')],
    },
    {
      title: 'Time to answer a send',
      about: '`service` waits for PostgreSQL, `otp` also for Kafka. HubApiSlow fires at a p99 of 1 s.',
      unit: 's',
      queries: quantiles('hub_http_request_seconds', SENDS),
    },
    {
      title: 'Sends by outcome',
      about: 'Single sends and the sends of batches: accepted, duplicate, or the error code.',
      unit: 'ops',
      queries: [occurring(rate('hub_accept_sends_total', 'class, outcome'))],
    },
    {
      title: 'Share of accepted sends',
      about: 'Accepted sends and duplicates. The remaining sends were refused by a rule or failed.',
      unit: 'percentunit',
      queries: [
        query(share('hub_accept_sends_total', 'class', '{outcome=~"accepted|duplicate"}'), '{{class}}'),
      ],
    },
    {
      title: 'Overload: share of the capacity in use',
      about:
        'By instance. Above 1, an instance refuses requests. HubNearCapacity fires at 0.8: add instances before that.',
      unit: 'percentunit',
      queries: [byLabel('max', 'instance', 'hub_admission_capacity_used_ratio')],
    },
    {
      title: 'Overload: refused requests',
      about:
        'Answered with `overloaded`, by kind of work and reason. HubOverloaded fires at 1 % of all requests.',
      unit: 'reqps',
      queries: [
        occurring(rate('hub_admission_refused_total', 'work, reason'), 'while nothing is overloaded'),
      ],
    },
    {
      title: 'Overload: expected wait of a send',
      about:
        'By kind of work, of the instance with the longest wait. It includes the delay of the event loop.',
      unit: 's',
      queries: [byLabel('max', 'work', 'hub_admission_expected_wait_seconds')],
    },
    {
      title: 'Overload: sends in progress, and sends per second at full load',
      about: 'The expected wait is the first divided by the second. The second is measured while sends wait.',
      unit: 'short',
      queries: [
        query('sum(hub_admission_sends_in_progress)', 'in progress'),
        query('sum(hub_admission_sends_per_second)', 'per second at full load'),
      ],
    },
    {
      title: 'Acceptance batches',
      about: 'Time to record an acceptance batch, from its lookup to its commit.',
      unit: 's',
      queries: quantiles('hub_accept_flush_seconds'),
    },
    {
      title: 'Sends of an acceptance batch, and waiting sends',
      about: 'Both grow when PostgreSQL is slow.',
      unit: 'short',
      queries: [
        query(quantile(0.95, 'hub_accept_flush_messages'), 'sends of an acceptance batch, p95'),
        query('sum(hub_accept_waiting_sends)', 'waiting for an outcome'),
      ],
    },
    {
      title: 'Outbox: age of its oldest row',
      about:
        'Some seconds are normal while an acceptance batch is published. Minutes mean that Kafka does not acknowledge appends.',
      unit: 's',
      queries: [query('max(hub_accept_outbox_oldest_row_seconds)', 'oldest row')],
    },
    {
      title: 'Outbox: rows, and the stop flag',
      about: 'Each row is an acceptance batch. The flag is 1 while the hub accepts no new messages.',
      unit: 'short',
      queries: [query('max(hub_accept_outbox_rows)', 'rows'), query('max(hub_accept_stopped)', 'stop flag')],
    },
    {
      title: 'Counters in Redis: calls without an answer, and latency',
      about:
        'Without the flood windows, all service messages are refused. Without the other counters, requests pass uncounted. HubCountersUnavailable fires at 0.5 calls per second. Above a latency of 0.25 s only flood windows are checked, above 1 s nothing.',
      unit: 'short',
      queries: [
        occurring(rate('hub_counters_unavailable_total', 'counter, reason'), 'while Redis answers'),
        occurring(rate('hub_accept_unchecked_sends_total', 'class, reason'), 'while Redis answers'),
        query('max(hub_redis_latency_seconds)', 'latency, seconds', FIRST_SECONDS),
      ],
    },
    {
      title: 'Wait for moderation',
      about:
        'Age of the oldest template and sender without a decision. HubModerationWaits fires at two days.',
      unit: 's',
      queries: [byLabel('max', 'kind', 'hub_moderation_oldest_pending_seconds')],
    },
    {
      title: 'Age of the payload keys',
      about:
        'Age of the keys that encrypt payloads now. If a line only rises, the hub does not create new keys.',
      unit: 's',
      queries: [byLabel('max', 'purpose', 'hub_payload_key_age_seconds')],
    },
    {
      title: 'Event loop of command-api',
      about: '99th percentile of the delay since the last scrape. Above 100 ms, an instance is overloaded.',
      unit: 's',
      queries: [byLabel('max', 'instance', 'nodejs_eventloop_lag_p99_seconds{job="command-api"}')],
    },
  ],
}

const delivery: Dashboard = {
  uid: 'hub-delivery',
  title: 'Hub: delivery',
  about: 'dispatcher: from the lanes to the operators, and the delivery reports.',
  panels: [
    {
      title: 'Answers of operators',
      about:
        'Refused messages are submitted again, rejected ones never. An unknown outcome is not repeated if the message could arrive twice.',
      unit: 'ops',
      queries: [occurring(rate('hub_dispatcher_handovers_total', 'operator, outcome'))],
    },
    {
      title: 'From acceptance to the operator: otp',
      about: 'HubOtpHandoverSlow fires at a p95 of 5 s.',
      unit: 's',
      queries: quantiles('hub_dispatcher_handover_latency_seconds', '{class="otp"}'),
    },
    {
      title: 'From acceptance to the operator: service',
      about: 'Service messages may wait for the rate of the operator. Codes never wait behind them.',
      unit: 's',
      queries: quantiles('hub_dispatcher_handover_latency_seconds', '{class="service"}'),
    },
    {
      title: 'Rejections by reason',
      about: 'Messages that an operator refused permanently.',
      unit: 'ops',
      queries: [rate('hub_dispatcher_handovers_total', 'reason', '{outcome="rejected"}')],
    },
    {
      title: 'Final messages',
      about: 'Messages that got their final status, by status.',
      unit: 'ops',
      queries: [rate('hub_dispatcher_final_total', 'class, status')],
    },
    {
      title: 'Share of delivered among final messages',
      about:
        'The normal value depends on operators and recipients. A sudden fall means a problem of an operator.',
      unit: 'percentunit',
      queries: [query(share('hub_dispatcher_final_total', 'class', '{status="delivered"}'), '{{class}}')],
    },
    {
      title: 'Delay of delivery reports',
      about: 'From the submit to the report that made a message final.',
      unit: 's',
      queries: quantiles('hub_dispatcher_report_wait_seconds'),
    },
    {
      title: 'Open messages',
      about: 'Messages without a final status. Most of them wait for their report.',
      unit: 'short',
      queries: [
        query('sum(hub_dispatcher_open_messages)', 'open'),
        query('sum by (class) (hub_dispatcher_buffered_messages)', '{{class}} waiting for the operator'),
        query('sum by (operator) (hub_dispatcher_claims_in_flight)', 'in flight to {{operator}}'),
      ],
    },
    {
      title: 'Longest wait for an operator',
      about:
        'Since the acceptance of the message that has waited longest. Run `hubctl accounts backlog` to see whose it is.',
      unit: 's',
      queries: [
        query('max by (class, operator) (hub_dispatcher_longest_wait_seconds)', '{{class}} {{operator}}'),
      ],
    },
    {
      title: 'Fairness between accounts',
      about:
        'How equally each dispatcher serves the accounts that have waited for a minute. 1 is equal by weight; below 0.95, one account gets more than its share.',
      unit: 'short',
      queries: [
        query('min by (class, operator) (hub_dispatcher_account_fairness)', '{{class}} {{operator}}'),
      ],
    },
    {
      title: 'Special cases',
      about: 'A few duplicates are normal after a restart. Investigate outcome_unknown and record_lost.',
      unit: 'ops',
      queries: [rate('hub_dispatcher_special_cases_total', 'what')],
    },
    {
      title: 'Reports without their message',
      about:
        'A report is parked until the read model knows its message. If the message stays unknown, the report is dropped.',
      unit: 'short',
      queries: [
        query('sum(hub_dispatcher_parked_reports)', 'parked'),
        query(increase('hub_dispatcher_reports_of_nobody_total'), 'message unknown'),
      ],
    },
    {
      title: 'What operators sent and the hub could not use',
      about:
        'Elements with an unusable id or form are skipped. A defect is a fault of the hub: its log line names the place.',
      unit: 'short',
      queries: [
        query(
          'sum by (operator, what) (increase(hub_operator_unusable_total[$__rate_interval]))',
          '{{operator}} {{what}}',
        ),
      ],
    },
    {
      title: 'SMPP: binds and window',
      about:
        'HubNoBind fires after two minutes without a bind. A full window means that the operator limits the rate.',
      unit: 'short',
      queries: [
        query('sum by (role) (hub_smpp_binds_up)', '{{role}} binds'),
        query('sum(hub_smpp_window_used_parts)', 'window used'),
        query('sum(hub_smpp_window_parts)', 'window'),
        query('sum(hub_smpp_waiting_messages)', 'waiting in the adapter'),
      ],
    },
    {
      title: 'SMPP: parts by result',
      about: 'The result of each submit_sm.',
      unit: 'ops',
      queries: [rate('hub_smpp_submitted_parts_total', 'result')],
    },
    {
      title: 'SMPP: deliveries of the SMSC, and ended sessions',
      about: 'Delivery receipts and inbound messages. The SMSC sends a not_taken one again.',
      unit: 'ops',
      queries: [
        rate('hub_smpp_deliveries_total', 'kind'),
        query(perSecond('hub_smpp_sessions_ended_total', 'why'), 'ended: {{why}}'),
      ],
    },
    {
      title: 'Rate: what the hub may submit, and what the operator answers',
      about:
        'Parts per second of the whole hub. The rate is learned from throttled answers, and never higher than the configured one. 0: no limit. A rate below the answers means that the operator does not limit.',
      unit: 'ops',
      queries: [
        query('max by (operator) (hub_dispatcher_hub_rate_parts)', '{{operator}} rate'),
        query('max by (operator) (hub_dispatcher_configured_rate_parts)', '{{operator}} configured'),
        query(
          perSecond('hub_dispatcher_answered_parts_total', 'operator, result'),
          '{{operator}} {{result}}',
        ),
      ],
    },
    {
      title: 'Rate: the part of each dispatcher',
      about:
        'The dispatchers share the rate in proportion to what waits at them. HubRateNotShared fires after ten minutes at 0 shared.',
      unit: 'ops',
      queries: [
        query('hub_dispatcher_own_rate_parts', '{{operator}} {{instance}}'),
        query('min by (operator) (hub_dispatcher_rate_shared)', '{{operator}} shared (1) or not (0)'),
      ],
    },
    {
      title: 'Shards',
      about:
        'The open shards of all dispatchers must equal the partitions of a topic. Fewer for over a minute: a shard has no owner.',
      unit: 'short',
      queries: [
        query('sum(hub_dispatcher_open_shards)', 'open'),
        query(increase('hub_dispatcher_recoveries_total'), 'recovered'),
        query(increase('hub_dispatcher_lease_stops_total'), 'stopped by the lease'),
        query(increase('hub_dispatcher_answers_dropped_total'), 'raw answers dropped'),
      ],
    },
    {
      title: 'Recovery of a shard',
      about: 'From its assignment until it was open.',
      unit: 's',
      queries: [
        query(quantile(0.95, 'hub_dispatcher_recovery_seconds'), 'p95', 'while no shard changes its owner'),
      ],
    },
    {
      title: 'Messages in memory',
      about:
        'By process. The memory budget bounds them. Final messages stay for a while, to detect repeated records.',
      unit: 'short',
      queries: [
        byLabel('sum', 'instance', 'hub_dispatcher_messages_in_memory'),
        query('sum(hub_dispatcher_remembered_messages)', 'final ones, all processes'),
      ],
    },
    {
      title: 'Memory of shards',
      about: 'Estimated memory of the ten largest shards.',
      unit: 'bytes',
      queries: [query('topk(10, sum by (shard) (hub_dispatcher_shard_memory_bytes))', 'shard {{shard}}')],
    },
    {
      title: 'Inbound messages',
      about: 'By their effect on the opt-outs of the recipient.',
      unit: 'ops',
      queries: [rate('hub_dispatcher_inbound_messages_total', 'change')],
    },
    {
      title: 'Delivery rate lower than usual',
      about:
        'The difference to the same hours of earlier weeks, by number range. HubDeliveryUnusual fires when there is one.',
      unit: 'percentunit',
      queries: [occurring(byLabel('max', 'range', 'hub_delivery_drop_ratio'), 'while delivery is as usual')],
    },
    {
      title: 'Suspicious requests of codes',
      about:
        'Codes for a number range above what is expected of an account, in three hours. HubRequestsSuspicious fires when there are some.',
      unit: 'short',
      queries: [
        occurring(byLabel('max', 'account, range', 'hub_suspicious_requests'), 'while nothing is suspicious'),
      ],
    },
  ],
}

const webhooks: Dashboard = {
  uid: 'hub-webhooks',
  title: 'Hub: webhooks',
  about: 'webhook-fanout: from events to subscribers.',
  panels: [
    {
      title: 'Attempts by result',
      about:
        'Each result other than `succeeded` is a fault of the receiver. The fan-out repeats it for a day.',
      unit: 'ops',
      queries: [rate('hub_webhook_attempts_total', 'result')],
    },
    {
      title: 'Share of attempts that succeed',
      about:
        'One failing receiver with much traffic lowers it. If many fail at once, check our own network access.',
      unit: 'percentunit',
      queries: [query(share('hub_webhook_attempts_total', '', '{result="succeeded"}'), 'succeeded')],
    },
    {
      title: 'Time of an attempt',
      about: 'Until the receiver answered, or until the timeout of ten seconds.',
      unit: 's',
      queries: quantiles('hub_webhook_attempt_seconds'),
    },
    {
      title: 'Wait for the first attempt',
      about: 'Counted from queueing a batch. It grows when all slots are in use.',
      unit: 's',
      queries: quantiles('hub_webhook_first_attempt_wait_seconds'),
    },
    {
      title: 'Events and batches',
      about: 'Up to a hundred events, or the events of one second, become one batch per subscription.',
      unit: 'ops',
      queries: [
        query(perSecond('hub_webhook_events_read_total', ''), 'events read'),
        query(perSecond('hub_webhook_batches_queued_total', ''), 'batches queued'),
      ],
    },
    {
      title: 'Backlog',
      about: 'Waiting batches of all subscriptions, also of disabled ones. Counted up to 100,000.',
      unit: 'short',
      queries: [
        query('max(hub_webhook_batches_waiting)', 'batches'),
        query('sum(hub_webhook_events_collected)', 'events not yet in a batch'),
      ],
    },
    {
      title: 'In flight',
      about: 'After a crash, unrecorded attempts are delivered again: at most 256 for each subscription.',
      unit: 'short',
      queries: [
        query('sum(hub_webhook_attempts_in_flight)', 'attempts'),
        query('sum(hub_webhook_attempts_in_flight_failing)', 'of them to failing subscriptions'),
        query('sum(hub_webhook_attempts_unrecorded)', 'not recorded yet'),
      ],
    },
    {
      title: 'Subscriptions',
      about:
        'The fan-out disables a subscription that fails for long. An event informs its owner, who can enable it again.',
      unit: 'short',
      queries: [
        byLabel('sum', 'state', 'hub_webhook_subscriptions'),
        query('sum(increase(hub_webhook_subscriptions_disabled_total[1h]))', 'disabled in the last hour'),
        query('max(hub_webhook_client_certificates_ending)', 'client certificate ends within 14 days'),
      ],
    },
    {
      title: 'Partitions',
      about:
        'A paused partition has enough waiting events. A lost partition was taken over by another process.',
      unit: 'short',
      queries: [
        query('sum(hub_webhook_partitions)', 'open'),
        query('sum(hub_webhook_partitions_paused)', 'paused'),
        query(increase('hub_webhook_partitions_lost_total'), 'lost'),
      ],
    },
    {
      title: 'Sockets and attempts not made',
      about:
        'An attempt that was not made counts as no result: the fan-out had no free socket, or was stopping.',
      unit: 'short',
      queries: [
        query('sum(hub_webhook_open_sockets)', 'sockets'),
        query(increase('hub_webhook_attempts_not_made_total'), 'not made'),
        query(increase('hub_webhook_deliveries_on_demand_total'), 'on demand'),
      ],
    },
    {
      title: 'Bodies in memory',
      about: 'Bounded. Beyond the bound, the fan-out reads a body when it makes the attempt.',
      unit: 'bytes',
      queries: [byLabel('sum', 'instance', 'hub_webhook_body_bytes')],
    },
  ],
}

const pipeline: Dashboard = {
  uid: 'hub-pipeline',
  title: 'Hub: pipeline',
  about: 'Topics, projector, outboxes, retention and the processes themselves.',
  panels: [
    {
      title: 'Lag by topic',
      about:
        'Records that the owners of the partitions have not read. HubConsumerLag fires above 10,000 if the lag does not shrink.',
      unit: 'short',
      queries: [byLabel('sum', 'job, topic', 'hub_consumer_lag_records')],
    },
    {
      title: 'Lag: the worst partitions',
      about:
        'A single partition: a recipient or an account with much traffic, or an instance with a problem.',
      unit: 'short',
      queries: [
        query(
          'topk(10, sum by (job, topic, partition) (hub_consumer_lag_records))',
          '{{job}} {{topic}}/{{partition}}',
        ),
      ],
    },
    {
      title: 'Stops by rebalances',
      about:
        'How long a rebalance stopped a partition. A member that was killed adds its session of six seconds.',
      unit: 's',
      queries: [
        query(quantile(0.99, 'hub_consumer_stopped_seconds'), 'p99', 'while no shard changes its owner'),
      ],
    },
    {
      title: 'Projector: records',
      about: 'Records applied to the read models, and events recorded.',
      unit: 'ops',
      queries: [
        rate('hub_projector_records_total', 'topic'),
        query(perSecond('hub_projector_events_total', ''), 'events'),
      ],
    },
    {
      title: 'Projector: wait time',
      about: 'From a fact until the read models show it. HubProjectorBehind fires at a p95 of 30 s.',
      unit: 's',
      queries: quantiles('hub_projector_wait_seconds'),
    },
    {
      title: 'Projector: service time',
      about: 'Duration of the transaction of a transaction batch.',
      unit: 's',
      queries: quantiles('hub_projector_transaction_seconds'),
    },
    {
      title: 'Projector: records of a transaction batch',
      about: 'It grows while the projector catches up.',
      unit: 'short',
      queries: quantiles('hub_projector_poll_records'),
    },
    {
      title: 'Projector: failures',
      about: 'By cause. A rebalance causes `superseded`.',
      unit: 'ops',
      queries: [rate('hub_projector_failures_total', 'cause')],
    },
    {
      title: 'Dead letters',
      about: 'Records that could not be read or applied. HubDeadLetters fires at the first one.',
      unit: 'short',
      queries: [
        query(
          'sum by (topic) (increase(hub_projector_dead_letters_total[$__rate_interval]))',
          'projector: {{topic}}',
        ),
        query(increase('hub_dispatcher_dead_letters_total'), 'dispatcher'),
        query(increase('hub_webhook_dead_letters_total'), 'webhook-fanout'),
        query(increase('hub_projector_unreadable_payloads_total'), 'payloads that cannot be decrypted'),
      ],
    },
    {
      title: 'Event outbox',
      about: 'Transactions whose events are not in Kafka yet.',
      unit: 'short',
      queries: [query('max(hub_projector_outbox_rows)', 'rows', FIRST_SECONDS)],
    },
    {
      title: 'Event outbox: age',
      about: 'Webhooks wait as long as the oldest row. HubEventOutboxStuck fires at one minute.',
      unit: 's',
      queries: [query('max(hub_projector_outbox_oldest_row_seconds)', 'oldest row', FIRST_SECONDS)],
    },
    {
      title: 'Rebuild',
      about: 'Progress of a rebuild of the read models.',
      unit: 'short',
      queries: [
        query('max(hub_projector_rebuild_behind_records)', 'behind', 'while no rebuild runs'),
        query(perSecond('hub_projector_rebuilt_records_total', ''), 'folded per second'),
      ],
    },
    {
      title: 'Retention: time since each job finished',
      about: 'Each job runs every minute or every hour. HubRetentionBehind fires at six hours.',
      unit: 's',
      queries: [query('time() - max by (task) (hub_retention_last_finished_timestamp_seconds)', '{{task}}')],
    },
    {
      title: 'Retention: removed, failed, held',
      about: 'Rows, partitions or keys. Held means that something is due but must wait.',
      unit: 'short',
      queries: [
        query('sum by (task) (increase(hub_retention_removed_total[1h]))', 'removed: {{task}}'),
        query('sum by (task) (increase(hub_retention_failures_total[1h]))', 'failed: {{task}}'),
        query('max by (task) (hub_retention_held)', 'held: {{task}}'),
      ],
    },
    {
      title: 'Connections that were replaced',
      about:
        'Connections to servers that broke or did not answer. Many at once: a server or the network failed. The hub opens new ones by itself.',
      unit: 'short',
      queries: [
        query(
          'sum by (job, reason) (increase(hub_postgresql_connections_replaced_total[5m]))',
          'PostgreSQL, {{reason}}: {{job}}',
        ),
        query(
          'sum by (job, reason) (increase(hub_redis_connections_replaced_total[5m]))',
          'Redis, {{reason}}: {{job}}',
        ),
        query('sum by (job) (increase(hub_kafka_connections_replaced_total[5m]))', 'Kafka: {{job}}'),
      ],
    },
    {
      title: 'Connections of clients that were closed at a limit',
      about:
        'A new connection takes the place of one that waits for its client. If it is the new one that is closed, all others have requests in progress.',
      unit: 'short',
      queries: [
        query(
          'sum by (job, limit, closed) (increase(hub_http_connections_closed_total[5m]))',
          '{{job}}, {{limit}}: {{closed}}',
        ),
      ],
    },
    {
      title: 'Resident memory',
      about: 'By process.',
      unit: 'bytes',
      queries: [byLabel('max', 'job, instance', `process_resident_memory_bytes${OURS}`)],
    },
    {
      title: 'Memory of Node',
      about: 'The heap in use by process, and the sums of all processes.',
      unit: 'bytes',
      queries: [
        byLabel('max', 'job, instance', `nodejs_heap_size_used_bytes${OURS}`),
        query(`sum(nodejs_heap_size_total_bytes${OURS})`, 'heap of all processes'),
        query(`sum(nodejs_external_memory_bytes${OURS})`, 'outside of the heap, all processes'),
      ],
    },
    {
      title: 'CPU time',
      about: 'Cores in use. A process uses little more than one.',
      unit: 'short',
      queries: [
        rate('process_cpu_seconds_total', 'job, instance', OURS),
        query(perSecond('process_cpu_user_seconds_total', '', OURS), 'user, all processes'),
        query(perSecond('process_cpu_system_seconds_total', '', OURS), 'system, all processes'),
      ],
    },
    {
      title: 'Open files and connections, as a share of their limit',
      about: 'By process.',
      unit: 'percentunit',
      queries: [byLabel('max', 'job, instance', `process_open_fds${OURS} / process_max_fds${OURS}`)],
    },
    {
      title: 'Event loop delay',
      about: 'Since the last scrape: the 99th percentile by process, and the worst of all processes.',
      unit: 's',
      queries: [
        byLabel('max', 'job, instance', `nodejs_eventloop_lag_p99_seconds${OURS}`),
        query(`max(nodejs_eventloop_lag_p50_seconds${OURS})`, 'median, worst process'),
        query(`max(nodejs_eventloop_lag_max_seconds${OURS})`, 'maximum, worst process'),
      ],
    },
    {
      title: 'Versions',
      about: 'Processes by version of the hub and of Node. During a rollout there are two.',
      unit: 'short',
      queries: [
        query('count by (job, version) (hub_build_info)', '{{job}} {{version}}'),
        query(`count by (version) (nodejs_version_info${OURS})`, 'Node {{version}}'),
      ],
    },
    {
      title: 'Time since the start',
      about: 'Of the youngest process of each app.',
      unit: 's',
      queries: [query(`min by (job) (time() - process_start_time_seconds${OURS})`, '{{job}}')],
    },
    {
      title: 'Running processes',
      about: 'Processes that Prometheus can scrape, by app.',
      unit: 'short',
      queries: [byLabel('sum', 'job', 'up{job=~"command-api|dispatcher|projector|webhook-fanout"}')],
    },
    {
      title: 'Spans of traces',
      about:
        'Dropped spans mean that the trace receiver is unavailable, slow or too small. Nothing else is affected.',
      unit: 'ops',
      queries: [
        query(perSecond('hub_trace_spans_exported_total', ''), 'exported'),
        query(perSecond('hub_trace_spans_dropped_total', 'reason'), 'dropped: {{reason}}'),
      ],
    },
  ],
}

const operations: Dashboard = {
  uid: 'hub-operations',
  title: 'Hub: operations',
  about: 'operations-api: the operations API and the console of hub staff.',
  panels: [
    {
      title: 'Answers by class of the status',
      about: '5xx is a fault of the hub. HubOperationsErrors fires at 5 %.',
      unit: 'reqps',
      queries: [occurring(rate('hub_operations_answers_total', 'status'))],
    },
    {
      title: 'Requests by route',
      about: 'Requests per second.',
      unit: 'reqps',
      queries: [rate('hub_operations_request_seconds_count', 'method, route')],
    },
    {
      title: 'Time of a request',
      about: 'All routes. A search examines a bounded number of messages.',
      unit: 's',
      queries: quantiles('hub_operations_request_seconds'),
    },
    {
      title: 'Sign-ins',
      about:
        'Sessions that began, and refused sign-ins and bearer tokens. HubLoginsRefused fires at 20 in 15 minutes.',
      unit: 'short',
      queries: [
        query(increase('hub_operations_logins_total'), 'begun'),
        query(increase('hub_operations_logins_refused_total'), 'refused'),
      ],
    },
    {
      title: 'Look-ups of persons',
      about:
        'Reveals, hashes, searches by number and checks of opt-outs. HubLookupsRefused fires at the first refused one.',
      unit: 'short',
      queries: [
        query(increase('hub_operations_lookups_total{result="begun"}'), 'begun'),
        query(increase('hub_operations_lookups_total{result="refused"}'), 'refused'),
      ],
    },
    {
      title: 'Viewers of the overview',
      about: 'Open start pages of the console. They share the queries.',
      unit: 'short',
      queries: [query('sum(hub_operations_overview_viewers)', 'viewers')],
    },
    {
      title: 'Time of a query for the overview',
      about: 'The longer a query takes, the rarer it is: all together take at most 1 % of a core.',
      unit: 's',
      queries: quantiles('hub_operations_overview_seconds'),
    },
  ],
}

export const dashboards: ReadonlyArray<Dashboard> = [acceptance, delivery, webhooks, pipeline, operations]
