/**
 * Every metric of the hub: found in the sources, where each is defined by its name and description, with what its labels may be, which
 * only people can say. Dashboards, alerts and `docs/metrics.md` are checked against it.
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
  /** Labels, and what their values are. */
  readonly labels: Readonly<Record<string, string>>
}

const CLASS = '`otp`, `service`'
const TOPIC = 'a topic of the hub'

/** Labels of the metrics that have any. Values come from short lists in the code: never an account, a recipient, a host or an id. */
const LABELS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  hub_accept_sends_total: { class: CLASS, outcome: '`accepted`, `duplicate`, or an error code of the API' },
  hub_consumer_lag_records: { topic: TOPIC, partition: 'its number' },
  hub_dispatcher_buffered_messages: { class: CLASS },
  hub_dispatcher_claims_in_flight: { operator: '`sandbox`, `smpp`, `http`' },
  hub_dispatcher_final_total: {
    class: CLASS,
    status: '`delivered`, `undelivered`, `rejected`, `expired`',
    reason: 'a reason code of the API, or nothing',
  },
  hub_dispatcher_handover_latency_seconds: { class: CLASS },
  hub_dispatcher_handovers_total: {
    operator: '`sandbox`, `smpp`, `http`',
    class: CLASS,
    outcome: '`accepted`, `refused` (not now), `rejected` (never), `unknown`, `notWritten`',
    reason: 'of what was rejected, its reason code',
  },
  hub_dispatcher_happenings_total: { what: 'one of eleven names in `message-shard.ts`' },
  hub_dispatcher_inbound_messages_total: { change: 'what it changed of opt-outs, or `other`' },
  hub_dispatcher_report_wait_seconds: { class: CLASS },
  hub_dispatcher_shard_memory_bytes: { shard: 'its number' },
  hub_http_answers_total: { status: 'HTTP status' },
  hub_http_request_seconds: {
    method: 'HTTP method, `_OTHER` for one that is none',
    route: 'the path of the contract, `none` where there is no such path',
    status: 'HTTP status',
  },
  hub_projector_dead_letters_total: { topic: TOPIC },
  hub_projector_failures_total: { cause: '`storage`, `bus`, `superseded`, `defect`' },
  hub_projector_records_total: { topic: TOPIC },
  hub_retention_failures_total: { task: 'a job of retention' },
  hub_retention_held: { task: 'a job of retention' },
  hub_retention_last_finished_timestamp_seconds: { task: 'a job of retention' },
  hub_retention_removed_total: { task: 'a job of retention' },
  hub_sealing_key_age_seconds: { purpose: '`otp`, `service`, `report`, `personal`' },
  hub_smpp_binds_up: { role: '`transceiver`, `transmitter`, `receiver`' },
  hub_smpp_deliveries_total: { kind: '`receipt`, `intermediate`, `inbound`, `unreadable`, `not_taken`' },
  hub_smpp_sessions_ended_total: { why: 'a short list in `session.ts`' },
  hub_smpp_submitted_parts_total: { result: '`accepted`, `throttled`, `retry`, `rejected`, `lost`' },
  hub_trace_spans_dropped_total: { reason: '`queue_full`, `refused`' },
  hub_webhook_attempts_total: { result: '`succeeded`, or a reason of the delivery log' },
  hub_webhook_subscriptions: { state: '`enabled`, `disabled`' },
}

/** `Metric.counter('hub_…', { description: '…' })`, and the projector's `counter('hub_…', '…')`, over as many lines as it takes. */
const DEFINITION =
  /\b(?<type>counter|counterBy|gauge|histogram)\(\s*'(?<name>hub_\w+)',\s*(?:\{\s*description:\s*)?'(?<help>(?:[^'\\]|\\.)*)'/gu

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

/** Every metric that the code defines, by name. */
export const definedMetrics = (): ReadonlyArray<MetricDefinition> => {
  const found = foldersWithCode().flatMap((where) =>
    sourcesIn(`${where}/src`).flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(DEFINITION)].map(({ groups }): MetricDefinition => {
        const { help = '', name = '', type = '' } = groups ?? {}
        return {
          name,
          type: type === 'counterBy' ? 'counter' : (type as MetricType),
          help: help.replaceAll("\\'", "'"),
          where,
          labels: LABELS[name] ?? {},
        }
      }),
    ),
  )
  return found.toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

/** Labels that are described of a metric that nobody defines: something was renamed. */
export const strayLabels = (defined: ReadonlyArray<MetricDefinition>): ReadonlyArray<string> => {
  const names = new Set(defined.map(({ name }) => name))
  return Object.keys(LABELS).filter((name) => !names.has(name))
}

/** The series that Prometheus has of a metric. */
export const seriesOf = ({ name, type }: MetricDefinition): ReadonlyArray<string> =>
  type === 'histogram' ? ['_bucket', '_sum', '_count', '_min', '_max'].map((end) => name + end) : [name]

/** The hub's metrics that a query names. */
export const metricsIn = (query: string): ReadonlyArray<string> => [
  ...new Set([...query.matchAll(/\bhub_\w+/gu)].map(([name]) => name)),
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

/** `docs/metrics.md`. */
export const metricsPage = (defined: ReadonlyArray<MetricDefinition>): string => {
  const folders = [...new Set(defined.map(({ where }) => where))].toSorted()
  return `# Metrics

Each process serves these on its admin port at \`/metrics\`, in Prometheus' text format. This page is made from the code by
\`node infra/observability/src/generate.ts\`; \`npm test\` fails when it is not as the code is, and when a dashboard or an alert names a metric that
nobody defines. Base units are seconds and bytes. Labels take their values from short lists: no label ever holds an account, a recipient, a
host or an id.

A counter of something that ought not to happen is there from the start, at 0, so that its first increase shows.

${folders.map((where) => `## ${where}\n\n${tableOf(defined.filter((one) => one.where === where))}`).join('\n\n')}
`
}
