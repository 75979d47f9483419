/**
 * Sends to a command-api whose Redis, PostgreSQL or Kafka answers later by a fixed delay: how many sends
 * are accepted, how long it takes, and how the others are refused. Then the delay ends.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type FaultProxy, faultProxy } from '@hub/testkit'
import { Effect, Exit, Scope } from 'effect'
import { startHub, type TestStack } from '../../test/support/hub.ts'
import type { Chart } from '../pages/chart.ts'
import { startScript } from '../loads/child-process.ts'
import type { LoadPlan, LoadResult } from '../loads/load-generator.ts'
import { latencyText } from './numbers.ts'
import { type Section, target } from '../pages/results.ts'
import { type Measured, onStack, planOf, type SectionBenchmark } from './section.ts'

interface DependenciesPlan {
  /** Added to each answer of a server, ms. */
  readonly delaysMs: ReadonlyArray<number>
  /** Of a run. There is a run for each server and delay. */
  readonly seconds: number
  /** Single sends per second, half of them codes. */
  readonly rate: number
}

const PLAN: DependenciesPlan = { delaysMs: [50, 200, 500, 1000], seconds: 2, rate: 400 }

const SERVERS = ['Redis', 'PostgreSQL', 'Kafka'] as const
type Server = (typeof SERVERS)[number]

/** More than wait at any time: the load generator must not be the limit. */
const CONNECTIONS = 3000
/** With delays up to this one nearly all sends are accepted. Source: docs/operating.md, Slow servers. */
const WORKS_UP_TO_MS = 200
const MAX_REFUSED = 0.02
/** What a client may repeat. Every other refusal is final. */
const TEMPORARY: ReadonlySet<string> = new Set([
  '503 internal_error',
  '503 provider_unavailable',
  '503 overloaded',
])

interface Run {
  readonly server: Server
  /** 0: after all delays. */
  readonly delayMs: number
  /** Milliseconds, on the clock of this process. */
  readonly startedAt: number
  readonly load: LoadResult
}

const total = (outcomes: LoadResult['outcomes'], isCounted: (outcome: string) => boolean): number =>
  Object.entries(outcomes).reduce((sum, [outcome, count]) => sum + (isCounted(outcome) ? count : 0), 0)

const refusedForNow = ({ outcomes }: LoadResult): number =>
  total(outcomes, (outcome) => TEMPORARY.has(outcome))

const refusedForGood = ({ outcomes }: LoadResult): number =>
  total(outcomes, (outcome) => outcome !== 'accepted' && !TEMPORARY.has(outcome))

const outcomeText = ({ outcomes }: LoadResult): string =>
  Object.entries(outcomes)
    .map(([outcome, count]) => `${count} ${outcome}`)
    .join(', ')

const nameOf = ({ delayMs, server }: Pick<Run, 'server' | 'delayMs'>): string =>
  delayMs === 0 ? `${server}, after the delays` : `${server} answers ${delayMs} ms later`

/** Answers per second over time. */
const chartOf = (server: Server, runs: ReadonlyArray<Run>): Chart => {
  const from = runs[0]?.startedAt ?? 0
  const secondsOf = ({ startedAt }: Run): number => (startedAt - from) / 1000
  const points = (kind: 'accepted' | 'others') =>
    runs.flatMap((run) =>
      run.load.timeline.map((answers, second): [number, number] => [secondsOf(run) + second, answers[kind]]),
    )
  return {
    title: `Sends while ${server} answers late`,
    unit: 'answers per second',
    series: [
      { name: 'accepted', points: points('accepted') },
      { name: 'refused', points: points('others') },
    ],
    marks: runs.map((run) => [secondsOf(run), run.delayMs === 0 ? 'no delay' : `${run.delayMs} ms`]),
  }
}

