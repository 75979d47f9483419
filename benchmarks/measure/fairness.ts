/**
 * Fairness between accounts: 100 messages of one account behind a long backlog of another, 50 accounts
 * that all wait, and webhooks of other accounts beside 40 endpoints that never answer. The operator
 * simulator is the SMSC. It throttles above the rate with the backlog; for the 50 accounts, the
 * dispatcher is configured with the rate.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { jainIndex } from '@hub/dispatcher'
import { encodeId, type MessageAccepted } from '@hub/domain'
import { randomUUID } from 'node:crypto'
import type { Chart } from '../pages/chart.ts'
import {
  type DispatchEnvironment,
  makeDispatchEnvironment,
  type Servers,
} from '../loads/dispatch-environment.ts'
import { latencyText, median } from './numbers.ts'
import { cpuWithChildrenMs, residentMiB } from './process-usage.ts'
import { type Section, target } from '../pages/results.ts'
import { type Measured, onStack, planOf, type SectionBenchmark } from './section.ts'
import { startSmsc } from '../loads/smsc.ts'
import { besideHungEndpoints } from './webhook-fairness.ts'

interface FairnessPlan {
  /** Messages of the account with the long backlog. */
  readonly backlog: number
  /** Messages of another account, appended at once. */
  readonly others: number
  /** How often other accounts append them, one after the other. The median counts. */
  readonly rounds: number
  /** Parts per second at the operator. The dispatcher is restarted for each. */
  readonly rates: ReadonlyArray<number>
  readonly accounts: number
  readonly seconds: number
  /** Parts per second while all accounts wait. */
  readonly rate: number
}

/** The goals of docs/decisions/fairness.md. It takes about four minutes. */
const FULL_PLAN: FairnessPlan = {
  backlog: 1_000_000,
  others: 100,
  rounds: 3,
  rates: [10, 100, 1000],
  accounts: 50,
  seconds: 60,
  rate: 1000,
}

const PLAN: FairnessPlan = {
  ...FULL_PLAN,
  backlog: 150_000,
  rates: [100],
  seconds: 15,
}

/** One account with a long backlog, and another one. */
interface Behind {
  readonly rate: number
  /** From the append of the other account's messages until the operator has accepted all, ms, by round. */
  readonly rounds: ReadonlyArray<number>
  /** The same for messages that were appended before a start of the dispatcher, from its readiness. */
  readonly afterRestartMs: number
  /** Messages of the backlog that the operator accepted during the rounds. */
  readonly ofBacklog: number
}

const number = (i: number): string => `+79${String(100_000_000 + i)}`
const newAccount = (): string => encodeId('acc', randomUUID())
/** Messages per append, and appends at a time. */
const CHUNK = 1000
const APPENDS = 2
/** Messages with a valid payload: more than the operator accepts during the run. */
const READABLE = 30_000
/** What a chart shows before the other accounts append. */
const LEAD_MS = 5000
/** Messages that take longer count as this. */
const SENT_WITHIN_MS = 180_000

/** When the operator accepted each message: the time of its `MessageSent`, ms since the epoch. */
const followSent = (environment: DispatchEnvironment): ReadonlyMap<string, number> => {
  const sent = new Map<string, number>()
  environment.follow(environment.topics.messages, ({ occurredAt, type, value }) => {
    // The message id is the first field of a fact.
    if (type === 'MessageSent') sent.set(Buffer.from(value.subarray(6, 36)).toString('latin1'), occurredAt)
  })
  return sent
}

const until = async (condition: () => boolean, withinMs: number): Promise<void> => {
  const deadline = performance.now() + withinMs
  while (!condition() && performance.now() < deadline) await delay(10)
}

/** Appends `count` messages, as `make` returns them for the index. */
const fill = async (
  environment: DispatchEnvironment,
  count: number,
  make: (index: number) => MessageAccepted,
): Promise<void> => {
  let next = 0
  const append = async (): Promise<void> => {
    while (next < count) {
      const from = next
      next = Math.min(count, from + CHUNK)
      await environment.accept(Array.from({ length: next - from }, (_, n) => make(from + n)))
    }
  }
  await Promise.all(Array.from({ length: APPENDS }, append))
}

