/** Metrics of the projector. Labels are topics, reasons and outcomes, which are short lists. */
import { encodeId, type SuspiciousRequests, type UnusualDelivery } from '@hub/domain'
import { topicNames } from '@hub/kafka'
import { counter, gauge, labelSets, memoizeLabels } from '@hub/telemetry'
import { Context, Effect, Metric } from 'effect'
import { sourceTopics } from './projection/source-topics.ts'

/** The topics without the prefix of the deployment. */
const TOPICS = labelSets({ topic: [...sourceTopics(topicNames()).values()] })

const FAILURE_CAUSES = ['storage', 'bus', 'superseded', 'defect'] as const

/** Seconds. A transaction takes milliseconds; its deadline is five seconds. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** Seconds since a fact occurred: one is normal, minutes mean that the projector catches up. */
const WAIT = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800]
/** Records of a transaction batch, up to its limit. */
const SIZES = [1, 5, 10, 50, 100, 250, 500, 1000, 2000, 4000]

export const recordsApplied = counter(
  'hub_projector_records_total',
  'Records applied to the read models or found to change nothing.',
  TOPICS,
)
export const eventsRecorded = counter('hub_projector_events_total', 'Events recorded in the journal.')
export const deadLetters = counter(
  'hub_projector_dead_letters_total',
  'Records that cannot be decoded or applied.',
  TOPICS,
)
const failures = counter(
  'hub_projector_failures_total',
  'Failures by cause: a transaction (storage), an append to Kafka (bus), a lost partition (superseded), a defect.',
  labelSets({ cause: FAILURE_CAUSES }),
)
export const unreadablePayloads = counter(
  'hub_projector_unreadable_payloads_total',
  'Payloads that cannot be decrypted although their key exists.',
)
export const rebuiltRecords = counter(
  'hub_projector_rebuilt_records_total',
  'Records folded into the tables of a rebuild.',
)

const batchRecords = Metric.histogram('hub_projector_poll_records', {
  description: 'Records applied in one transaction.',
  boundaries: SIZES,
})
const serviceTime = Metric.histogram('hub_projector_transaction_seconds', {
  description: 'Service time: how long the transaction of a batch takes.',
  boundaries: SECONDS,
})
const waitTime = Metric.histogram('hub_projector_wait_seconds', {
  description:
    'Wait time: from when a fact occurred until it can be read; the oldest record of each partition in a batch.',
  boundaries: WAIT,
})
const outboxRows = gauge(
  'hub_projector_outbox_rows',
  'Transactions whose events are recorded but not published yet.',
)
const outboxAge = gauge(
  'hub_projector_outbox_oldest_row_seconds',
  'Age of the oldest transaction whose events are not published yet, in seconds; 0 when there is none.',
)
const rebuildLag = gauge(
  'hub_projector_rebuild_behind_records',
  'Records by which the current rebuild is behind the live projection.',
)

const deliveryDrop = gauge(
  'hub_delivery_drop_ratio',
  'By how much the delivery rate of a number range is lower than usual, from 0 to 1; 0 while it is not unusual.',
)

/** Of all ranges alike. */
const ALL_RANGES = 'all'
const labelled = memoizeLabels()
const seenRanges = new Set<string>()

/** A range that is no longer unusual keeps its series, with 0. So there are at most as many as ranges. */
export const observeDelivery = (unusual: ReadonlyArray<UnusualDelivery>): Effect.Effect<void> =>
  Effect.sync(() => {
    const drops = new Map(unusual.map(({ range, rate, usual }) => [range ?? ALL_RANGES, usual - rate]))
    for (const range of new Set([ALL_RANGES, ...seenRanges, ...drops.keys()])) {
      seenRanges.add(range)
      labelled(deliveryDrop, { range }).updateUnsafe(drops.get(range) ?? 0, Context.empty())
    }
  })

const suspiciousRequests = gauge(
  'hub_suspicious_requests',
  'Codes for a number range above what is expected of an account, in the last hours; 0 while they are not suspicious.',
)

/** Accounts and ranges that get a series in one run, the most suspicious ones: more are not looked at one by one. */
const MOST_SUSPICIOUS = 10
/** Series of a process, because a series stays until its end. Those of further accounts and ranges are one. */
const MOST_SERIES = 100
const OTHERS = 'other'

interface RequestSeries {
  readonly labels: { readonly account: string; readonly range: string }
  value: number
}
const requestSeries = new Map<string, RequestSeries>()

const seriesOf = ({ account, range }: RequestSeries['labels']): RequestSeries => {
  const key = `${account} ${range}`
  const found = requestSeries.get(key)
  if (found !== undefined) return found
  if (account !== OTHERS && requestSeries.size >= MOST_SERIES)
    return seriesOf({ account: OTHERS, range: OTHERS })
  const made = { labels: { account, range }, value: 0 }
  requestSeries.set(key, made)
  return made
}

/** An account and a range that are no longer suspicious keep their series, with 0. */
export const observeRequests = (found: ReadonlyArray<SuspiciousRequests>): Effect.Effect<void> =>
  Effect.sync(() => {
    for (const series of requestSeries.values()) series.value = 0
    for (const { accepted, account, expected, range } of found.slice(0, MOST_SUSPICIOUS)) {
      const series = seriesOf({ account: encodeId('acc', account), range })
      series.value += Math.round(accepted - expected)
    }
    for (const { labels, value } of requestSeries.values()) {
      labelled(suspiciousRequests, labels).updateUnsafe(value, Context.empty())
    }
  })

export const countFailure = (cause: (typeof FAILURE_CAUSES)[number]): Effect.Effect<void> =>
  Effect.sync(() => failures.add({ cause }))
export const observeTransaction = (records: number, milliseconds: number): Effect.Effect<void> =>
  Effect.andThen(Metric.update(batchRecords, records), Metric.update(serviceTime, milliseconds / 1000))
export const observeWait = (milliseconds: number): Effect.Effect<void> =>
  Metric.update(waitTime, Math.max(0, milliseconds) / 1000)
export const observeOutbox = (rows: number, ageSeconds: number): Effect.Effect<void> =>
  Effect.andThen(Metric.update(outboxRows, rows), Metric.update(outboxAge, ageSeconds))
export const observeRebuildLag = (records: number): Effect.Effect<void> => Metric.update(rebuildLag, records)
