/**
 * `npm run bench`: a hub of its own on this machine, held against what the Kafka port does bare, in one run.
 * Writes `RESULTS.md`. Machines are noisy: read the ratios.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { APPS } from '@hub/config'
import { decodeFact } from '@hub/kafka'
import { startHub, type TestHub } from '../test/support/hub.ts'
import { Result } from 'effect'
import postgres from 'postgres'
import { readTopic } from '../test/support/log.ts'
import { bareProduce, bareRoundTrip } from './bare.ts'
import { measureDispatchingAlone } from './dispatching.ts'
import type { HandlerPlan } from './handler.ts'
import type { LoadPlan, LoadResult } from './load.ts'
import { measureKnowingAlone } from './knowing.ts'
import { fold, percentile } from './numbers.ts'
import { measureWebhooksAlone } from './webhooks.ts'

/** The whole of it should stay below eight minutes. */
const WARM_UP = { connections: 16, durationMs: 5000 }
const SATURATION = { connections: 64, durationMs: 15_000 }
const STEADY = { connections: 64, rate: 200, durationMs: 12_000 }
const END_TO_END = { connections: 64, count: 10_000 }
/** Two requests under way, so that one is decoded while the other is recorded. */
const BATCHES = { connections: 2, batch: 1000, durationMs: 8000 }
/** Ledger rows between which the cost of a message must stay the same. */
const FULL_LEDGER = 1_000_000
/** The bare round trip: alone, and beside the steady sends, when both have the same neighbours. */
const BARE = {
  produceMs: 6000,
  alone: { rate: 200, durationMs: 6000 },
  beside: { rate: 50, durationMs: 11_000 },
}

const say = (line: string): void => console.log(line)

const load = (plan: LoadPlan): Promise<LoadResult> =>
  new Promise((resolve, reject) => {
    const child: ChildProcess = fork(new URL('load.ts', import.meta.url))
    child.once('message', (result) => resolve(result as LoadResult))
    child.once('exit', (code) => reject(new Error(`the load generator ended early (${code})`)))
    child.send(plan)
  })

/** The bare handler, in a process of its own. */
const startHandler = (plan: HandlerPlan): Promise<{ readonly address: string; readonly end: () => void }> =>
  new Promise((resolve, reject) => {
    const child: ChildProcess = fork(new URL('handler.ts', import.meta.url))
    child.once('message', (address) => resolve({ address: address as string, end: () => child.disconnect() }))
    child.once('exit', (code) => reject(new Error(`the bare handler ended early (${code})`)))
    child.send(plan)
  })

/** Resident memory of a process, MiB. Linux tells it in /proc; elsewhere the bench goes without. */
const residentMiB = (pid: number): number => {
  try {
    return Number(/VmRSS:\s+(\d+) kB/u.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
  } catch {
    return Number.NaN
  }
}
const memory = (hub: TestHub): ReadonlyArray<number> => APPS.map((name) => residentMiB(hub.app(name).pid()))

/**
 * The way to the operator of the messages accepted since a moment, in milliseconds: from their stamp of acceptance, and from the moment at
 * which, recorded and promised, they went to the bus (the producer's clock).
 */
const handOverTimes = async (
  brokers: ReadonlyArray<string>,
  since: number,
): Promise<{ readonly fromStamp: ReadonlyArray<number>; readonly fromBus: ReadonlyArray<number> }> => {
  const begun = new Map<string, { readonly at: number; readonly bus: number }>()
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
      begun.set(fact.messageId, { at: fact.at, bus: appendedAt })
  }
  const handed = facts.flatMap(({ fact }) => {
    const from = fact.type === 'MessageSent' ? begun.get(fact.messageId) : undefined
    return from === undefined ? [] : [{ fromStamp: fact.at - from.at, fromBus: fact.at - from.bus }]
  })
  return {
    fromStamp: handed.map((one) => one.fromStamp).toSorted((x, y) => x - y),
    fromBus: handed.map((one) => one.fromBus).toSorted((x, y) => x - y),
  }
}