/** How many of these times are in each second from `from` on. */
const perSecond = (times: Iterable<number>, from: number, to: number): Chart['series'][number]['points'] => {
  const counts = Array.from({ length: Math.max(0, Math.floor((to - from) / 1000)) }, () => 0)
  for (const at of times) {
    const second = Math.floor((at - from) / 1000)
    if (second in counts) counts[second]!++
  }
  return counts.map((count, second) => [second, count] as const)
}

const behindBacklog = async (servers: Servers, plan: FairnessPlan, log: (line: string) => void) => {
  const environment = await makeDispatchEnvironment(servers, 6)
  const smsc = await startSmsc()
  let memory = 0
  let pid: number | null = null
  const watch = setInterval(() => {
    if (pid !== null) memory = Math.max(memory, residentMiB(pid) || 0)
  }, 100)
  try {
    await environment.markAllProjected()
    const sent = followSent(environment)
    let recipients = 800_000_000
    const ofOthers = new Set<string>()
    /** Appends messages of a new account. */
    const append = async (): Promise<ReadonlyArray<MessageAccepted>> => {
      const account = newAccount()
      const messages = Array.from({ length: plan.others }, () =>
        environment.message({ account, to: number(recipients++), class: 'service', mode: 'live' }),
      )
      for (const { messageId } of messages) ofOthers.add(messageId)
      await environment.accept(messages)
      return messages
    }
    /** When the operator has accepted all of them, ms since the epoch. */
    const allSentAt = async (messages: ReadonlyArray<MessageAccepted>): Promise<number> => {
      const from = Date.now()
      await until(() => messages.every(({ messageId }) => sent.has(messageId)), SENT_WITHIN_MS)
      return Math.max(...messages.map(({ messageId }) => sent.get(messageId) ?? from + SENT_WITHIN_MS))
    }
    const start = async (rate: number) => {
      await smsc.behave({ throttle_per_second: rate })
      const dispatcher = await environment.start('dispatcher', smsc.environment)
      pid = dispatcher.pid
      return dispatcher
    }
    const stop = async (dispatcher: Awaited<ReturnType<typeof start>>) => {
      pid = null
      await dispatcher.kill('SIGTERM')
    }

    const [firstRate = 100] = plan.rates
    let dispatcher = await start(firstRate)
    // The first message opens the bind.
    await allSentAt(await append())
    const aloneFrom = Date.now()
    const aloneMs = (await allSentAt(await append())) - aloneFrom
    const restMiB = memory

    const backlogAccount = newAccount()
    const filling = performance.now()
    await fill(environment, plan.backlog, (i) =>
      environment.message(
        { account: backlogAccount, to: number(i), class: 'service', mode: 'live' },
        i < READABLE,
      ),
    )
    const filledIn = (performance.now() - filling) / 1000
    log(`fairness: ${plan.backlog} messages of one account appended in ${filledIn.toFixed(1)} s`)

    const results: Array<Behind> = []
    let chart: Chart | null = null
    for (const [i, rate] of plan.rates.entries()) {
      if (i > 0) dispatcher = await start(rate)
      const rounds: Array<number> = []
      const begun: Array<number> = []
      let to = 0
      for (let round = 0; round < plan.rounds; round++) {
        // Only the backlog waits.
        await delay(1000)
        begun.push(Date.now())
        to = await allSentAt(await append())
        rounds.push(to - begun.at(-1)!)
      }
      const from = begun[0]!
      const ofBacklog = [...sent].filter(([id, at]) => !ofOthers.has(id) && at >= from && at <= to).length
      chart ??= {
        title: `Fairness: ${plan.others} messages behind ${plan.backlog} of another account`,
        unit: 'accepted by the operator per second',
        series: [
          {
            name: 'account with the backlog',
            points: perSecond(
              [...sent].filter(([id]) => !ofOthers.has(id)).map(([, at]) => at),
              from - LEAD_MS,
              to + 1000,
            ),
          },
          {
            name: 'other accounts, one after the other',
            points: perSecond(
              [...sent].filter(([id]) => ofOthers.has(id)).map(([, at]) => at),
              from - LEAD_MS,
              to + 1000,
            ),
          },
        ],
        marks: begun.map((at, round) => [(at - from + LEAD_MS) / 1000, `account ${round + 1}`] as const),
      }
      await stop(dispatcher)
      const before = await append()
      dispatcher = await start(rate)
      const readyAt = Date.now()
      const afterRestartMs = (await allSentAt(before)) - readyAt
      await stop(dispatcher)
      results.push({ rate, rounds, afterRestartMs, ofBacklog })
      log(
        `fairness: ${plan.others} messages behind the backlog at ${rate} parts/s: ${rounds.join(', ')} ms; after a restart ${afterRestartMs} ms; ${ofBacklog} of the backlog meanwhile`,
      )
    }
    return { results, memory, restMiB, aloneMs, firstRate, chart }
  } finally {
    clearInterval(watch)
    smsc.close()
    await environment.close()
  }
}

