/**
 * Section `acceptance`: single sends and batches through command-api against a bare handler, the
 * time from acceptance to submit against a bare Kafka round trip, and the memory of all apps.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { APPS } from '@hub/config'
import { decodeFact, topicNames } from '@hub/kafka'
import { openDatabase } from '@hub/testkit'
import { startHub, type TestHub } from '../../test/support/hub.ts'
import { Result } from 'effect'
import type { Sql } from 'postgres'
import { client, subscribeToNothing } from '../../test/support/client.ts'
import { readTopic } from '../../test/support/read-topic.ts'
import type { HandlerPlan } from '../loads/bare-handler.ts'
import { bareProduce, bareRoundTrip } from '../loads/bare-kafka.ts'
import { startScript } from '../loads/child-process.ts'
import { awaitEvents } from './event-journal.ts'
import type { LoadPlan, LoadResult } from '../loads/load-generator.ts'
import { type Latencies, latenciesOf, latencyText } from './numbers.ts'
import { residentMiB } from './process-usage.ts'
import { type Section, target } from '../pages/results.ts'
import { type Log, onServers, type SectionBenchmark } from './section.ts'

const WARM_UP = { connections: 16, durationMs: 5000 }
const SATURATION = { connections: 64, durationMs: 15_000 }
const STEADY = { connections: 64, rate: 200, durationMs: 12_000 }
const END_TO_END = { connections: 64, count: 10_000 }
/** Two requests in progress: command-api decodes one while PostgreSQL records the other. */
const BATCHES = { connections: 2, batch: 1000, durationMs: 8000 }
/** The cost of a message must be the same with few rows in the ledger and with this many. */
const FULL_LEDGER = 1_000_000
/** The bare round trip runs on an idle hub, and beside the steady sends. */
const BARE = {
  produceMs: 6000,
  alone: { rate: 200, durationMs: 6000 },
  beside: { rate: 50, durationMs: 11_000 },
}
/** An event journal that takes longer than this to settle has failed. */
const SETTLE_WITHIN_MS = 60_000

const runLoad = async (plan: LoadPlan): Promise<LoadResult> =>
  (await startScript<LoadResult>('load-generator.ts', plan)).first

const memoryOf = (hub: TestHub): ReadonlyArray<number> => APPS.map((name) => residentMiB(hub.app(name).pid()))

/**
 * The times from acceptance to submit of the messages accepted since a moment, ms. `fromStamp`
 * counts from the acceptance time in the record, which is before its commit; `fromAppend` from the
 * append to Kafka (the producer's clock).
 */
const submitTimes = async (
  brokers: ReadonlyArray<string>,
  since: number,
): Promise<{ readonly fromStamp: Latencies; readonly fromAppend: Latencies }> => {
  const acceptances = new Map<string, { readonly at: number; readonly appendedAt: number }>()
  const facts = (
    await Promise.all(
      ['hub.accepted.service.v1', 'hub.messages.v1'].map((topic) => readTopic(brokers, topic)),
    )
  )
    .flat()
    .flatMap((record) => {
      const fact = decodeFact(record)
      return Result.isSuccess(fact) ? [{ fact: fact.success, appendedAt: record.appendedAt }] : []
    })
  for (const { appendedAt, fact } of facts) {
    if (fact.type === 'MessageAccepted' && fact.at >= since)
      acceptances.set(fact.messageId, { at: fact.at, appendedAt })
  }
  const times = facts.flatMap(({ fact }) => {
    const accepted = fact.type === 'MessageSent' ? acceptances.get(fact.messageId) : undefined
    return accepted === undefined
      ? []
      : [{ fromStamp: fact.at - accepted.at, fromAppend: fact.at - accepted.appendedAt }]
  })
  return {
    fromStamp: latenciesOf(times.map((time) => time.fromStamp)),
    fromAppend: latenciesOf(times.map((time) => time.fromAppend)),
  }
}