/** Rows as a year of traffic would leave them, behind the ids and references of today. */
const fillLedger = async (sql: postgres.Sql, rows: number): Promise<void> => {
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

const started = performance.now()
// Its limit is the machine's, not the account's.
const hub = await startHub({ report: say, apiRps: 1_000_000 })
try {
  const { base_url, database_url, kafka, keys } = hub.describe()
  const plan = (rest: Omit<LoadPlan, 'baseUrl' | 'key' | 'run' | 'messageClass'>): LoadPlan => ({
    baseUrl: base_url,
    key: keys.test,
    messageClass: 'service',
    run: randomBytes(3).toString('hex'),
    ...rest,
  })
  const sql = postgres(database_url, { max: 1, onnotice: () => {} })
  const eventsRecorded = async (): Promise<number> =>
    Number((await sql`SELECT coalesce(sum(sequence), 0) AS events FROM read.event_heads`)[0]?.['events'])
  /** Waits until the journal has three events for each message: accepted, sent, delivered. */
  const settle = async (messages: number): Promise<void> => {
    const deadline = performance.now() + 60_000
    while ((await eventsRecorded()) < messages * 3) {
      if (performance.now() > deadline) throw new Error('the journal did not settle within a minute')
      await delay(20)
    }
  }

  // At rest: five seconds after everything is ready, before anything is sent.
  await delay(5000)
  const atRest = memory(hub)
  say(`at rest: ${APPS.map((name, i) => `${name} ${atRest[i]?.toFixed(0)} MiB`).join(', ')}`)

  let messages = (await load(plan(WARM_UP))).accepted
  await settle(messages)

  const produce = await bareProduce(kafka.brokers, 'bench.', BARE.produceMs)
  say(`bare produce: ${produce.perSecond.toFixed(0)} records/s in batches of 1,000`)
  const alone = await bareRoundTrip(kafka.brokers, 'bench.alone.', BARE.alone)
  say(`bare round trip, alone: p50 ${alone.p50.toFixed(2)} ms, p99 ${alone.p99.toFixed(2)} ms`)

  const since = Date.now()
  const [steady, beside] = await Promise.all([
    load(plan(STEADY)),
    bareRoundTrip(kafka.brokers, 'bench.beside.', BARE.beside),
  ])
  messages += steady.accepted
  await settle(messages)
  const { fromBus, fromStamp } = await handOverTimes(kafka.brokers, since)
  const handOverP50 = percentile(fromBus, 0.5)
  const handOverP99 = percentile(fromBus, 0.99)
  say(`hand-over at 200 sends/s: p50 ${handOverP50} ms, p99 ${handOverP99} ms`)

  const begun = performance.now()
  const burst = await load(plan(END_TO_END))
  messages += burst.accepted
  await settle(messages)
  const endToEndSeconds = (performance.now() - begun) / 1000
  const afterLoad = memory(hub)
  const endToEnd = burst.accepted / endToEndSeconds
  say(`end to end: ${endToEnd.toFixed(0)} messages/s`)

  // From here on it is accepting that is measured, as the bare handler and the bare produce are: without the consumers, which would
  // have other machines and here would take the same two cores.
  for (const name of APPS.slice(1)) {
    hub.app(name).kill('SIGTERM')
    await hub.app(name).exited()
  }
  const saturated = await load(plan(SATURATION))
  const sendsPerSecond = saturated.accepted / saturated.seconds
  say(`single sends: ${sendsPerSecond.toFixed(0)}/s, p99 ${saturated.p99.toFixed(1)} ms`)
  const handler = await startHandler({ brokers: kafka.brokers, databaseUrl: database_url, prefix: 'bench.' })
  const bareSends = await load({ ...plan(SATURATION), baseUrl: handler.address })
  handler.end()
  const bareSendsPerSecond = bareSends.accepted / bareSends.seconds
  say(`bare handler: ${bareSendsPerSecond.toFixed(0)}/s, p99 ${bareSends.p99.toFixed(1)} ms`)

  const batches = await load(plan(BATCHES))
  const batchedPerSecond = batches.accepted / batches.seconds
  say(`batches of 1,000: ${batchedPerSecond.toFixed(0)} messages/s`)
  await fillLedger(sql, FULL_LEDGER)
  const fullBatches = await load(plan(BATCHES))
  const fullPerSecond = fullBatches.accepted / fullBatches.seconds
  say(`the same behind ${FULL_LEDGER} ledger rows: ${fullPerSecond.toFixed(0)} messages/s`)
  await sql.end()

  const failed = steady.failed + saturated.failed + burst.failed + batches.failed + fullBatches.failed
  if (failed > 0) {
    say(
      `${failed} sends were not accepted: ${[...saturated.complaints, ...burst.complaints, ...batches.complaints].join('; ')}`,
    )
    process.exitCode = 1
  }

  // The sections that bring their own apps have the machine to themselves.
  await hub.stop()
  const dispatching = await measureDispatchingAlone(say)
  const webhooks = await measureWebhooksAlone(say)
  const knowing = await measureKnowingAlone(say)

  const bars = [
    { what: 'hand-over p50 ÷ bare round trip p50, side by side', value: handOverP50 / beside.p50, bar: 5 },
    { what: 'hand-over p99 ÷ bare round trip p99, side by side', value: handOverP99 / beside.p99, bar: 8 },
    { what: 'memory at rest, the largest app, MiB', value: Math.max(...atRest), bar: 200 },
    {
      what: 'bare handler sends/s ÷ single sends/s',
      value: bareSendsPerSecond / sendsPerSecond,
      bar: 1 / 0.4,
    },
    {
      what: 'bare produce records/s ÷ messages/s in batches of 1,000',
      value: produce.perSecond / batchedPerSecond,
      bar: 1 / 0.1,
    },
    {
      what: 'cost of a batched message, 1 million ledger rows ÷ few',
      value: batchedPerSecond / fullPerSecond,
      bar: 1.3,
    },
    ...dispatching.bars,
    ...webhooks.bars,
    ...knowing.bars,
  ]
  const page = fold({
    machine: `${availableParallelism()} cores (${cpus()[0]?.model ?? 'unknown'}), ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}`,
    seconds: (performance.now() - started) / 1000,
    rows: [
      [
        'bare: produce of encoded records, batches of 1,000',
        `${produce.perSecond.toFixed(0)} records/s`,
        'the limit',
      ],
      [
        'single sends, 64 connections, consumers off',
        `${sendsPerSecond.toFixed(0)}/s, p50 ${saturated.p50.toFixed(1)} ms, p99 ${saturated.p99.toFixed(1)} ms`,
        `${(sendsPerSecond / bareSendsPerSecond).toFixed(2)} of the bare handler`,
      ],
      [
        'bare: node:http handler, one commit and one produce a flush',
        `${bareSendsPerSecond.toFixed(0)}/s, p50 ${bareSends.p50.toFixed(1)} ms, p99 ${bareSends.p99.toFixed(1)} ms`,
        'the limit',
      ],
      [
        'batches of 1,000, two requests under way, consumers off',
        `${batchedPerSecond.toFixed(0)} messages/s, p99 of a request ${batches.p99.toFixed(0)} ms`,
        `${(batchedPerSecond / produce.perSecond).toFixed(3)} of the bare produce`,
      ],
      [
        'the same behind a million ledger rows',
        `${fullPerSecond.toFixed(0)} messages/s`,
        `${(batchedPerSecond / fullPerSecond).toFixed(2)} × the cost of a message`,
      ],
      [
        'bare: produce to consume, beside 200 sends/s',
        `p50 ${beside.p50.toFixed(2)} ms, p99 ${beside.p99.toFixed(2)} ms`,
        'the limit',
      ],
      [
        'bare: produce to consume, on an idle hub',
        `p50 ${alone.p50.toFixed(2)} ms, p99 ${alone.p99.toFixed(2)} ms`,
        'for comparison',
      ],
      [
        'accepted (recorded, on its way to the bus) to handed over, 200 sends/s',
        `p50 ${handOverP50.toFixed(0)} ms, p99 ${handOverP99.toFixed(0)} ms (${fromBus.length} messages); from the stamp of acceptance, before its commit, p50 ${percentile(fromStamp, 0.5)} ms, p99 ${percentile(fromStamp, 0.99)} ms`,
        `${(handOverP50 / beside.p50).toFixed(1)} × and ${(handOverP99 / beside.p99).toFixed(1)} × the bare round trip beside it; ${(handOverP50 / alone.p50).toFixed(1)} × and ${(handOverP99 / alone.p99).toFixed(1)} × the one on an idle hub`,
      ],
      [
        'end to end: 10,000 single sends until the last is in the journal',
        `${endToEnd.toFixed(0)} messages/s; sends answered in p50 ${burst.p50.toFixed(1)} ms, p99 ${burst.p99.toFixed(1)} ms`,
        `${(endToEnd / produce.perSecond).toFixed(3)} of the bare produce`,
      ],
      ...dispatching.rows,
      ...webhooks.rows,
      ...knowing.rows,
    ],
    memory: APPS.map((name, index) => ({ name, atRest: atRest[index]!, afterLoad: afterLoad[index]! })),
    bars,
  })
  const notes = readFileSync(new URL('NOTES.md', import.meta.url), 'utf8')
  writeFileSync(new URL('RESULTS.md', import.meta.url), `${page}\n${notes}`)
  say(`\n${page}`)
} finally {
  await hub.stop()
}
