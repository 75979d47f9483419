/**
 * Finds the definition of every metric in the sources, and describes the values of their labels.
 * Tests compare the dashboards, the alerts and `docs/metrics.md` with this list.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../../..')

type MetricType = 'counter' | 'gauge' | 'histogram'

interface MetricDefinition {
  readonly name: string
  readonly type: MetricType
  readonly help: string
  /** The folder whose code defines it: `apps/dispatcher`. */
  readonly where: string
  /** A description of the values, by label. */
  readonly labels: Readonly<Record<string, string>>
}

const OPERATOR = '`sandbox`, `smpp`, `http`'
const CLASS = '`otp`, `service`'
const TOPIC = 'a topic of the hub'

const UNAVAILABLE =
  '`unreachable` (no connection), `timeout` (too late), `busy` (too many calls), `empty` (the flood windows are not rebuilt yet), `failed` (an error of Redis)'

/**
 * The labels of each metric that has any. Their values come from short lists in the code, so that
 * the number of series stays small: never a recipient, a host or an id, and an account only in `hub_suspicious_requests`.
 */
const LABELS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  hub_accept_sends_total: { class: CLASS, outcome: '`accepted`, `duplicate`, or an error code of the API' },
  hub_accept_unchecked_sends_total: { class: CLASS, reason: UNAVAILABLE },
  hub_counters_unavailable_total: {
    counter:
      '`rate` (requests of a key), `logins` (failed ones), `flood` (windows), `daily` (limit), `shared` (rate at the operator)',
    reason: UNAVAILABLE,
  },
  hub_admission_expected_wait_seconds: { work: '`otp`, `service` (single sends), `batch`' },
  hub_admission_refused_total: {
    work: '`otp`, `service` (single sends), `batch`, `send` (a single send of a class that was not read), `other`',
    reason:
      '`wait` (the expected wait is over its limit), `urgent` (more urgent work waits), `share` (the account uses more than its share), `memory` (a bound of memory is reached)',
  },
  hub_build_info: { version: 'the version of the hub' },
  hub_consumer_lag_records: { topic: TOPIC, partition: 'its number' },
  hub_consumer_stopped_seconds: { topic: 'a topic, by its name in Kafka' },
  hub_delivery_drop_ratio: { range: 'a number range, of which there are a hundred, or `all`' },
  hub_dispatcher_account_fairness: { class: CLASS, operator: OPERATOR },
  hub_dispatcher_answered_parts_total: {
    operator: OPERATOR,
    result: '`passed`, or `throttled` (the rate was too high)',
  },
  hub_dispatcher_buffered_messages: { class: CLASS },
  hub_dispatcher_claims_in_flight: { operator: OPERATOR },
  hub_dispatcher_configured_rate_parts: { operator: OPERATOR },
  hub_dispatcher_final_total: {
    class: CLASS,
    status: '`delivered`, `undelivered`, `rejected`, `expired`',
    reason: 'a reason code of the API, or empty',
  },
  hub_dispatcher_handover_latency_seconds: { class: CLASS },
  hub_dispatcher_handovers_total: {
    operator: OPERATOR,
    class: CLASS,
    outcome: '`accepted`, `refused` (for now), `rejected` (permanently), `unknown`, `notWritten`',
    reason: 'the reason code of a rejected message, else empty',
  },
  hub_dispatcher_hub_rate_parts: { operator: OPERATOR },
  hub_dispatcher_inbound_messages_total: {
    change: 'its effect on the opt-outs: `recorded`, `lifted`, `unchanged`, `repeated`; or `other`',
  },
  hub_dispatcher_longest_wait_seconds: { class: CLASS, operator: OPERATOR },
  hub_dispatcher_own_rate_parts: { operator: OPERATOR },
  hub_dispatcher_rate_shared: { operator: OPERATOR },
  hub_dispatcher_report_wait_seconds: { class: CLASS },
  hub_dispatcher_shard_memory_bytes: { shard: 'its number' },
  hub_dispatcher_special_cases_total: {
    what: '`duplicate_dropped`, `known_dropped`, `void_claim`, `outcome_unknown`, `assumed_sent`, `report_duplicate`, `report_unmatched`, `report_impossible`, `report_matched_by_recipient`, `record_lost`, `carried`',
  },
  hub_dispatcher_unusable_payload_keys: {
    reason:
      '`unknown_master_key` (the dispatcher lacks its master key), `damaged`, `not_found` (no topic contains it)',
  },
  hub_http_answers_total: { status: 'HTTP status' },
  hub_http_connections_closed_total: {
    limit: '`all` (of the process), `address` (of one IPv4 address, or one /64 of IPv6)',
    closed:
      '`waiting` (the one that had waited longest for its client), `new` (each of the others had a request in progress)',
  },
  hub_http_request_seconds: {
    method: 'HTTP method, `_OTHER` for an unknown one',
    route: 'the path of the contract, `none` for an unknown path',
    status: 'HTTP status',
  },
  hub_moderation_oldest_pending_seconds: { kind: '`template`, `sender`' },
  hub_operations_answers_total: { status: '`2xx`, `3xx`, `4xx`, `5xx`' },
  hub_operations_logins_refused_total: {
    kind: '`link` (a login link), `provider` (the identity provider), `token` (a bearer token)',
    reason: '`refused`, `no_role`, `unavailable` (the identity provider does not answer)',
  },
  hub_operations_lookups_total: { result: '`begun`, `refused` (above the limit of the person)' },
  hub_operations_logins_total: { kind: '`link`, `provider`' },
  hub_operations_overview_seconds: { part: '`minutes`, `work`, `consumers`' },
  hub_operations_request_seconds: {
    method: 'HTTP method, `_OTHER` for an unknown one',
    route: 'the path of the description, `/` for a page of the console, `none` for an unknown path',
    status: 'HTTP status',
  },
  hub_operator_unusable_total: {
    operator: OPERATOR,
    what: '`answer` (an element of an answer), `report`, `inbound`, `defect` (the adapter has thrown)',
  },
  hub_postgresql_connections_replaced_total: {
    reason:
      '`closed` (it broke), `gone` (PostgreSQL has no such session), `lost` (a request or an answer was lost), `read_only`',
  },
  hub_projector_dead_letters_total: { topic: TOPIC },
  hub_projector_failures_total: { cause: '`storage`, `bus`, `superseded`, `defect`' },
  hub_projector_records_total: { topic: TOPIC },
  hub_redis_connections_replaced_total: {
    reason:
      '`closed` (it broke), `timeout` (a new connection answered first), `unreachable` (Redis cannot serve)',
  },
  hub_retention_failures_total: { task: 'a job of retention' },
  hub_retention_held: { task: 'a job of retention' },
  hub_retention_last_finished_timestamp_seconds: { task: 'a job of retention' },
  hub_retention_removed_total: { task: 'a job of retention' },
  hub_payload_key_age_seconds: { purpose: '`otp`, `service`, `report`, `personal`' },
  hub_smpp_binds_up: { role: '`transceiver`, `transmitter`, `receiver`' },
  hub_smpp_deliveries_total: { kind: '`receipt`, `intermediate`, `inbound`, `unreadable`, `not_taken`' },
  hub_smpp_sessions_ended_total: {
    why: '`disconnected`, `untrusted`, `late`, `refused`, `silent`, `malformed`, `unbound`, `closed`',
  },
  hub_smpp_submitted_parts_total: { result: '`accepted`, `throttled`, `retry`, `rejected`, `lost`' },
  hub_trace_spans_dropped_total: { reason: '`queue_full`, `refused`' },
  hub_webhook_attempts_total: { result: '`succeeded`, or a reason of the delivery log' },
  hub_suspicious_requests: {
    account: 'an account; at most a hundred pairs, then `other`',
    range: 'a number range, or `other`',
  },
  nodejs_version_info: {
    version: 'the version of Node',
    major: 'its first part',
    minor: 'its second part',
    patch: 'its third part',
  },
  hub_webhook_subscriptions: { state: '`enabled`, `disabled`' },
}