/** Inserts ledger rows as a year of traffic would leave them, older than today's. */
const fillLedger = async (sql: Sql, rows: number): Promise<void> => {
  await sql`
    WITH old AS (
      SELECT uuidv7(interval '-1 minute') AS id, a.id AS account, n, now() - interval '1 hour' AS at
        FROM generate_series(1, ${rows}::integer) n, (SELECT id FROM command.accounts ORDER BY id LIMIT 1) a
    ), referred AS (
      INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
      SELECT account, 'test', 'old-' || n, id, at FROM old
    )
    INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender, client_ref, parts,
                                     price, currency, variables, created_at, expires_at)
    SELECT id, account, 'test', 'service', decode(md5(n::text) || md5(n::text), 'hex'), '+7900***0000', 'order_ready', 'HUB',
           'old-' || n, 1, 0, 'RUB', '{}', at, at FROM old`
  await sql`ANALYZE command.client_refs, command.acceptances`
}

const measureAcceptance = async (hub: TestHub, log: Log): Promise<Section> => {
  const { base_url, database_url, kafka, keys } = hub.describe()
  const plan = (rest: Omit<LoadPlan, 'baseUrl' | 'key' | 'run'>): LoadPlan => ({
    baseUrl: base_url,
    key: keys.test,
    run: randomBytes(3).toString('hex'),
    ...rest,
  })
  const sql = openDatabase(database_url)
  const settle = (messages: number) => awaitEvents(sql, messages, SETTLE_WITHIN_MS)

  // The projector publishes the events of the messages, as for a client with webhooks.
  await subscribeToNothing(client(base_url, keys.test))

  // At rest: five seconds after all apps are ready, before the first send.
  await delay(5000)
  const atRest = memoryOf(hub)
  log(`at rest: ${APPS.map((name, i) => `${name} ${atRest[i]?.toFixed(0)} MiB`).join(', ')}`)

  let messages = (await runLoad(plan(WARM_UP))).accepted
  await settle(messages)

  const produced = await bareProduce(kafka.brokers, 'bench.', BARE.produceMs)
  log(`bare produce: ${produced.toFixed(0)} records/s in batches of 1,000`)
  const alone = await bareRoundTrip(kafka.brokers, 'bench.alone.', BARE.alone)
  log(`bare round trip, idle hub: ${latencyText(alone, 2)}`)

  const since = Date.now()
  const [steady, beside] = await Promise.all([
    runLoad(plan(STEADY)),
    bareRoundTrip(kafka.brokers, 'bench.beside.', BARE.beside),
  ])
  messages += steady.accepted
  await settle(messages)
  const { fromAppend, fromStamp } = await submitTimes(kafka.brokers, since)
  const { p50: submitP50, p99: submitP99, samples } = fromAppend
  log(`acceptance to submit at 200 sends/s: ${latencyText(fromAppend)}`)

  const burstStarted = performance.now()
  const burst = await runLoad(plan(END_TO_END))
  messages += burst.accepted
  await settle(messages)
  const endToEnd = (1000 * burst.accepted) / (performance.now() - burstStarted)
  const afterLoad = memoryOf(hub)
  log(`end to end: ${endToEnd.toFixed(0)} messages/s`)

  // From here on only acceptance is measured, like the bare handler and the bare produce. The
  // consumers stop, because in production they have other machines, and here they would take the
  // same two cores.
  for (const name of APPS.slice(1)) {
    hub.app(name).kill('SIGTERM')
    await hub.app(name).exited()
  }
  const saturated = await runLoad(plan(SATURATION))
  const sendsPerSecond = saturated.accepted / saturated.seconds
  log(`single sends: ${sendsPerSecond.toFixed(0)}/s, p99 ${saturated.p99.toFixed(1)} ms`)
  const handlerPlan: HandlerPlan = {
    brokers: kafka.brokers,
    databaseUrl: database_url,
    topic: topicNames('bench.').acceptedService,
  }
  const handler = await startScript<string>('bare-handler.ts', handlerPlan)
  const bareSends = await runLoad({ ...plan(SATURATION), baseUrl: handler.first })
  handler.child.disconnect()
  const bareSendsPerSecond = bareSends.accepted / bareSends.seconds
  log(`bare handler: ${bareSendsPerSecond.toFixed(0)}/s, p99 ${bareSends.p99.toFixed(1)} ms`)

  const batches = await runLoad(plan(BATCHES))
  const batchedPerSecond = batches.accepted / batches.seconds
  log(`batches of 1,000: ${batchedPerSecond.toFixed(0)} messages/s`)
  await fillLedger(sql, FULL_LEDGER)
  const fullBatches = await runLoad(plan(BATCHES))
  const fullPerSecond = fullBatches.accepted / fullBatches.seconds
  log(`the same with ${FULL_LEDGER} ledger rows: ${fullPerSecond.toFixed(0)} messages/s`)
  await sql.end()

  const failed = steady.failed + saturated.failed + burst.failed + batches.failed + fullBatches.failed
  if (failed > 0) {
    log(
      `${failed} sends were not accepted: ${[...saturated.complaints, ...burst.complaints, ...batches.complaints].join('; ')}`,
    )
    process.exitCode = 1
  }

  return {
    figures: {
      bareProducePerSecond: produced,
      sendsPerSecond,
      bareSendsPerSecond,
      batchedPerSecond,
      fullLedgerPerSecond: fullPerSecond,
      submitP50Ms: submitP50,
      submitP99Ms: submitP99,
      endToEndPerSecond: endToEnd,
      ...Object.fromEntries(
        APPS.flatMap((app, i) => [
          [`${app}.atRestMiB`, atRest[i]!],
          [`${app}.afterLoadMiB`, afterLoad[i]!],
        ]),
      ),
    },
    rows: [
      [
        'bare: produce of encoded records with kafkajs, three requests of 1,000 records at a time',
        `${produced.toFixed(0)} records/s`,
        'the limit',
      ],
      [
        'single sends, 64 connections, consumers stopped',
        `${sendsPerSecond.toFixed(0)}/s, ${latencyText(saturated, 1)}`,
        `${(sendsPerSecond / bareSendsPerSecond).toFixed(2)} of the bare handler`,
      ],
      [
        'bare: node:http handler, one commit and one produce for sends that arrive together, two such flushes at a time',
        `${bareSendsPerSecond.toFixed(0)}/s, ${latencyText(bareSends, 1)}`,
        'the limit',
      ],
      [
        'batches of 1,000, two requests in progress, consumers stopped',
        `${batchedPerSecond.toFixed(0)} messages/s, p99 of a request ${batches.p99.toFixed(0)} ms`,
        `${(batchedPerSecond / produced).toFixed(3)} of the bare produce`,
      ],
      [
        'the same with a million ledger rows',
        `${fullPerSecond.toFixed(0)} messages/s`,
        `${(batchedPerSecond / fullPerSecond).toFixed(2)} × the cost of a message`,
      ],
      ['bare: produce to consume, beside 200 sends/s', latencyText(beside, 2), 'the limit'],
      ['bare: produce to consume, on an idle hub', latencyText(alone, 2), 'for comparison'],
      [
        'append of an accepted message to its submit, 200 sends/s',
        `${latencyText(fromAppend)} (${samples} messages); from the acceptance time, before the commit, ${latencyText(fromStamp)}`,
        `${(submitP50 / beside.p50).toFixed(1)} × and ${(submitP99 / beside.p99).toFixed(1)} × the bare round trip beside it; ${(submitP50 / alone.p50).toFixed(1)} × and ${(submitP99 / alone.p99).toFixed(1)} × the one on an idle hub`,
      ],
      [
        'end to end: 10,000 single sends until the last event is in the event journal',
        `${endToEnd.toFixed(0)} messages/s; sends answered in ${latencyText(burst, 1)}`,
        `${(endToEnd / produced).toFixed(3)} of the bare produce`,
      ],
    ],
    targets: [
      target('submit p50 ÷ bare round trip p50, side by side', submitP50 / beside.p50, 5),
      target('submit p99 ÷ bare round trip p99, side by side', submitP99 / beside.p99, 8),
      target('memory at rest, the largest app, MiB', Math.max(...atRest), 200),
      target('bare handler sends/s ÷ single sends/s', bareSendsPerSecond / sendsPerSecond, 1 / 0.4),
      target('bare produce records/s ÷ messages/s in batches of 1,000', produced / batchedPerSecond, 1 / 0.1),
      target('cost of a batched message, 1 million ledger rows ÷ few', batchedPerSecond / fullPerSecond, 1.3),
    ],
  }
}

export const acceptance: SectionBenchmark = {
  name: 'acceptance',
  what: 'command-api: single sends, batches, time to the submit, memory',
  measure: onServers(
    // The accounts get no rate limit: the machine is the limit.
    (log) => startHub({ report: log, apiRps: 1_000_000 }),
    async (hub, log) => ({ section: await measureAcceptance(hub, log) }),
  ),
}
