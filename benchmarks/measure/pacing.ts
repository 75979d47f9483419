/**
 * Pacing: what an SMSC with a limit accepts and throttles, and how long codes wait behind a backlog of
 * `service` messages. One hub for each limit. The limit changes by half every 20 seconds, and each hub
 * grows from one to two to four dispatchers.
 *
 * The hubs of the low limits run at the same time. That of the highest limit runs alone, because twelve
 * dispatchers need more than two cores. Processes start one after the other, and never while messages
 * are prepared: a start takes a second of a core, which in production is not that of other dispatchers.
 *
 * The SMSC is the operator simulator. It counts the parts of each second, which begins with a part.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Chart, ChartSeries } from '../pages/chart.ts'
import { type BenchProcess, makeDispatchEnvironment, type Servers } from '../loads/dispatch-environment.ts'
import { type Section, target } from '../pages/results.ts'
import { type Measured, onStack, planOf, type SectionBenchmark } from './section.ts'
import { startSmsc } from '../loads/smsc.ts'

/** One limit for some time. */
interface Period {
  /** The limit, as a share of the highest one. */
  readonly share: number
  readonly dispatchers: number
}

interface PacingPlan {
  /** Parts per second that the SMSC allows at most: a hub for each. Those of a group run together. */
  readonly limits: ReadonlyArray<ReadonlyArray<number>>
  /** `service` messages that wait at each hub when its first dispatcher starts. */
  readonly backlog: number
  readonly periods: ReadonlyArray<Period>
  readonly periodSeconds: number
  /** The limit must be known this long after it began. */
  readonly learnSeconds: number
  /** Codes per second at a limit. */
  readonly otpPerSecond: (limit: number) => number
}

const FULL_PLAN: PacingPlan = {
  limits: [[10, 100], [1000]],
  backlog: 100_000,
  periods: [
    { share: 1, dispatchers: 1 },
    { share: 0.5, dispatchers: 1 },
    { share: 1, dispatchers: 2 },
    { share: 0.5, dispatchers: 4 },
    { share: 1, dispatchers: 4 },
  ],
  periodSeconds: 20,
  learnSeconds: 10,
  otpPerSecond: (limit) => Math.min(10, Math.max(2, limit / 10)),
}

/** Dispatchers join in each period in which the limit changes. */
const PLAN: PacingPlan = {
  ...FULL_PLAN,
  periods: [
    { share: 1, dispatchers: 1 },
    { share: 0.5, dispatchers: 2 },
    { share: 1, dispatchers: 4 },
  ],
}

/** Shards that four dispatchers cannot share evenly. */
const PARTITIONS = 6
/** Messages per append. */
const CHUNK = 1000
const number = (i: number): string => `+79${String(100_000_000 + i)}`

/** The answers of the SMSC in one second. */
interface Second {
  readonly allowed: number
  readonly accepted: number
  readonly throttled: number
}

interface Code {
  readonly period: number
  readonly acceptedAt: number
  /** The hub knew nothing of the SMSC yet: it had been there for less than `learnSeconds`. */
  readonly isFirst: boolean
}

interface Wait extends Pick<Code, 'period' | 'isFirst'> {
  readonly ms: number
}

/** Runs tasks one after the other. */
const inTurn = () => {
  let last: Promise<unknown> = Promise.resolve()
  return <A>(task: () => Promise<A>): Promise<A> => {
    const result = last.then(task)
    last = result.catch(() => {})
    return result
  }
}

/** Resolves for all when so many have called it. */
const barrier = (count: number) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  let missing = count
  return (): Promise<void> => {
    if (--missing === 0) resolve()
    return promise
  }
}

interface Together {
  readonly startNext: ReturnType<typeof inTurn>
  readonly prepared: () => Promise<void>
}

