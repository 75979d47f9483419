/** The four dashboards: what comes in, what goes to operators, what goes to subscribers, and what moves it all. */
import { type Dashboard, perSecond, quantile, quantiles } from './panels.ts'

const SENDS = '{method="POST",route="/v1/messages"}'

const acceptance: Dashboard = {
  uid: 'hub-acceptance',
  title: 'Hub: acceptance',
  about: 'command-api: what is asked of the hub, what it answers, and how long that takes.',
  panels: [
    {
      title: 'Requests by route',
      about: 'Requests a second.',
      unit: 'reqps',
      queries: [
        {
          expr: perSecond('hub_http_request_seconds_count', 'method, route'),
          legend: '{{method}} {{route}}',
        },
      ],
    },
    {
      title: 'Answers by status',
      about: 'A 5xx is ours. 429 is a client that goes faster than its limit.',
      unit: 'reqps',
      queries: [{ expr: perSecond('hub_http_answers_total', 'status'), legend: '{{status}}' }],
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
      about: '`service` waits for PostgreSQL, `otp` for Kafka as well. HubApiSlow fires at a p99 of 1 s.',
      unit: 's',
      queries: quantiles('hub_http_request_seconds', SENDS),
    },
    {
      title: 'Sends by outcome',
      about: 'Each send, those of batches too: accepted, duplicate, or the code of the error.',
      unit: 'ops',
      queries: [
        { expr: perSecond('hub_accept_sends_total', 'class, outcome'), legend: '{{class}} {{outcome}}' },
      ],
    },
    {
      title: 'Share of sends taken',
      about: 'Accepted or known already. What is missing to one was refused, by rule or by fault.',
      unit: 'percentunit',
      queries: [
        {
          expr: `${perSecond('hub_accept_sends_total', 'class', '{outcome=~"accepted|duplicate"}')} / ${perSecond('hub_accept_sends_total', 'class')}`,
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
        'Seconds are usual while an acceptance batch is published. Minutes mean that Kafka does not acknowledge appends.',
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
      title: 'Age of the sealing keys',
      about:
        'Of the keys that payloads are sealed with now. A line that only rises says that no new one is made.',
      unit: 's',
      queries: [{ expr: 'max by (purpose) (hub_sealing_key_age_seconds)', legend: '{{purpose}}' }],
    },
    {
      title: 'Event loop of command-api',
      about:
        '99th percentile of the delay since the last scrape. Above 100 ms an instance has more than it can do.',
      unit: 's',
      queries: [
        {
          expr: 'max by (instance) (hub_process_event_loop_delay_p99_seconds{job="command-api"})',
          legend: '{{instance}}',
        },
      ],
    },
  ],
}

const NO_LIVE_TRAFFIC = 'without messages over SMPP'

const delivery: Dashboard = {
  uid: 'hub-delivery',
  title: 'Hub: delivery',
  about: 'dispatcher: from the lanes to the operators, and what they report.',
  panels: [
    {
      title: 'Answers of operators',
      about:
        'Refused comes again by itself; rejected never; unknown is not repeated where it could arrive twice.',
      unit: 'ops',
      queries: [
        {
          expr: perSecond('hub_dispatcher_handovers_total', 'operator, outcome'),
          legend: '{{operator}} {{outcome}}',
        },
      ],
    },
    {
      title: 'From acceptance to the operator: otp',
      about: 'HubOtpHandoverSlow fires at a p95 of 5 s.',
      unit: 's',
      queries: quantiles('hub_dispatcher_handover_latency_seconds', '{class="otp"}'),
    },
    {
      title: 'From acceptance to the operator: service',
      about: 'A campaign may wait for the rate of the operator; codes never wait behind it.',
      unit: 's',
      queries: quantiles('hub_dispatcher_handover_latency_seconds', '{class="service"}'),
    },
    {
      title: 'Rejections by reason',
      about: 'Messages that an operator will never take.',
      unit: 'ops',
      queries: [
        {
          expr: perSecond('hub_dispatcher_handovers_total', 'reason', '{outcome="rejected"}'),
          legend: '{{reason}}',
          mayBeEmpty: 'while no operator rejects anything',
        },
      ],
    },
    {
      title: 'Final messages',
      about: 'By status.',
      unit: 'ops',
      queries: [
        { expr: perSecond('hub_dispatcher_final_total', 'class, status'), legend: '{{class}} {{status}}' },
      ],
    },
    {
      title: 'Share delivered of what became final',
      about:
        'What is usual is the operators’ and the recipients’ to say; a sudden fall is an operator in trouble.',
      unit: 'percentunit',
      queries: [
        {
          expr: `${perSecond('hub_dispatcher_final_total', 'class', '{status="delivered"}')} / ${perSecond('hub_dispatcher_final_total', 'class')}`,
          legend: '{{class}}',
        },
      ],
    },
    {
      title: 'Reports: how late',
      about: 'From the hand-over until the report that made a message final.',
      unit: 's',
      queries: quantiles('hub_dispatcher_report_wait_seconds'),
    },
    {
      title: 'Open messages',
      about: 'Not final. Most of them await their report.',
      unit: 'short',
      queries: [
        { expr: 'sum(hub_dispatcher_open_messages)', legend: 'open' },
        {
          expr: 'sum by (class) (hub_dispatcher_buffered_messages)',
          legend: '{{class}} waiting for the operator',
        },
        { expr: 'sum by (operator) (hub_dispatcher_claims_in_flight)', legend: 'under way to {{operator}}' },
      ],
    },
    {
      title: 'Out of the ordinary',
      about: 'A few duplicates are usual after a restart. outcome_unknown and record_lost are worth a look.',
      unit: 'ops',
      queries: [{ expr: perSecond('hub_dispatcher_happenings_total', 'what'), legend: '{{what}}' }],
    },
    {
      title: 'Reports without their message',
      about: 'Parked until the read model knows; of nobody when it does not.',
      unit: 'short',
      queries: [
        { expr: 'sum(hub_dispatcher_parked_reports)', legend: 'parked' },
        {
          expr: 'sum(increase(hub_dispatcher_reports_of_nobody_total[$__rate_interval]))',
          legend: 'of nobody',
        },
      ],
    },
    {
      title: 'SMPP: binds and window',
      about: 'HubNoBind fires without a bind for two minutes. A window that is full is the operator’s pace.',
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
      about: 'What became of each submit_sm.',
      unit: 'ops',
      queries: [
        {
          expr: perSecond('hub_smpp_submitted_parts_total', 'result'),
          legend: '{{result}}',
          mayBeEmpty: NO_LIVE_TRAFFIC,
        },
      ],
    },
    {
      title: 'SMPP: what the centre delivers, and ended sessions',
      about: 'Receipts and inbound messages; not_taken comes again.',
      unit: 'ops',
      queries: [
        {
          expr: perSecond('hub_smpp_deliveries_total', 'kind'),
          legend: '{{kind}}',
          mayBeEmpty: NO_LIVE_TRAFFIC,
        },
        {
          expr: perSecond('hub_smpp_sessions_ended_total', 'why'),
          legend: 'ended: {{why}}',
          mayBeEmpty: 'while every session stands',
        },
      ],
    },
    {
      title: 'SMPP: pause that the centre asked for',
      about: 'By throttling; the last one.',
      unit: 's',
      queries: [{ expr: 'max(hub_smpp_pause_seconds)', legend: 'pause' }],
    },
    {
      title: 'Shards',
      about:
        'Open over all dispatchers: as many as a topic has partitions. Fewer for more than a minute is a shard that nobody serves.',
      unit: 'short',
      queries: [
        { expr: 'sum(hub_dispatcher_open_shards)', legend: 'open' },
        { expr: 'sum(increase(hub_dispatcher_recoveries_total[$__rate_interval]))', legend: 'recovered' },
        {
          expr: 'sum(increase(hub_dispatcher_lease_stops_total[$__rate_interval]))',
          legend: 'stopped by the lease',
        },
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
          mayBeEmpty: 'while no shard changes hands',
        },
      ],
    },
    {
      title: 'Messages in memory',
      about:
        'By process, which bounds them. Final ones are remembered for a while, so that a repeat is dropped.',
      unit: 'short',
      queries: [
        { expr: 'sum by (instance) (hub_dispatcher_messages_in_memory)', legend: '{{instance}}' },
        { expr: 'sum(hub_dispatcher_remembered_messages)', legend: 'remembered, all' },
      ],
    },
    {
      title: 'Memory of shards',
      about: 'An estimate, the ten largest.',
      unit: 'bytes',
      queries: [
        { expr: 'topk(10, sum by (shard) (hub_dispatcher_shard_memory_bytes))', legend: 'shard {{shard}}' },
      ],
    },
    {
      title: 'Inbound messages',
      about: 'What recipients wrote, by what it changed of their opt-outs.',
      unit: 'ops',
      queries: [
        {
          expr: perSecond('hub_dispatcher_inbound_messages_total', 'change'),
          legend: '{{change}}',
          mayBeEmpty: 'while no recipient writes',
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
      about: 'Whatever is not `succeeded` is the receiver’s, and is tried again for a day.',
      unit: 'ops',
      queries: [{ expr: perSecond('hub_webhook_attempts_total', 'result'), legend: '{{result}}' }],
    },
    {
      title: 'Share of attempts that succeed',
      about: 'One dead receiver with much traffic lowers it; many at once are a fault on our way out.',
      unit: 'percentunit',
      queries: [
        {
          expr: `${perSecond('hub_webhook_attempts_total', '', '{result="succeeded"}')} / ${perSecond('hub_webhook_attempts_total', '')}`,
          legend: 'succeeded',
        },
      ],
    },
    {
      title: 'Time of an attempt',
      about: 'Until the receiver answered or the attempt was given up at ten seconds.',
      unit: 's',
      queries: quantiles('hub_webhook_attempt_seconds'),
    },
    {
      title: 'Wait for the first attempt',
      about: 'From queueing a batch. Grows when all slots are taken.',
      unit: 's',
      queries: quantiles('hub_webhook_first_attempt_wait_seconds'),
    },
    {
      title: 'Events and batches',
      about: 'Up to a hundred events, or those of a second, become one batch for each subscription.',
      unit: 'ops',
      queries: [
        { expr: perSecond('hub_webhook_events_read_total', ''), legend: 'events read' },
        { expr: perSecond('hub_webhook_batches_queued_total', ''), legend: 'batches queued' },
      ],
    },
    {
      title: 'Backlog',
      about:
        'Batches that wait, over all subscriptions, those of disabled ones included. Counted up to 100,000.',
      unit: 'short',
      queries: [
        { expr: 'max(hub_webhook_batches_waiting)', legend: 'batches' },
        { expr: 'sum(hub_webhook_events_collected)', legend: 'events on their way into batches' },
      ],
    },
    {
      title: 'Under way',
      about: 'A crash of a process delivers its unrecorded attempts again: up to 256 for each subscription.',
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
        'One is disabled when it has failed for long; its owner is told by an event and enables it again.',
      unit: 'short',
      queries: [
        { expr: 'sum by (state) (hub_webhook_subscriptions)', legend: '{{state}}' },
        {
          expr: 'sum(increase(hub_webhook_subscriptions_disabled_total[1h]))',
          legend: 'disabled in the last hour',
        },
      ],
    },
    {
      title: 'Partitions',
      about:
        'Of this process’s group. A paused one has enough waiting; a lost one was taken over by another process.',
      unit: 'short',
      queries: [
        { expr: 'sum(hub_webhook_partitions)', legend: 'open' },
        { expr: 'sum(hub_webhook_partitions_paused)', legend: 'paused' },
        { expr: 'sum(increase(hub_webhook_partitions_lost_total[$__rate_interval]))', legend: 'lost' },
      ],
    },
    {
      title: 'Sockets and attempts not made',
      about: 'An attempt that is not made counts for nobody: we were out of sockets, or ending.',
      unit: 'short',
      queries: [
        { expr: 'sum(hub_webhook_open_sockets)', legend: 'sockets' },
        { expr: 'sum(increase(hub_webhook_attempts_not_made_total[$__rate_interval]))', legend: 'not made' },
        {
          expr: 'sum(increase(hub_webhook_trials_total[$__rate_interval]))',
          legend: 'trials',
          mayBeEmpty: 'before the first trial delivery',
        },
      ],
    },
    {
      title: 'Bodies in memory',
      about: 'Bounded; beyond that they are read when their turn comes.',
      unit: 'bytes',
      queries: [{ expr: 'sum by (instance) (hub_webhook_body_bytes)', legend: '{{instance}}' }],
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
        'Records that the owners of the partitions have not read. HubConsumerLag fires above 10,000 that do not shrink.',
      unit: 'short',
      queries: [{ expr: 'sum by (job, topic) (hub_consumer_lag_records)', legend: '{{job}} {{topic}}' }],
    },
    {
      title: 'Lag: the worst partitions',
      about: 'One alone is a recipient or an account with much traffic, or an instance in trouble.',
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
      about: 'Applied to the read models, and events recorded.',
      unit: 'ops',
      queries: [
        { expr: perSecond('hub_projector_records_total', 'topic'), legend: '{{topic}}' },
        { expr: perSecond('hub_projector_events_total', ''), legend: 'events' },
      ],
    },
    {
      title: 'Projector: wait time',
      about: 'From when something happened until it can be read. HubProjectorBehind fires at a p95 of 30 s.',
      unit: 's',
      queries: quantiles('hub_projector_wait_seconds'),
    },
    {
      title: 'Projector: service time',
      about: 'The transaction of a poll.',
      unit: 's',
      queries: quantiles('hub_projector_transaction_seconds'),
    },
    {
      title: 'Projector: records of a transaction',
      about: 'Larger when it catches up.',
      unit: 'short',
      queries: quantiles('hub_projector_poll_records'),
    },
    {
      title: 'Failures',
      about: 'Of the projector, by cause. A superseded one is a rebalance.',
      unit: 'ops',
      queries: [{ expr: perSecond('hub_projector_failures_total', 'cause'), legend: '{{cause}}' }],
    },
    {
      title: 'Dead letters',
      about:
        'Records that could not be read or applied. There should be none: HubDeadLetters fires at the first.',
      unit: 'short',
      queries: [
        {
          expr: 'sum by (topic) (increase(hub_projector_dead_letters_total[$__rate_interval]))',
          legend: 'projector: {{topic}}',
        },
        { expr: 'sum(increase(hub_dispatcher_dead_letters_total[$__rate_interval]))', legend: 'dispatcher' },
        { expr: 'sum(increase(hub_webhook_dead_letters_total[$__rate_interval]))', legend: 'webhook-fanout' },
        {
          expr: 'sum(increase(hub_projector_unreadable_payloads_total[$__rate_interval]))',
          legend: 'payloads that do not open',
          mayBeEmpty: 'while every payload opens',
        },
      ],
    },
    {
      title: 'Event outbox',
      about: 'Transactions whose events are not in Kafka yet.',
      unit: 'short',
      queries: [
        { expr: 'max(hub_projector_outbox_rows)', legend: 'rows', mayBeEmpty: 'in the first seconds' },
      ],
    },
    {
      title: 'Event outbox: age',
      about: 'Webhooks wait as long. HubEventOutboxStuck fires at a minute.',
      unit: 's',
      queries: [
        {
          expr: 'max(hub_projector_outbox_oldest_row_seconds)',
          legend: 'oldest row',
          mayBeEmpty: 'in the first seconds',
        },
      ],
    },
    {
      title: 'Rebuild',
      about: 'Of the read models, while one runs.',
      unit: 'short',
      queries: [
        {
          expr: 'max(hub_projector_rebuild_behind_records)',
          legend: 'behind',
          mayBeEmpty: 'while nothing is rebuilt',
        },
        {
          expr: perSecond('hub_projector_rebuilt_records_total', ''),
          legend: 'folded a second',
          mayBeEmpty: 'while nothing is rebuilt',
        },
      ],
    },
    {
      title: 'Retention: since its jobs finished',
      about: 'Each runs every minute or hour. HubRetentionBehind fires at six hours.',
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
      about: 'Rows, partitions or keys. Held: something is due and has to wait.',
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
      queries: [
        {
          expr: 'max by (job, instance) (hub_process_resident_memory_bytes)',
          legend: '{{job}} {{instance}}',
        },
      ],
    },
    {
      title: 'Event loop delay',
      about: '99th percentile since the last scrape.',
      unit: 's',
      queries: [
        {
          expr: 'max by (job, instance) (hub_process_event_loop_delay_p99_seconds)',
          legend: '{{job}} {{instance}}',
        },
      ],
    },
    {
      title: 'Processes that answer',
      about: 'Scraped, by app.',
      unit: 'short',
      queries: [
        {
          expr: 'sum by (job) (up{job=~"command-api|dispatcher|projector|webhook-fanout"})',
          legend: '{{job}}',
        },
      ],
    },
    {
      title: 'Spans of traces',
      about: 'Dropped ones are a receiver that is away, slow, or too small. Nothing else suffers.',
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
