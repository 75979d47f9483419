/** The four Grafana dashboards as data: acceptance, delivery, webhooks and pipeline. */
import { byLabel, type Dashboard, increase, perSecond, quantile, quantiles, rate } from './panels.ts'

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
      queries: [rate('hub_http_answers_total', 'status')],
    },
    {
      title: 'Share of 5xx',
      about: 'HubApiErrors fires at 1 %.',
      unit: 'percentunit',
      queries: [
        {
          expr: `(${perSecond('hub_http_answers_total', '', '{status=~"5.."}')} or vector(0)) / ${perSecond('hub_http_answers_total', '')}`,
          legend: '5xx',
        },
      ],
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
      queries: [rate('hub_accept_sends_total', 'class, outcome')],
    },
    {
      title: 'Share of accepted sends',
      about: 'Accepted sends and duplicates. The remaining sends were refused by a rule or failed.',
      unit: 'percentunit',
      queries: [
        {
          expr: share('hub_accept_sends_total', 'class', '{outcome=~"accepted|duplicate"}'),
          legend: '{{class}}',
        },
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
        { expr: quantile(0.95, 'hub_accept_flush_messages'), legend: 'sends of an acceptance batch, p95' },
        { expr: 'sum(hub_accept_waiting_sends)', legend: 'waiting for an outcome' },
      ],
    },
    {
      title: 'Outbox: age of its oldest row',
      about:
        'Some seconds are normal while an acceptance batch is published. Minutes mean that Kafka does not acknowledge appends.',
      unit: 's',
      queries: [{ expr: 'max(hub_accept_outbox_oldest_row_seconds)', legend: 'oldest row' }],
    },
    {
      title: 'Outbox: rows, and the stop flag',
      about: 'Each row is an acceptance batch. The flag is 1 while the hub accepts no new messages.',
      unit: 'short',
      queries: [
        { expr: 'max(hub_accept_outbox_rows)', legend: 'rows' },
        { expr: 'max(hub_accept_stopped)', legend: 'stop flag' },
      ],
    },
    {
      title: 'Age of the payload keys',
      about:
        'Age of the keys that encrypt payloads now. If a line only rises, the hub does not create new keys.',
      unit: 's',
      queries: [byLabel('max', 'purpose', 'hub_sealing_key_age_seconds')],
    },
    {
      title: 'Event loop of command-api',
      about: '99th percentile of the delay since the last scrape. Above 100 ms, an instance is overloaded.',
      unit: 's',
      queries: [byLabel('max', 'instance', 'hub_process_event_loop_delay_p99_seconds{job="command-api"}')],
    },
  ],
}

