/**
 * The loads of `npm run bench -- cost`. Each runs three times. A repetition costs what all processes
 * use from its first send until its last event is in the event journal.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { openDatabase } from '@hub/testkit'
import { client } from '../../test/support/client.ts'
import type { HubProcess } from '../../test/support/hub.ts'
import { startScript, untilTime } from '../loads/child-process.ts'
import { byProcess, makeMeter } from './cost-meter.ts'
import type { CostReceiver } from '../loads/cost-receiver.ts'
import {
  type ByProcess,
  type CostResults,
  LOADS,
  type LoadName,
  type Repetition,
} from '../pages/cost-results.ts'
import { submitTimes } from './cost-submits.ts'
import { awaitEvents } from './event-journal.ts'
import type { LoadPlan, LoadResult } from '../loads/load-generator.ts'
import { type Latencies, latenciesOf } from './numbers.ts'
import type { OpenLoopPlan, OpenLoopResult } from '../loads/open-loop.ts'

export const REPETITIONS = 3
/** After the start, the apps compile code and open connections. */
export const SETTLE_MS = 5000
const IDLE_MS = 5000
/** Of ten single sends, how many are codes. Batches are service messages. */
const CODES_OF_TEN = 1
/** The generators of the load start in this time. The hub is idle meanwhile. */
const GENERATOR_START_MS = 700
/** Paced sends need few connections: a send is answered in some ms. */
const PACED = { first: 8, newPerSecond: 0 }
const SECONDS = { '20': 6, '200': 6, one: 2, '64': 4, webhooks: 5 }
const BATCHES = { batch: 1000, connections: 2 }
const BATCHES_OF_REPETITION = 10
/** Sends before the first load, so that V8 and the JVM compile what the loads need. */
const WARM_UP = { connections: 16, seconds: 4, batches: 3 }
/** The first webhook batches open connections to the receiver. */
const WEBHOOK_WARM_UP_SECONDS = 2
/** The last events of a repetition are posted after their window of a second. */
const WEBHOOK_SETTLE_MS = 1500
/** A repetition that takes longer has failed. */
const JOURNAL_WITHIN_MS = 60_000
/** Each question costs PostgreSQL 0.3 ms. */
const ASK_EVERY_MS = 50
const DRAIN_STEP_MS = 250

/** The events of each type that were recorded in each step after the first send. */
export interface Drain {
  readonly stepMs: number
  readonly steps: ReadonlyArray<{ readonly step: number; readonly type: string; readonly events: number }>
}

export interface Measured extends Pick<CostResults, 'partitions' | 'loads' | 'memory'> {
  /** Of the last repetition of the batches. */
  readonly drain: Drain
}

/** The accepted sends of a load, and the latencies of their answers by class. */
export interface Sent {
  readonly accepted: number
  readonly latencies: Readonly<Record<string, Latencies>>
}

interface Singles {
  /** Default: one client with this key and pace. */
  readonly clients?: OpenLoopPlan['clients']
  readonly loop: OpenLoopPlan['loop']
  readonly pace: number
  readonly seconds: number
  readonly key: string
  readonly codesOfTen?: number
  /** The time of the first send, ms since the epoch. Default: now. */
  readonly startAt?: number
  readonly run?: string
}

/** Sends to a hub, with a reference and a recipient of its own for each message. */
const makeSenders = (baseUrl: string, log: (line: string) => void) => {
  let runs = 0
  /** The numbers of two runs are 791,900 apart. */
  const newRun = (): string => (++runs * 100).toString(36)
  const report = (others: Readonly<Record<string, number>>): void => {
    if (Object.keys(others).length > 0) log(`sends that were not accepted: ${JSON.stringify(others)}`)
  }
  const singles = async ({
    clients,
    codesOfTen = CODES_OF_TEN,
    key,
    loop,
    pace,
    run = newRun(),
    seconds,
    startAt = 0,
  }: Singles): Promise<Sent> => {
    const plan: OpenLoopPlan = {
      baseUrl,
      clients: clients ?? [{ key, pace }],
      loop,
      durationMs: seconds * 1000,
      codesOfTen,
      run,
      connections: PACED,
      startAt,
    }
    const { first } = await startScript<OpenLoopResult>('open-loop.ts', plan)
    const { samples } = first.refused
    report({ ...first.others, ...(samples > 0 ? { overloaded: samples } : {}) })
    return {
      accepted: first.clients.reduce((sum, { accepted }) => sum + accepted, 0),
      latencies: { ...first.accepted },
    }
  }
  const batches = async (key: string, count: number, startAt = 0): Promise<Sent> => {
    const plan: LoadPlan = { baseUrl, key, run: newRun(), ...BATCHES, count, startAt }
    const { first } = await startScript<LoadResult>('load-generator.ts', plan)
    if (first.failed > 0) report(first.outcomes)
    const { accepted, p50, p99, samples } = first
    return { accepted, latencies: { batch: { samples, p50, p99 } } }
  }
  return { newRun, singles, batches }
}