/** All accounts wait for the whole time. */
const amongAccounts = async (servers: Servers, { accounts, rate, seconds }: FairnessPlan) => {
  const environment = await makeDispatchEnvironment(servers, 6)
  const smsc = await startSmsc()
  try {
    await environment.markAllProjected()
    const sent = followSent(environment)
    const accountOf = new Map<string, number>()
    // Twice what each account gets. The campaigns are in the lane one after the other.
    const each = Math.ceil((2 * rate * seconds) / accounts / CHUNK) * CHUNK
    for (let i = 0; i < accounts; i++) {
      const account = newAccount()
      await fill(environment, each, (n) => {
        const message = environment.message({
          account,
          to: number(i * each + n),
          class: 'service',
          mode: 'live',
        })
        accountOf.set(message.messageId, i)
        return message
      })
    }
    const dispatcher = await environment.start('dispatcher', {
      ...smsc.environment,
      HUB_OPERATOR_SMPP_PARTS_PER_SECOND: String(rate),
    })
    await until(() => new Set([...sent.keys()].map((id) => accountOf.get(id))).size === accounts, 60_000)
    const from = Date.now()
    const cpuBefore = cpuWithChildrenMs(dispatcher.pid)
    await delay(seconds * 1000)
    const cpuMs = cpuWithChildrenMs(dispatcher.pid) - cpuBefore
    const ofSecond = Array.from({ length: seconds }, () => Array.from({ length: accounts }, () => 0))
    for (const [id, at] of sent) {
      const account = accountOf.get(id)
      const second = ofSecond[Math.floor((at - from) / 1000)]
      if (account !== undefined && second !== undefined) second[account]!++
    }
    const counts = Array.from({ length: accounts }, (_, account) =>
      ofSecond.reduce((sum, second) => sum + second[account]!, 0),
    )
    const line = (name: string, of: (second: ReadonlyArray<number>) => number) => ({
      name,
      points: ofSecond.map((second, i) => [i, of(second)] as const),
    })
    const chart: Chart = {
      title: `Fairness: ${accounts} accounts that all wait, ${rate} parts per second`,
      unit: 'accepted by the operator per second',
      series: [
        line('account with the most', (second) => Math.max(...second)),
        line('average', (second) => second.reduce((sum, count) => sum + count, 0) / accounts),
        line('account with the least', (second) => Math.min(...second)),
      ],
    }
    return {
      index: jainIndex(counts),
      perSecond: counts.reduce((sum, count) => sum + count, 0) / seconds,
      least: Math.min(...counts),
      most: Math.max(...counts),
      cores: cpuMs / (seconds * 1000),
      memory: residentMiB(dispatcher.pid),
      chart,
    }
  } finally {
    smsc.close()
    await environment.close()
  }
}

const inSeconds = (ms: number): string => (ms / 1000).toFixed(2)

