/**
 * Admission control: open loops at multiples of the capacity, with codes (`otp`) among them, and one
 * account that sends ten times as much as others.
 *
 * The capacity is what a closed loop reaches on the same hub. The load generator is a process of its own,
 * but shares the cores with the hub, so it takes more from the hub at four times the capacity than at
 * one. `open-loop.ts` is written to need little, and the rows show how much it needed.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { DEFAULT_SETTINGS } from '@hub/domain'
import { decodeFact } from '@hub/kafka'
import { openDatabase } from '@hub/testkit'
import { Result } from 'effect'
import { type Account, makeHubAdmin } from '../../test/support/hub-admin.ts'
import { startHub, type TestHub } from '../../test/support/hub.ts'
import { readTopic } from '../../test/support/read-topic.ts'
import type { Chart } from '../pages/chart.ts'
import { startScript } from '../loads/child-process.ts'
import { type Latencies, latencyText, median } from './numbers.ts'
import {
  ANSWERS,
  type OpenLoopPlan,
  type OpenLoopResult,
  referenceOf,
  type Second,
} from '../loads/open-loop.ts'
import { type Section, target } from '../pages/results.ts'
import { type Measured, onServers, planOf, type SectionBenchmark } from './section.ts'

interface OverloadPlan {
  /** Multiples of the capacity. */
  readonly multiples: ReadonlyArray<number>
  /** Of each load. */
  readonly seconds: number
  /** Connections of the closed loop that finds the capacity, and its time. */
  readonly connections: number
  readonly capacitySeconds: number
  /** Of ten sends, how many are codes. */
  readonly codesOfTen: number
  /** Accounts beside the one that sends ten times as much. Each sends this share of the capacity. */
  readonly others: number
  readonly shareOfOthers: number
}

const PLAN: OverloadPlan = {
  multiples: [1, 1.5, 2, 4],
  seconds: 10,
  connections: 128,
  capacitySeconds: 10,
  codesOfTen: 1,
  others: 9,
  // Less than a tenth, which is the share of each of ten accounts.
  shareOfOthers: 0.09,
}

const WARM_UP_SECONDS = 5
/** The goal: so much later, everything is as before the load. */
const RECOVERED_WITHIN_MS = 5000
/** The load before and after: a share of the capacity that needs no admission control. */
const LIGHT = { share: 0.2, seconds: 3 }
/**
 * A key beside another one that sends at its `api_rps`, and alone before each time. The median of the
 * ratios counts, because the p99 of a single measurement is one of its ten slowest answers.
 */
const NEIGHBOUR = { perSecond: 100, seconds: 6, times: 3 }
/** Reading the lanes takes longer with more messages. */
const READ_WITHIN_MS = 300_000

/** A load and the references of its sends. */
interface Loaded {
  readonly result: OpenLoopResult
  readonly accepted: ReadonlyArray<string>
  readonly refused: ReadonlyArray<string>
}

const referencesOf = (plan: OpenLoopPlan, { clients }: OpenLoopResult, answer: (typeof ANSWERS)[number]) =>
  clients.flatMap(({ answers }, client) =>
    [...Buffer.from(answers, 'base64')].flatMap((one, index) =>
      ANSWERS[one] === answer ? [referenceOf(plan.run, client, index)] : [],
    ),
  )

const goodputOf = ({ clients, seconds }: OpenLoopResult): number =>
  clients.reduce((sum, { accepted }) => sum + accepted, 0) / seconds

const other5xx = ({ others }: OpenLoopResult): number =>
  Object.entries(others)
    .filter(([name]) => name.startsWith('5') || name === 'no answer')
    .reduce((sum, [, count]) => sum + count, 0)

/** Goodput, latency and refusals over time: the loads, one after the other without the time between them. */
const chartsOf = (
  steps: ReadonlyArray<{ readonly multiple: number; readonly at: OpenLoopResult }>,
): ReadonlyArray<Chart> => {
  let elapsed = 0
  const marks: Array<readonly [number, string]> = []
  const all: Array<{ readonly second: number; readonly values: OpenLoopResult['bySecond'][number] }> = []
  for (const { at, multiple } of steps) {
    marks.push([elapsed, `${multiple} × the capacity`])
    // The last answers arrive after the load.
    const seconds = at.bySecond.slice(0, Math.floor(at.seconds))
    for (const [i, values] of seconds.entries()) all.push({ second: elapsed + i, values })
    elapsed += seconds.length
  }
  const line = (name: string, key: keyof Second) => ({
    name,
    points: all.flatMap(({ second, values }) => {
      const value = values[key]
      return value === null ? [] : [[second, value] as const]
    }),
  })
  return [
    {
      title: 'Admission control: sends',
      unit: 'sends per second',
      series: [line('sent', 'sent'), line('accepted', 'accepted'), line('refused', 'refused')],
      marks,
    },
    {
      title: 'Admission control: time until the answer',
      unit: 'p99 of each second, ms',
      series: [
        line('accepted service', 'serviceP99'),
        line('accepted otp', 'otpP99'),
        line('refused', 'refusedP99'),
      ],
      marks,
    },
  ]
}