/**
 * Matches `Metric.counter('hub_…', { description: '…' })` and `counter('hub_…', '…')`, also over
 * several lines.
 */
const DEFINITION =
  /\b(?<type>counter|gauge|histogram)\(\s*'(?<name>(?:hub|process|nodejs)_\w+)',\s*(?:\{\s*description:\s*)?'(?<help>(?:[^'\\]|\\.)*)'/gu

const sourcesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(join(ROOT, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.test.ts'))
    .map((entry) => join(entry.parentPath, entry.name))

const foldersWithCode = (): ReadonlyArray<string> =>
  ['apps', 'packages'].flatMap((kind) =>
    readdirSync(join(ROOT, kind), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name !== 'testkit')
      .map((entry) => `${kind}/${entry.name}`),
  )

/** The current name of a metric that exists for a version under its old name too; else `null`. */
export const currentName = ({ help }: Pick<MetricDefinition, 'help'>): string | null =>
  /^Old name of (?<name>\w+), /u.exec(help)?.groups?.['name'] ?? null

/** Every metric that the code defines, sorted by name. */
export const definedMetrics = (): ReadonlyArray<MetricDefinition> => {
  const found = foldersWithCode().flatMap((where) =>
    sourcesIn(`${where}/src`).flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(DEFINITION)].map(({ groups }): MetricDefinition => {
        const { help = '', name = '', type = '' } = groups ?? {}
        return {
          name,
          type: type as MetricType,
          help: help.replaceAll("\\'", "'"),
          where,
          labels: LABELS[currentName({ help }) ?? name] ?? {},
        }
      }),
    ),
  )
  return found.toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

/** Metrics in `LABELS` that the code does not define, for example after a rename. */
export const strayLabels = (defined: ReadonlyArray<MetricDefinition>): ReadonlyArray<string> => {
  const names = new Set(defined.map(({ name }) => name))
  return Object.keys(LABELS).filter((name) => !names.has(name))
}

/** The names of the series that Prometheus stores for a metric. */
export const seriesOf = ({ name, type }: MetricDefinition): ReadonlyArray<string> =>
  type === 'histogram' ? ['_bucket', '_sum', '_count', '_min', '_max'].map((end) => name + end) : [name]

/** The metrics of the hub in a PromQL query. */
export const metricsIn = (query: string): ReadonlyArray<string> => [
  ...new Set([...query.matchAll(/\b(?:hub|process|nodejs)_\w+/gu)].map(([name]) => name)),
]

const labelsOf = ({ labels }: MetricDefinition): string =>
  Object.entries(labels)
    .map(([label, values]) => `\`${label}\`: ${values}`)
    .join('<br>')

const tableOf = (metrics: ReadonlyArray<MetricDefinition>): string =>
  [
    '| metric | type | labels | |',
    '| --- | --- | --- | --- |',
    ...metrics.map((one) => `| \`${one.name}\` | ${one.type} | ${labelsOf(one)} | ${one.help} |`),
  ].join('\n')

/** The content of `docs/metrics.md`. */
export const metricsPage = (defined: ReadonlyArray<MetricDefinition>): string => {
  const folders = [...new Set(defined.map(({ where }) => where))].toSorted()
  return `# Metrics

Each process serves its metrics on its admin port at \`/metrics\`, in the text format of Prometheus.
This page is generated from the code by \`npm run generate\`. \`npm test\` fails if the page differs
from the code, or if a dashboard or an alert names an undefined metric.

The units are seconds and bytes. Label values come from short lists. No label contains a
recipient, a host or an id. Only \`hub_suspicious_requests\` has accounts, of at most a hundred series in a process.

Each counter has the value 0 from the start of its process, once for each combination of its label
values, so that its first increase is visible.

${folders.map((where) => `## ${where}\n\n${tableOf(defined.filter((one) => one.where === where))}`).join('\n\n')}
`
}