/** Measures loads on a hub, from the first send of each until its last event is in the event journal. */
export const makeMeasurement = (hub: HubProcess, log: (line: string) => void) => {
  const { base_url, database_url } = hub.describe()
  const sql = openDatabase(database_url)
  const meter = makeMeter(hub, sql)
  const senders = makeSenders(base_url, log)

  let messages = 0
  /** Waits until the events of these messages, and of all before, are in the event journal. */
  const journal = async (accepted: number): Promise<void> => {
    messages += accepted
    await awaitEvents(sql, messages, JOURNAL_WITHIN_MS, ASK_EVERY_MS)
  }

  /** `startAt`: the time of the first send, ms since the epoch. */
  const repeat = async (startAt: number, send: (startAt: number) => Promise<Sent>): Promise<Repetition> => {
    const bytesBefore = await meter.bytes()
    const atStart = untilTime(startAt).then(() => ({ cpu: meter.cpu(), now: performance.now() }))
    const [before, { accepted, latencies }] = await Promise.all([atStart, send(startAt)])
    await journal(accepted)
    const [cpu, now] = [meter.cpu(), performance.now()]
    const bytes = await meter.bytes()
    return {
      messages: accepted,
      seconds: (now - before.now) / 1000,
      cpuMs: byProcess((name) => cpu[name] - before.cpu[name]),
      bytes: {
        tables: bytes.tables - bytesBefore.tables,
        log: bytes.log - bytesBefore.log,
        topics: bytes.topics - bytesBefore.topics,
      },
      latencies,
    }
  }

  /** Compiles what the loads need. */
  const warmUp = async (key: string): Promise<void> => {
    const { connections: pace, seconds } = WARM_UP
    await journal((await senders.singles({ loop: 'closed', pace, seconds, key })).accepted)
    await journal((await senders.batches(key, WARM_UP.batches)).accepted)
  }

  return { sql, meter, senders, journal, repeat, warmUp }
}

/** When a load begins whose generators start now, ms since the epoch. */
export const startTime = (): number => Date.now() + GENERATOR_START_MS

/** No message for some seconds. */
export const idleUntil = async (startAt: number): Promise<Sent> => {
  await untilTime(startAt + IDLE_MS)
  return { accepted: 0, latencies: {} }
}