const measureDependencies = async (
  stack: TestStack,
  log: (line: string) => void,
  { delaysMs, rate, seconds }: DependenciesPlan,
): Promise<Measured> => {
  const scope = Effect.runSync(Scope.make())
  const proxyTo = (url: string) => Effect.runPromise(Scope.provide(faultProxy(url), scope))
  const proxies: Readonly<Record<Server, FaultProxy>> = {
    Redis: await proxyTo(stack.redisUrl),
    PostgreSQL: await proxyTo(stack.databaseUrl),
    Kafka: await proxyTo(`tcp://${stack.brokers[0]}`),
  }
  const broker = new URL(`tcp://${stack.brokers[0]}`).port
  const preload = new URL('../loads/kafka-through-proxy.mjs', import.meta.url).href
  const hub = await startHub({
    servers: { ...stack, databaseUrl: proxies.PostgreSQL.url, redisUrl: proxies.Redis.url },
    environment: {
      NODE_OPTIONS: `--import ${preload}`,
      BENCH_KAFKA_PROXY: `${broker}:${proxies.Kafka.port}`,
    },
    // The other apps would take their share of the machine.
    apps: ['command-api'],
    apiRps: 1_000_000,
  })
  try {
    const { base_url: baseUrl, keys } = hub.describe()
    /** Ends when all sends are answered. */
    const send = async (): Promise<LoadResult> => {
      const plan: LoadPlan = {
        baseUrl,
        key: keys.live,
        connections: CONNECTIONS,
        rate,
        durationMs: seconds * 1000,
        codes: true,
        run: randomBytes(3).toString('hex'),
      }
      return (await startScript<LoadResult>('load-generator.ts', plan)).first
    }
    await send()
    const without = await send()
    log(`dependencies: no delay: ${latencyText(without)}; ${outcomeText(without)}`)
    const runs: Array<Run> = []
    for (const server of SERVERS) {
      for (const delayMs of [...delaysMs, 0]) {
        const acceptedBefore = proxies[server].accepted()
        proxies[server].delay(delayMs, 'to client')
        // Answers that the proxy has already received still arrive late.
        if (delayMs === 0) await delay(Math.max(...delaysMs))
        const startedAt = performance.now()
        const run: Run = { server, delayMs, startedAt, load: await send() }
        runs.push(run)
        const opened = proxies[server].accepted() - acceptedBefore
        log(
          `dependencies: ${nameOf(run)}: ${latencyText(run.load)}; ${outcomeText(run.load)}; ${opened} new connections`,
        )
      }
    }
    const perSecond = ({ accepted }: LoadResult): number => accepted / seconds
    const rowOf = (name: string, load: LoadResult): Section['rows'][number] => [
      name,
      `${perSecond(load).toFixed(0)} accepted/s; ${latencyText(load)}`,
      `${refusedForNow(load)} refused for now, ${refusedForGood(load)} for good; ${(load.accepted / without.accepted).toFixed(2)} × no delay`,
    ]
    const section: Section = {
      figures: Object.fromEntries(
        [{ server: 'none', delayMs: 0, load: without }, ...runs].flatMap(({ delayMs, load, server }) => {
          const name = server === 'none' ? 'noDelay' : `${server}.${delayMs}`
          return [
            [`${name}.acceptedPerSecond`, perSecond(load)],
            [`${name}.refusedForNow`, refusedForNow(load)],
            [`${name}.refusedForGood`, refusedForGood(load)],
            [`${name}.p50Ms`, load.p50],
            [`${name}.p99Ms`, load.p99],
          ]
        }),
      ),
      rows: [rowOf(`no delay, ${rate} sends/s`, without), ...runs.map((run) => rowOf(nameOf(run), run.load))],
      targets: [
        target(
          'sends that were refused for good because of a delay',
          runs.reduce((sum, { load }) => sum + refusedForGood(load), 0),
          0,
        ),
        ...runs
          .filter(({ delayMs }) => delayMs <= WORKS_UP_TO_MS)
          .map((run) =>
            target(
              `${nameOf(run)}: share that was not accepted`,
              1 - run.load.accepted / total(run.load.outcomes, () => true),
              run.delayMs === 0 ? 0 : MAX_REFUSED,
            ),
          ),
      ],
    }
    const charts = SERVERS.map((server) =>
      chartOf(
        server,
        runs.filter((run) => run.server === server),
      ),
    )
    return { section, charts }
  } finally {
    await hub.stop()
    await Effect.runPromise(Scope.close(scope, Exit.void))
  }
}

export const dependencies: SectionBenchmark = {
  name: 'dependencies',
  what: 'sends while Redis, PostgreSQL or Kafka answers late; [full | seconds for each delay]',
  measure: onStack((stack, log, words) =>
    measureDependencies(
      stack,
      log,
      planOf(words, {
        page: PLAN,
        full: { ...PLAN, seconds: 4 },
        changed: (page, [seconds = page.seconds]) => ({ ...page, seconds }),
      }),
    ),
  ),
}