const NO_LIVE_TRAFFIC = 'without messages over SMPP'

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
      queries: [rate('hub_dispatcher_handovers_total', 'operator, outcome')],
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
      queries: [
        {
          ...rate('hub_dispatcher_handovers_total', 'reason', '{outcome="rejected"}'),
          mayBeEmpty: 'while no operator rejects anything',
        },
      ],
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
      queries: [
        {
          expr: share('hub_dispatcher_final_total', 'class', '{status="delivered"}'),
          legend: '{{class}}',
        },
      ],
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
        { expr: 'sum(hub_dispatcher_open_messages)', legend: 'open' },
        {
          expr: 'sum by (class) (hub_dispatcher_buffered_messages)',
          legend: '{{class}} waiting for the operator',
        },
        {
          expr: 'sum by (operator) (hub_dispatcher_claims_in_flight)',
          legend: 'in flight to {{operator}}',
        },
      ],
    },
    {
      title: 'Unusual events',
      about: 'A few duplicates are normal after a restart. Investigate outcome_unknown and record_lost.',
      unit: 'ops',
      queries: [rate('hub_dispatcher_happenings_total', 'what')],
    },
    {
      title: 'Reports without their message',
      about:
        'A report is parked until the read model knows its message. If the message stays unknown, the report is dropped.',
      unit: 'short',
      queries: [
        { expr: 'sum(hub_dispatcher_parked_reports)', legend: 'parked' },
        { expr: increase('hub_dispatcher_reports_of_nobody_total'), legend: 'message unknown' },
      ],
    },
    {
      title: 'SMPP: binds and window',
      about:
        'HubNoBind fires after two minutes without a bind. A full window means that the operator limits the rate.',
      unit: 'short',
      queries: [
        { expr: 'sum by (role) (hub_smpp_binds_up)', legend: '{{role}} binds' },
        { expr: 'sum(hub_smpp_window_used_parts)', legend: 'window used' },
        { expr: 'sum(hub_smpp_window_parts)', legend: 'window' },
        { expr: 'sum(hub_smpp_waiting_messages)', legend: 'waiting in the adapter' },
      ],
    },
    {
      title: 'SMPP: parts by result',
      about: 'The result of each submit_sm.',
      unit: 'ops',
      queries: [{ ...rate('hub_smpp_submitted_parts_total', 'result'), mayBeEmpty: NO_LIVE_TRAFFIC }],
    },
    {
      title: 'SMPP: deliveries of the SMSC, and ended sessions',
      about: 'Delivery receipts and inbound messages. The SMSC sends a not_taken one again.',
      unit: 'ops',
      queries: [
        { ...rate('hub_smpp_deliveries_total', 'kind'), mayBeEmpty: NO_LIVE_TRAFFIC },
        {
          expr: perSecond('hub_smpp_sessions_ended_total', 'why'),
          legend: 'ended: {{why}}',
          mayBeEmpty: 'while no session ends',
        },
      ],
    },
    {
      title: 'SMPP: pause that the SMSC requested',
      about: 'The last pause, requested by throttling.',
      unit: 's',
      queries: [{ expr: 'max(hub_smpp_pause_seconds)', legend: 'pause' }],
    },
    {
      title: 'Shards',
      about:
        'The open shards of all dispatchers must equal the partitions of a topic. Fewer for over a minute: a shard has no owner.',
      unit: 'short',
      queries: [
        { expr: 'sum(hub_dispatcher_open_shards)', legend: 'open' },
        { expr: increase('hub_dispatcher_recoveries_total'), legend: 'recovered' },
        { expr: increase('hub_dispatcher_lease_stops_total'), legend: 'stopped by the lease' },
      ],
    },
    {
      title: 'Recovery of a shard',
      about: 'From its assignment until it was open.',
      unit: 's',
      queries: [
        {
          expr: quantile(0.95, 'hub_dispatcher_recovery_seconds'),
          legend: 'p95',
          mayBeEmpty: 'while no shard changes its owner',
        },
      ],
    },
    {
      title: 'Messages in memory',
      about:
        'By process. The memory budget bounds them. Final messages stay for a while, to detect repeated records.',
      unit: 'short',
      queries: [
        byLabel('sum', 'instance', 'hub_dispatcher_messages_in_memory'),
        { expr: 'sum(hub_dispatcher_remembered_messages)', legend: 'final ones, all processes' },
      ],
    },
    {
      title: 'Memory of shards',
      about: 'Estimated memory of the ten largest shards.',
      unit: 'bytes',
      queries: [
        { expr: 'topk(10, sum by (shard) (hub_dispatcher_shard_memory_bytes))', legend: 'shard {{shard}}' },
      ],
    },
    {
      title: 'Inbound messages',
      about: 'By their effect on the opt-outs of the recipient.',
      unit: 'ops',
      queries: [
        {
          ...rate('hub_dispatcher_inbound_messages_total', 'change'),
          mayBeEmpty: 'while there are no inbound messages',
        },
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
      queries: [
        { expr: share('hub_webhook_attempts_total', '', '{result="succeeded"}'), legend: 'succeeded' },
      ],
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
        { expr: perSecond('hub_webhook_events_read_total', ''), legend: 'events read' },
        { expr: perSecond('hub_webhook_batches_queued_total', ''), legend: 'batches queued' },
      ],
    },
    {
      title: 'Backlog',
      about: 'Waiting batches of all subscriptions, also of disabled ones. Counted up to 100,000.',
      unit: 'short',
      queries: [
        { expr: 'max(hub_webhook_batches_waiting)', legend: 'batches' },
        { expr: 'sum(hub_webhook_events_collected)', legend: 'events not yet in a batch' },
      ],
    },
    {
      title: 'In flight',
      about: 'After a crash, unrecorded attempts are delivered again: at most 256 for each subscription.',
      unit: 'short',
      queries: [
        { expr: 'sum(hub_webhook_attempts_in_flight)', legend: 'attempts' },
        { expr: 'sum(hub_webhook_attempts_in_flight_failing)', legend: 'of them to failing subscriptions' },
        { expr: 'sum(hub_webhook_attempts_unrecorded)', legend: 'not recorded yet' },
      ],
    },
    {
      title: 'Subscriptions',
      about:
        'The fan-out disables a subscription that fails for long. An event informs its owner, who can enable it again.',
      unit: 'short',
      queries: [
        byLabel('sum', 'state', 'hub_webhook_subscriptions'),
        {
          expr: 'sum(increase(hub_webhook_subscriptions_disabled_total[1h]))',
          legend: 'disabled in the last hour',
        },
      ],
    },
    {
      title: 'Partitions',
      about:
        'A paused partition has enough waiting events. A lost partition was taken over by another process.',
      unit: 'short',
      queries: [
        { expr: 'sum(hub_webhook_partitions)', legend: 'open' },
        { expr: 'sum(hub_webhook_partitions_paused)', legend: 'paused' },
        { expr: increase('hub_webhook_partitions_lost_total'), legend: 'lost' },
      ],
    },
    {
      title: 'Sockets and attempts not made',
      about:
        'An attempt that was not made counts as no result: the fan-out had no free socket, or was stopping.',
      unit: 'short',
      queries: [
        { expr: 'sum(hub_webhook_open_sockets)', legend: 'sockets' },
        { expr: increase('hub_webhook_attempts_not_made_total'), legend: 'not made' },
        {
          expr: increase('hub_webhook_trials_total'),
          legend: 'test deliveries',
          mayBeEmpty: 'before the first test delivery',
        },
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

const FIRST_SECONDS = 'in the first seconds'
const NO_REBUILD = 'while no rebuild runs'

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
        {
          expr: 'topk(10, sum by (job, topic, partition) (hub_consumer_lag_records))',
          legend: '{{job}} {{topic}}/{{partition}}',
        },
      ],
    },
    {
      title: 'Projector: records',
      about: 'Records applied to the read models, and events recorded.',
      unit: 'ops',
      queries: [
        rate('hub_projector_records_total', 'topic'),
        { expr: perSecond('hub_projector_events_total', ''), legend: 'events' },
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
        {
          expr: 'sum by (topic) (increase(hub_projector_dead_letters_total[$__rate_interval]))',
          legend: 'projector: {{topic}}',
        },
        { expr: increase('hub_dispatcher_dead_letters_total'), legend: 'dispatcher' },
        { expr: increase('hub_webhook_dead_letters_total'), legend: 'webhook-fanout' },
        {
          expr: increase('hub_projector_unreadable_payloads_total'),
          legend: 'payloads that cannot be decrypted',
          mayBeEmpty: 'while every payload can be decrypted',
        },
      ],
    },
    {
      title: 'Event outbox',
      about: 'Transactions whose events are not in Kafka yet.',
      unit: 'short',
      queries: [{ expr: 'max(hub_projector_outbox_rows)', legend: 'rows', mayBeEmpty: FIRST_SECONDS }],
    },
    {
      title: 'Event outbox: age',
      about: 'Webhooks wait as long as the oldest row. HubEventOutboxStuck fires at one minute.',
      unit: 's',
      queries: [
        {
          expr: 'max(hub_projector_outbox_oldest_row_seconds)',
          legend: 'oldest row',
          mayBeEmpty: FIRST_SECONDS,
        },
      ],
    },
    {
      title: 'Rebuild',
      about: 'Progress of a rebuild of the read models.',
      unit: 'short',
      queries: [
        { expr: 'max(hub_projector_rebuild_behind_records)', legend: 'behind', mayBeEmpty: NO_REBUILD },
        {
          expr: perSecond('hub_projector_rebuilt_records_total', ''),
          legend: 'folded per second',
          mayBeEmpty: NO_REBUILD,
        },
      ],
    },
    {
      title: 'Retention: time since each job finished',
      about: 'Each job runs every minute or every hour. HubRetentionBehind fires at six hours.',
      unit: 's',
      queries: [
        {
          expr: 'time() - max by (task) (hub_retention_last_finished_timestamp_seconds)',
          legend: '{{task}}',
        },
      ],
    },
    {
      title: 'Retention: removed, failed, held',
      about: 'Rows, partitions or keys. Held means that something is due but must wait.',
      unit: 'short',
      queries: [
        { expr: 'sum by (task) (increase(hub_retention_removed_total[1h]))', legend: 'removed: {{task}}' },
        {
          expr: 'sum by (task) (increase(hub_retention_failures_total[1h]))',
          legend: 'failed: {{task}}',
          mayBeEmpty: 'while no step fails',
        },
        { expr: 'max by (task) (hub_retention_held)', legend: 'held: {{task}}' },
      ],
    },
    {
      title: 'Resident memory',
      about: 'By process.',
      unit: 'bytes',
      queries: [byLabel('max', 'job, instance', 'hub_process_resident_memory_bytes')],
    },
    {
      title: 'Event loop delay',
      about: '99th percentile since the last scrape.',
      unit: 's',
      queries: [byLabel('max', 'job, instance', 'hub_process_event_loop_delay_p99_seconds')],
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
        {
          expr: perSecond('hub_trace_spans_exported_total', ''),
          legend: 'exported',
          mayBeEmpty: 'while nothing is traced',
        },
        {
          expr: perSecond('hub_trace_spans_dropped_total', 'reason'),
          legend: 'dropped: {{reason}}',
          mayBeEmpty: 'while none is dropped',
        },
      ],
    },
  ],
}

export const dashboards: ReadonlyArray<Dashboard> = [acceptance, delivery, webhooks, pipeline]