/** Runs the wanted loads on a new hub. The others have no repetitions. */
export const measureLoads = async (
  hub: HubProcess,
  receiver: CostReceiver,
  wanted: ReadonlyArray<LoadName>,
  report: {
    readonly log: (line: string) => void
    /** Called after each repetition. */
    readonly repeated: (load: LoadName, repetition: Repetition) => void
  },
): Promise<Measured> => {
  const description = hub.describe()
  const { base_url, keys, other_keys } = description
  const measurement = makeMeasurement(hub, report.log)
  const { journal, meter, sql } = measurement
  const { batches, newRun, singles } = measurement.senders

  const runsAt200: Array<string> = []
  const sendAt200 = (startAt: number): Promise<Sent> => {
    const run = newRun()
    runsAt200.push(run)
    return singles({ loop: 'open', pace: 200, seconds: SECONDS['200'], key: keys.live, startAt, run })
  }
  const webhooksAt200 = (seconds: number, startAt = 0): Promise<Sent> =>
    singles({ loop: 'open', pace: 200, seconds, key: other_keys.live, startAt })
  const SEND: Readonly<Record<LoadName, (startAt: number) => Promise<Sent>>> = {
    idle: idleUntil,
    '20': (startAt) => singles({ loop: 'open', pace: 20, seconds: SECONDS['20'], key: keys.live, startAt }),
    '200': sendAt200,
    one: (startAt) =>
      singles({ loop: 'closed', pace: 1, seconds: SECONDS.one, key: keys.live, codesOfTen: 5, startAt }),
    '64': (startAt) => singles({ loop: 'closed', pace: 64, seconds: SECONDS['64'], key: keys.live, startAt }),
    batches: (startAt) => batches(keys.live, BATCHES_OF_REPETITION, startAt),
    webhooks: (startAt) => webhooksAt200(SECONDS.webhooks, startAt),
  }

  const drainSince = async (from: number): Promise<Drain> => ({
    stepMs: DRAIN_STEP_MS,
    steps: await sql<Array<Drain['steps'][number]>>`
      SELECT floor((extract(epoch FROM created_at)::float8 * 1000 - ${from}::float8) / ${DRAIN_STEP_MS}::float8)::int AS step,
             type, count(*)::int AS events
        FROM read.events WHERE created_at >= to_timestamp(${from / 1000}::float8) GROUP BY 1, 2 ORDER BY 1, 2`,
  })

  const loads: Record<LoadName, Array<Repetition>> = {
    idle: [],
    '20': [],
    '200': [],
    one: [],
    '64': [],
    batches: [],
    webhooks: [],
  }
  let loaded: ByProcess<number> = byProcess(() => 0)
  let drain: Drain = { stepMs: DRAIN_STEP_MS, steps: [] }

  /** The repetitions of a load one after the other. */
  const measure = async (load: LoadName): Promise<void> => {
    for (let i = 0; i < REPETITIONS; i++) {
      const startAt = startTime()
      let repetition = await measurement.repeat(startAt, SEND[load])
      const memory = meter.memory()
      const before = loaded
      if (load !== 'idle') loaded = byProcess((name) => Math.max(before[name], memory[name]))
      if (load === 'batches') drain = await drainSince(startAt)
      if (load === 'webhooks') {
        await delay(WEBHOOK_SETTLE_MS)
        const post = latenciesOf(await receiver.times())
        repetition = { ...repetition, latencies: { ...repetition.latencies, post } }
      }
      loads[load].push(repetition)
      report.repeated(load, repetition)
    }
  }

  const subscribe = async (): Promise<void> => {
    const body = { url: receiver.url, event_types: ['message.accepted'] }
    const { status } = await client(base_url, other_keys.live).post('/v1/webhook_endpoints', body)
    if (status !== 201) throw new Error(`POST /v1/webhook_endpoints returned status ${status}.`)
    await journal((await webhooksAt200(WEBHOOK_WARM_UP_SECONDS)).accepted)
    await delay(WEBHOOK_SETTLE_MS)
    await receiver.times()
  }

  try {
    await delay(SETTLE_MS)
    if (wanted.includes('idle')) await measure('idle')
    const idle = meter.memory()
    const others = LOADS.filter((load) => load !== 'idle' && wanted.includes(load))
    if (others.length > 0) await measurement.warmUp(keys.live)
    for (const load of others) {
      if (load === 'webhooks') await subscribe()
      await measure(load)
    }
    const submits = await submitTimes(description, runsAt200, {
      codesOfTen: CODES_OF_TEN,
      sends: 200 * SECONDS['200'],
    })
    loads['200'] = loads['200'].map((one, i) => ({
      ...one,
      latencies: {
        ...one.latencies,
        submitFromAppend: submits[i]!.fromAppend,
        submitFromAcceptance: submits[i]!.fromAcceptance,
      },
    }))
    const [row] = await sql<[{ partitions: number }]>`
      SELECT count(DISTINCT partition)::int AS partitions FROM read.checkpoints`
    return { partitions: row.partitions, loads, memory: { idle, loaded }, drain }
  } finally {
    await sql.end()
  }
}