const measureLimit = async (servers: Servers, limit: number, plan: PacingPlan, together: Together) => {
  const environment = await makeDispatchEnvironment(servers, PARTITIONS)
  const smsc = await startSmsc()
  const directories: Array<string> = []
  const dispatchers: Array<BenchProcess> = []
  const codes = new Map<string, Code>()
  const waits: Array<Wait> = []
  const seconds: Array<Second> = []
  let codeTimer: NodeJS.Timeout | undefined

  const startDispatcher = () =>
    together.startNext(async (): Promise<void> => {
      const directory = mkdtempSync(join(tmpdir(), 'hub-bench-dispatcher-'))
      directories.push(directory)
      dispatchers.push(
        await environment.start('dispatcher', { ...smsc.environment, HUB_DATA_DIR: directory }),
      )
    })
  const sendCode = (i: number, period: number, isFirst: boolean) => {
    const code = environment.message({ to: number(900_000_000 - i), class: 'otp', mode: 'live' })
    codes.set(code.messageId, { period, acceptedAt: code.at, isFirst })
    void environment.accept([code])
  }

  try {
    await environment.markAllProjected()
    await smsc.behave({ throttle_per_second: limit, silent_percent: 100, submit_delay_ms: 5 })
    for (let i = 0; i < plan.backlog; i += CHUNK) {
      await environment.accept(
        Array.from({ length: CHUNK }, (_, n) =>
          environment.message({ to: number(i + n), class: 'service', mode: 'live' }),
        ),
      )
    }
    // A code ends its wait when the operator has accepted it.
    environment.follow(environment.topics.messages, ({ occurredAt, type, value }) => {
      if (type !== 'MessageSent') return
      // The message id is the first field of a fact.
      const code = codes.get(Buffer.from(value.subarray(6, 36)).toString('latin1'))
      if (code === undefined) return
      const { acceptedAt, isFirst, period: ofPeriod } = code
      waits.push({ period: ofPeriod, isFirst, ms: occurredAt - acceptedAt })
    })
    await together.prepared()
    await startDispatcher()
    const started = performance.now()
    let codeCount = 0
    let period = 0
    const isFirst = () => performance.now() - started < plan.learnSeconds * 1000
    codeTimer = setInterval(() => sendCode(codeCount++, period, isFirst()), 1000 / plan.otpPerSecond(limit))
    let before = await smsc.parts()
    for (const [i, { dispatchers: wanted, share }] of plan.periods.entries()) {
      period = i
      await smsc.behave({ throttle_per_second: limit * share })
      // The limit holds while the dispatchers start.
      const starting = Promise.all(
        Array.from({ length: Math.max(0, wanted - dispatchers.length) }, startDispatcher),
      )
      while (seconds.length < (i + 1) * plan.periodSeconds) {
        await delay(Math.max(0, (seconds.length + 1) * 1000 - (performance.now() - started)))
        const after = await smsc.parts()
        seconds.push({
          allowed: limit * share,
          accepted: after.accepted - before.accepted,
          throttled: after.throttled - before.throttled,
        })
        before = after
      }
      await starting
    }
    clearInterval(codeTimer)
    // The last codes arrive, or count as waiting since they were accepted.
    await delay(2000)
    const arrived = waits.length
    return { limit, seconds, waits, missing: codes.size - arrived }
  } finally {
    clearInterval(codeTimer)
    await Promise.all(dispatchers.map(({ kill }) => kill('SIGTERM')))
    smsc.close()
    await environment.close()
    for (const directory of directories) rmSync(directory, { recursive: true, force: true })
  }
}
type AtLimit = Awaited<ReturnType<typeof measureLimit>>

const p99 = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1] ?? Number.NaN

const sumOf = (seconds: ReadonlyArray<Second>, of: keyof Second): number =>
  seconds.reduce((sum, second) => sum + second[of], 0)