/** The references in the ledger and in the lanes. */
const recordedReferences = async (hub: TestHub) => {
  const { database_url, kafka } = hub.describe()
  const sql = openDatabase(database_url)
  const rows = await sql<ReadonlyArray<{ client_ref: string }>>`SELECT client_ref FROM command.acceptances`
  await sql.end()
  const lanes = new Set<string>()
  for (const lane of ['hub.accepted.otp.v1', 'hub.accepted.service.v1']) {
    for (const record of await readTopic(kafka.brokers, lane, READ_WITHIN_MS)) {
      const fact = decodeFact(record)
      if (Result.isSuccess(fact) && fact.success.type === 'MessageAccepted') {
        lanes.add(fact.success.clientRef ?? '')
      }
    }
  }
  return { ledger: new Set(rows.map(({ client_ref }) => client_ref)), lanes }
}

const measureOverload = async (
  hub: TestHub,
  log: (line: string) => void,
  plan: OverloadPlan,
): Promise<Measured> => {
  const { base_url, keys } = hub.describe()
  const loads: Array<Loaded> = []
  const load = async (
    loop: OpenLoopPlan['loop'],
    seconds: number,
    clients: OpenLoopPlan['clients'],
  ): Promise<OpenLoopResult> => {
    const openLoop: OpenLoopPlan = {
      baseUrl: base_url,
      clients,
      loop,
      durationMs: seconds * 1000,
      codesOfTen: plan.codesOfTen,
      run: randomBytes(3).toString('hex'),
    }
    const { first: result } = await startScript<OpenLoopResult>('open-loop.ts', openLoop)
    const accepted = referencesOf(openLoop, result, 'accepted')
    loads.push({ result, accepted, refused: referencesOf(openLoop, result, 'overloaded') })
    return result
  }
  const alone = (pace: number) => [{ key: keys.test, pace }]

  await load('closed', WARM_UP_SECONDS, alone(16))
  const closed = await load('closed', plan.capacitySeconds, alone(plan.connections))
  const capacity = goodputOf(closed)
  log(`capacity: ${capacity.toFixed(0)} sends/s, ${latencyText(closed.accepted.service)}`)
  const light = () => load('open', LIGHT.seconds, alone(LIGHT.share * capacity))
  const before = await light()

  const steps: Array<{
    readonly multiple: number
    readonly at: OpenLoopResult
    readonly after: OpenLoopResult
  }> = []
  for (const multiple of plan.multiples) {
    const at = await load('open', plan.seconds, alone(multiple * capacity))
    log(`${multiple} × the capacity: ${goodputOf(at).toFixed(0)} accepted/s`)
    await delay(RECOVERED_WITHIN_MS)
    steps.push({ multiple, at, after: await light() })
  }

  const admin = makeHubAdmin(hub)
  const unlimited = () => admin.createAccount({ test: { api_rps: 1_000_000 } })
  const accounts: Array<Account> = []
  for (let i = 0; i <= plan.others; i++) accounts.push(await unlimited())
  const atItsRate = await admin.createAccount()
  const neighbour = await unlimited()
  await admin.close()
  const pace = plan.shareOfOthers * capacity
  const shared = await load(
    'open',
    plan.seconds,
    accounts.map((account, i) => ({ key: account.keys.test, pace: i === 0 ? 10 * pace : pace })),
  )
  const [heavy = 0, ...others] = shared.clients.map(({ accepted, sent }) => accepted / sent)
  log(`accounts: ${others.map((share) => share.toFixed(2)).join(' ')}, the heavy one ${heavy.toFixed(2)}`)

  const neighbourClient = { key: neighbour.keys.test, pace: NEIGHBOUR.perSecond }
  await load('open', 1, [neighbourClient, { key: atItsRate.keys.test, pace: 1 }])
  const neighbourP99 = async (...besides: OpenLoopPlan['clients']): Promise<number> => {
    const { clients } = await load('open', NEIGHBOUR.seconds, [neighbourClient, ...besides])
    return clients[0]!.latencies.p99
  }
  const neighbours: Array<{ readonly alone: number; readonly beside: number }> = []
  for (let i = 0; i < NEIGHBOUR.times; i++) {
    neighbours.push({
      alone: await neighbourP99(),
      beside: await neighbourP99({ key: atItsRate.keys.test, pace: DEFAULT_SETTINGS.apiRps }),
    })
  }
  const msOf = (which: 'alone' | 'beside'): string =>
    neighbours.map((one) => one[which].toFixed(0)).join(', ')

  const { lanes, ledger } = await recordedReferences(hub)
  const refusedAndSent = loads
    .flatMap(({ refused }) => refused)
    .filter((reference) => ledger.has(reference) || lanes.has(reference))
  const acceptedAndLost = loads
    .flatMap(({ accepted }) => accepted)
    .filter((reference) => !ledger.has(reference) || !lanes.has(reference))

  const best = Math.max(...steps.map(({ at }) => goodputOf(at)))
  const worst = (of: (result: OpenLoopResult) => number): number => Math.max(...steps.map(({ at }) => of(at)))
  const text = (latencies: Latencies): string => (latencies.samples === 0 ? 'none' : latencyText(latencies))
  const section: Section = {
    figures: {
      admissionCapacityPerSecond: capacity,
      ...Object.fromEntries(
        steps.flatMap(({ at, multiple }) => [
          [`admissionGoodputAt${multiple}`, goodputOf(at)],
          [`admissionServiceP99At${multiple}Ms`, at.accepted.service.p99],
          [`admissionOtpP99At${multiple}Ms`, at.accepted.otp.p99],
          [`admissionRefusalP99At${multiple}Ms`, at.refused.p99],
          [`admissionNewConnectionP99At${multiple}Ms`, at.newConnections.p99],
        ]),
      ),
    },
    rows: [
      [
        `capacity: single sends, closed loop of ${plan.connections} connections, whole hub`,
        `${capacity.toFixed(0)}/s, service ${text(closed.accepted.service)}, otp ${text(closed.accepted.otp)}`,
        'the limit',
      ],
      ...steps.map(({ at, multiple }): Section['rows'][number] => [
        `open loop, ${multiple} × the capacity, ${10 * plan.codesOfTen} % otp, ${plan.seconds} s`,
        `${goodputOf(at).toFixed(0)}/s accepted (otp ${at.accepted.otp.samples} of ${at.sent.otp}); service ${text(at.accepted.service)}; otp ${text(at.accepted.otp)}; ${at.refused.samples} refused in ${text(at.refused)}; new connections ${text(at.newConnections)}; other answers ${JSON.stringify(at.others)}`,
        `${(goodputOf(at) / capacity).toFixed(2)} of the capacity; load generator ${(at.cpuSeconds / at.seconds).toFixed(2)} of a core, ${at.lateP99.toFixed(0)} ms late (p99)`,
      ]),
      [
        `${LIGHT.share} of the capacity, before the loads and ${RECOVERED_WITHIN_MS / 1000} s after each`,
        `service ${text(before.accepted.service)} before; ${steps.map(({ after }) => text(after.accepted.service)).join('; ')} after`,
        'for comparison',
      ],
      [
        `one account at ten times the rate of ${plan.others} others, ${((10 + plan.others) * plan.shareOfOthers).toFixed(2)} × the capacity`,
        `${others.map((share) => share.toFixed(2)).join(', ')} of their sends accepted`,
        `${heavy.toFixed(2)} of those of the heavy one`,
      ],
      [
        `a key with ${NEIGHBOUR.perSecond} sends/s beside one that sends at its api_rps of ${DEFAULT_SETTINGS.apiRps}`,
        `p99 ${msOf('beside')} ms`,
        `alone, before each: p99 ${msOf('alone')} ms`,
      ],
    ],
    targets: [
      ...steps.map(({ at, multiple }) =>
        target(
          `best goodput (at most the load) ÷ goodput at ${multiple} × the capacity`,
          Math.min(best, multiple * capacity) / goodputOf(at),
          1 / 0.9,
        ),
      ),
      target(
        'accepted single service sends in overload, p99, ms',
        worst(({ accepted }) => accepted.service.p99),
        1500,
      ),
      target(
        'accepted otp sends in overload, p99, ms',
        worst(({ accepted }) => accepted.otp.p99),
        500,
      ),
      target(
        'refusals in overload, p99, ms',
        Math.max(
          0,
          worst(({ refused }) => refused.p99 || 0),
        ),
        50,
      ),
      target('5xx answers except overloaded, and missing answers', worst(other5xx), 0),
      target('refused sends in the ledger or the lanes', refusedAndSent.length, 0),
      target('accepted sends missing in the ledger or the lanes', acceptedAndLost.length, 0),
      target(
        'refusals 5 s after the load',
        Math.max(...steps.map(({ after }) => after.refused.samples + other5xx(after))),
        0,
      ),
      target('1 − the smallest accepted share of the other accounts', 1 - Math.min(...others), 0.1),
      target(
        'p99 of a key beside one at its api_rps ÷ p99 alone, median',
        median(neighbours.map(({ alone, beside }) => beside / alone)),
        1.25,
      ),
    ],
  }
  return { section, charts: chartsOf(steps) }
}

export const overload: SectionBenchmark = {
  name: 'overload',
  what: 'sends above the capacity of command-api; [full | seconds of each load]',
  measure: onServers(
    // The accounts get no rate limit: the machine is the limit.
    () => startHub({ apiRps: 1_000_000 }),
    (hub, log, words) =>
      measureOverload(
        hub,
        log,
        planOf(words, {
          page: PLAN,
          full: { ...PLAN, seconds: 60 },
          changed: (page, [seconds = page.seconds]) => ({ ...page, seconds }),
        }),
      ),
  ),
}
