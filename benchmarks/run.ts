/**
 * `npm run bench`: a hub of its own on this machine, held against what the Kafka port does bare, in one run.
 * Writes `RESULTS.md`. Machines are noisy: read the ratios.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { decodeFact } from '@hub/kafka'
import { startHub, type TestHub } from '@hub/testkit'
import { Result } from 'effect'
import postgres from 'postgres'
import { readTopic } from '../test/support/log.ts'
import { bare } from './bare.ts'
import type { LoadPlan, LoadResult } from './load.ts'
import { fold, percentile } from './numbers.ts'

/** The whole of it should stay below three minutes. */
const WARM_UP = { connections: 16, durationMs: 5000 }
const SATURATION = { connections: 64, durationMs: 15_000 }
const STEADY = { connections: 64, rate: 200, durationMs: 12_000 }
const END_TO_END = { connections: 64, count: 10_000 }
const BARE = { produceMs: 6000, roundTripRate: 200, roundTripMs: 10_000 }
const APPS = ['command-api', 'dispatcher', 'projector', 'webhook-fanout'] as const

const say = (line: string): void => console.log(line)

const load = (plan: LoadPlan): Promise<LoadResult> =>
  new Promise((resolve, reject) => {
    const child: ChildProcess = fork(new URL('load.ts', import.meta.url))
    child.once('message', (result) => resolve(result as LoadResult))
    child.once('exit', (code) => reject(new Error(`the load generator ended early (${code})`)))
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

/** Acceptance to hand-over of the messages of one run, from the facts' own times (milliseconds). */
const handOverTimes = async (
  brokers: ReadonlyArray<string>,
  since: number,
): Promise<ReadonlyArray<number>> => {
  const acceptedAt = new Map<string, number>()
  const times: Array<number> = []
  const facts = (
    await Promise.all(
      ['hub.accepted.service.v1', 'hub.messages.v1'].map((topic) => readTopic(brokers, topic)),
    )
  ).flat()
  for (const record of facts) {
    const fact = decodeFact(record)
    if (Result.isSuccess(fact) && fact.success.type === 'MessageAccepted' && fact.success.at >= since) {
      acceptedAt.set(fact.success.messageId, fact.success.at)
    }
  }
  for (const record of facts) {
    const fact = decodeFact(record)
    if (Result.isFailure(fact) || fact.success.type !== 'MessageSent') continue
    const at = acceptedAt.get(fact.success.messageId)
    if (at !== undefined) times.push(fact.success.at - at)
  }
  return times.toSorted((a, b) => a - b)
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

  const limits = await bare(kafka.brokers, 'bench.', BARE)
  say(`bare produce: ${limits.produce.perSecond.toFixed(0)} records/s in batches of 1,000`)
  say(`bare round trip: p50 ${limits.roundTrip.p50.toFixed(2)} ms, p99 ${limits.roundTrip.p99.toFixed(2)} ms`)

  const since = Date.now()
  const steady = await load(plan(STEADY))
  messages += steady.accepted
  await settle(messages)
  const handOver = await handOverTimes(kafka.brokers, since)
  const handOverP50 = percentile(handOver, 0.5)
  const handOverP99 = percentile(handOver, 0.99)
  say(`hand-over at 200 sends/s: p50 ${handOverP50} ms, p99 ${handOverP99} ms`)

  const saturated = await load(plan(SATURATION))
  messages += saturated.accepted
  say(
    `single sends: ${(saturated.accepted / saturated.seconds).toFixed(0)}/s, p99 ${saturated.p99.toFixed(1)} ms`,
  )
  await settle(messages)

  const begun = performance.now()
  const burst = await load(plan(END_TO_END))
  messages += burst.accepted
  await settle(messages)
  const endToEndSeconds = (performance.now() - begun) / 1000
  const afterLoad = memory(hub)
  const endToEnd = burst.accepted / endToEndSeconds
  say(`end to end: ${endToEnd.toFixed(0)} messages/s`)
  await sql.end()

  const failed = steady.failed + saturated.failed + burst.failed
  if (failed > 0) {
    say(`${failed} sends were not accepted: ${[...saturated.complaints, ...burst.complaints].join('; ')}`)
    process.exitCode = 1
  }

  const sendsPerSecond = saturated.accepted / saturated.seconds
  const bars = [
    { what: 'hand-over p50 ÷ bare round trip p50', value: handOverP50 / limits.roundTrip.p50, bar: 5 },
    { what: 'hand-over p99 ÷ bare round trip p99', value: handOverP99 / limits.roundTrip.p99, bar: 8 },
    { what: 'memory at rest, the largest app, MiB', value: Math.max(...atRest), bar: 200 },
  ]
  const page = fold({
    machine: `${availableParallelism()} cores (${cpus()[0]?.model ?? 'unknown'}), ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}`,
    seconds: (performance.now() - started) / 1000,
    rows: [
      [
        'bare: produce of encoded records, batches of 1,000',
        `${limits.produce.perSecond.toFixed(0)} records/s`,
        'the limit',
      ],
      [
        'single sends, 64 connections',
        `${sendsPerSecond.toFixed(0)}/s, p50 ${saturated.p50.toFixed(1)} ms, p99 ${saturated.p99.toFixed(1)} ms`,
        `${(sendsPerSecond / limits.produce.perSecond).toFixed(3)} of the bare produce`,
      ],
      [
        'bare: produce to consume, 200/s',
        `p50 ${limits.roundTrip.p50.toFixed(2)} ms, p99 ${limits.roundTrip.p99.toFixed(2)} ms`,
        'the limit',
      ],
      [
        'accepted to handed over, 200 sends/s',
        `p50 ${handOverP50.toFixed(0)} ms, p99 ${handOverP99.toFixed(0)} ms (${handOver.length} messages)`,
        `${(handOverP50 / limits.roundTrip.p50).toFixed(1)} × and ${(handOverP99 / limits.roundTrip.p99).toFixed(1)} × the bare round trip`,
      ],
      [
        'end to end: 10,000 sends until the last is in the journal',
        `${endToEnd.toFixed(0)} messages/s`,
        `${(endToEnd / limits.produce.perSecond).toFixed(3)} of the bare produce`,
      ],
    ],
    memory: APPS.map((name, index) => ({ name, atRest: atRest[index]!, afterLoad: afterLoad[index]! })),
    bars,
  })
  writeFileSync(new URL('RESULTS.md', import.meta.url), page)
  say(`\n${page}`)
} finally {
  await hub.stop()
}