/** The figures of one period. */
const inPeriod = ({ seconds, waits }: AtLimit, period: number, plan: PacingPlan) => {
  const from = period * plan.periodSeconds
  const all = seconds.slice(from, from + plan.periodSeconds)
  const known = all.slice(plan.learnSeconds)
  // At the start, nothing is known of the operator. Later, a change is part of the measurement.
  const answers = period === 0 ? known : all
  return {
    used: sumOf(known, 'accepted') / sumOf(known, 'allowed'),
    accepted: sumOf(answers, 'accepted'),
    throttled: sumOf(answers, 'throttled'),
    waits: waits.filter((wait) => wait.period === period).map(({ ms }) => ms),
  }
}

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`

const measurePacing = async (
  servers: Servers,
  log: (line: string) => void,
  plan: PacingPlan,
): Promise<Measured> => {
  const all: Array<AtLimit> = []
  for (const limits of plan.limits) {
    const together = { startNext: inTurn(), prepared: barrier(limits.length) }
    all.push(...(await Promise.all(limits.map((limit) => measureLimit(servers, limit, plan, together)))))
  }
  const figures: Record<string, number> = {}
  const rows: Array<Section['rows'][number]> = []
  const targets: Array<Section['targets'][number]> = []
  for (const measured of all) {
    const { limit, missing, waits } = measured
    const periods = plan.periods.map((_, i) => inPeriod(measured, i, plan))
    for (const [i, { accepted, throttled, used, waits: ofPeriod }] of periods.entries()) {
      const { dispatchers, share } = plan.periods[i]!
      const what = `SMSC with ${limit * share} parts/s, ${dispatchers} ${dispatchers === 1 ? 'dispatcher' : 'dispatchers'}, period ${i + 1}`
      const answer = `${percent(used)} used; ${percent(throttled / (accepted + throttled))} throttled`
      rows.push([what, answer, `p99 of ${ofPeriod.length} codes ${p99(ofPeriod).toFixed(0)} ms`])
      log(`pacing: ${rows.at(-1)!.join(': ')}`)
    }
    const least = Math.min(...periods.map(({ used }) => used))
    const throttled = periods.reduce((sum, period) => sum + period.throttled, 0)
    const accepted = periods.reduce((sum, period) => sum + period.accepted, 0)
    const share = throttled / (throttled + accepted)
    const waitsOf = (first: boolean) => waits.filter(({ isFirst }) => isFirst === first).map(({ ms }) => ms)
    const [known, unknown] = [waitsOf(false), waitsOf(true)]
    figures[`pacingUsedAt${limit}`] = least
    figures[`pacingThrottledAt${limit}`] = share
    figures[`pacingCodesP99At${limit}Ms`] = p99(known)
    figures[`pacingFirstCodesP99At${limit}Ms`] = p99(unknown)
    targets.push(
      target(`unused share of ${limit} parts/s, in the worst period`, 1 - least, 0.1),
      target(`throttled share at ${limit} parts/s`, share, 0.03),
      target(
        `p99 of ${known.length} codes at ${limit} parts/s behind ${plan.backlog} messages, s`,
        p99(known) / 1000,
        1,
      ),
      target(
        `p99 of the first ${unknown.length} codes, before the hub knows ${limit} parts/s, s`,
        p99(unknown) / 1000,
        1,
      ),
      target(`codes that were not submitted at ${limit} parts/s`, missing, 0),
    )
  }
  const charts = all.map(({ limit, seconds }): Chart => {
    const line = (name: string, of: keyof Second): ChartSeries => ({
      name,
      points: seconds.map((second, i) => [i + 1, second[of]]),
    })
    return {
      title: `Pacing at an SMSC that allows ${limit} and ${limit / 2} parts per second`,
      unit: 'parts per second',
      series: [line('allowed', 'allowed'), line('accepted', 'accepted'), line('throttled', 'throttled')],
      marks: plan.periods.map(({ dispatchers }, i) => [
        i * plan.periodSeconds,
        `${dispatchers} ${dispatchers === 1 ? 'dispatcher' : 'dispatchers'}`,
      ]),
    }
  })
  return { section: { figures, rows, targets }, charts }
}

export const pacing: SectionBenchmark = {
  name: 'pacing',
  what: 'an SMSC with a limit, and codes behind a backlog; [full | limit …]',
  measure: onStack((servers, log, words) =>
    measurePacing(
      servers,
      log,
      planOf(words, {
        page: PLAN,
        full: FULL_PLAN,
        changed: (page, limits) => ({
          ...page,
          limits: page.limits
            .map((group) => group.filter((limit) => limits.includes(limit)))
            .filter((group) => group.length > 0),
        }),
      }),
    ),
  ),
}