const measureFairness = async (
  servers: Servers,
  log: (line: string) => void,
  plan: FairnessPlan,
): Promise<Measured> => {
  const behind = await behindBacklog(servers, plan, log)
  const among = await amongAccounts(servers, plan)
  log(
    `fairness: index ${among.index.toFixed(4)} of ${plan.accounts} accounts, ${among.perSecond.toFixed(0)}/s`,
  )
  const webhooks = await besideHungEndpoints(servers, log)
  const what = `${plan.others} messages behind ${plan.backlog} of another account`
  const memory = Math.max(behind.memory, among.memory)
  const hung = '40 hung endpoints of another account'
  const section: Section = {
    figures: {
      fairnessBacklog: plan.backlog,
      fairnessIndex: among.index,
      fairnessPerSecond: among.perSecond,
      fairnessCores: among.cores,
      fairnessMiB: memory,
      fairnessAtRestMiB: behind.restMiB,
      [`aloneAt${behind.firstRate}Ms`]: behind.aloneMs,
      ...Object.fromEntries(
        behind.results.map(({ rate, rounds }) => [`behindBacklogAt${rate}Ms`, median(rounds)]),
      ),
      webhookP50Ms: webhooks.without.deliveries.p50,
      webhookP99Ms: webhooks.without.deliveries.p99,
      webhookP50BesideHungMs: webhooks.beside.deliveries.p50,
      webhookP99BesideHungMs: webhooks.beside.deliveries.p99,
      testDeliveryP50Ms: webhooks.without.tests.p50,
      testDeliveryP50BesideHungMs: webhooks.beside.tests.p50,
    },
    rows: [
      [
        `${plan.others} messages without a backlog, ${behind.firstRate} parts/s`,
        `${(behind.aloneMs / 1000).toFixed(2)} s`,
        'for comparison',
      ],
      ...behind.results.map(({ afterRestartMs, ofBacklog, rate, rounds }): Section['rows'][number] => [
        `${what}, ${rate} parts/s`,
        `median ${inSeconds(median(rounds))} s of ${rounds.map(inSeconds).join(', ')}; ${(afterRestartMs / 1000).toFixed(2)} s after a restart of the dispatcher`,
        `${ofBacklog} of the backlog meanwhile`,
      ]),
      [
        'memory of the dispatcher with the backlog',
        `at most ${memory.toFixed(0)} MiB`,
        `${behind.restMiB.toFixed(0)} MiB before`,
      ],
      [
        `${plan.accounts} accounts that wait for ${plan.seconds} s`,
        `Jain's index ${among.index.toFixed(4)}; ${among.least} to ${among.most} messages for each`,
        `${among.perSecond.toFixed(0)} of ${plan.rate} parts/s, ${among.cores.toFixed(2)} cores of the dispatcher`,
      ],
      [
        'webhook dispatch of 100 accounts, 200 events/s',
        latencyText(webhooks.without.deliveries, 1),
        `${latencyText(webhooks.beside.deliveries, 1)} beside ${hung}`,
      ],
      [
        'test deliveries, from the request to the recorded attempt',
        `p50 ${webhooks.without.tests.p50.toFixed(0)} ms, slowest ${webhooks.without.slowestTest.toFixed(0)} ms`,
        `p50 ${webhooks.beside.tests.p50.toFixed(0)} ms, slowest ${webhooks.beside.slowestTest.toFixed(0)} ms beside ${hung}`,
      ],
    ],
    targets: [
      // Half of the rate belongs to the other account, and it may take twice the time.
      ...behind.results.map(({ rate, rounds }) =>
        target(
          `${what}, ${rate} parts/s, median of ${plan.rounds}, s`,
          median(rounds) / 1000,
          2 * (plan.others / (rate / 2)),
        ),
      ),
      target(`1 − Jain's index of ${plan.accounts} accounts over ${plan.seconds} s`, 1 - among.index, 0.05),
      target('memory of the dispatcher meanwhile, MiB', memory, 350),
      target(
        `webhook dispatch p99 beside ${hung} ÷ without`,
        webhooks.beside.deliveries.p99 / webhooks.without.deliveries.p99,
        2,
      ),
      target(`slowest test delivery beside ${hung}, s`, webhooks.beside.slowestTest / 1000, 1),
    ],
  }
  return { section, charts: [...(behind.chart === null ? [] : [behind.chart]), among.chart] }
}

export const fairness: SectionBenchmark = {
  name: 'fairness',
  what: 'accounts beside the backlog of another one; [full | messages of the backlog]',
  measure: onStack((servers, log, words) =>
    measureFairness(
      servers,
      log,
      planOf(words, {
        page: PLAN,
        full: FULL_PLAN,
        changed: (page, [backlog = page.backlog]) => ({ ...page, backlog }),
      }),
    ),
  ),
}
