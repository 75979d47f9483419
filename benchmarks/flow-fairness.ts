/**
 * Fairness between accounts: 100 messages of one account behind 1,000,000 of another, and 50 accounts
 * that all wait. The SMSC takes a fixed number of parts per second. Alone: `node scripts/run.mjs
 * benchmarks/flow-fairness.ts`.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { jainIndex } from '@hub/dispatcher'
import { encodeId, type MessageAccepted } from '@hub/domain'
import { randomUUID } from 'node:crypto'
import { startStack } from '../test/support/hub.ts'
import { type DispatchEnvironment, makeDispatchEnvironment, type Servers } from './dispatch-environment.ts'
import { residentMiB } from './process-usage.ts'
import { type Section, target } from './results.ts'
import { startSmsc } from './smsc.ts'

export interface FairnessPlan {
  /** Messages of the account with the long backlog. */
  readonly backlog: number
  /** Messages of the other account, appended at once. */
  readonly others: number
  /** Parts per second that the SMSC takes. The dispatcher is restarted for each. */
  readonly rates: ReadonlyArray<number>
  readonly accounts: number
  readonly seconds: number
  /** Parts per second while all accounts wait. */
  readonly rate: number
}

export const FAIRNESS_PLAN: FairnessPlan = {
  backlog: 1_000_000,
  others: 100,
  rates: [10, 100, 1000],
  accounts: 50,
  seconds: 60,
  rate: 1000,
}

/** One account with a long backlog, and another one. */
interface Behind {
  readonly rate: number
  /** From the append of the other account's messages until the operator has accepted all, ms. */
  readonly ms: number
  /** The same for messages that were appended before a start of the dispatcher, from its readiness. */
  readonly afterRestartMs: number
  /** Messages of the backlog that the operator accepted in the first of these times. */
  readonly ofBacklog: number
}

const number = (i: number): string => `+79${String(100_000_000 + i)}`
const newAccount = (): string => encodeId('acc', randomUUID())
/** Messages per append. */
const CHUNK = 1000
/** Messages with a valid payload: more than the operator accepts during the run. */
const READABLE = 100_000

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

const settings = (smsc: { readonly environment: Readonly<Record<string, string>> }, rate: number) => ({
  ...smsc.environment,
  HUB_OPERATOR_SMPP_PARTS_PER_SECOND: String(rate),
})

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
    const backlogAccount = newAccount()
    const backlogIds = new Set<string>()
    for (let i = 0; i < plan.backlog; i += CHUNK) {
      const messages = Array.from({ length: Math.min(CHUNK, plan.backlog - i) }, (_, n) =>
        environment.message(
          { account: backlogAccount, to: number(i + n), class: 'service', mode: 'live' },
          i + n < READABLE,
        ),
      )
      if (i < READABLE) for (const { messageId } of messages) backlogIds.add(messageId)
      await environment.accept(messages)
    }
    log(`fairness: ${plan.backlog} messages of one account wait`)

    /** Appends messages of a new account. */
    const append = async (): Promise<ReadonlyArray<MessageAccepted>> => {
      const account = newAccount()
      const messages = Array.from({ length: plan.others }, (_, i) =>
        environment.message({ account, to: number(900_000_000 + i), class: 'service', mode: 'live' }),
      )
      await environment.accept(messages)
      return messages
    }
    const allSentAt = async (messages: ReadonlyArray<MessageAccepted>): Promise<number> => {
      await until(() => messages.every(({ messageId }) => sent.has(messageId)), 180_000)
      return Math.max(...messages.map(({ messageId }) => sent.get(messageId) ?? Number.POSITIVE_INFINITY))
    }

    const results: Array<Behind> = []
    for (const rate of plan.rates) {
      const before = await append()
      const dispatcher = await environment.start('dispatcher', settings(smsc, rate))
      const readyAt = Date.now()
      pid = dispatcher.pid
      const afterRestartMs = (await allSentAt(before)) - readyAt
      // The next messages have a full second of the rate to themselves.
      await delay(2000)
      const from = Date.now()
      const to = await allSentAt(await append())
      const ofBacklog = [...sent].filter(([id, at]) => backlogIds.has(id) && at >= from && at <= to).length
      results.push({ rate, ms: to - from, afterRestartMs, ofBacklog })
      log(
        `fairness: ${plan.others} messages behind the backlog at ${rate} parts/s: ${to - from} ms; after a restart ${afterRestartMs} ms; ${ofBacklog} of the backlog meanwhile`,
      )
      pid = null
      await dispatcher.kill('SIGTERM')
    }
    return { results, memory }
  } finally {
    clearInterval(watch)
    smsc.close()
    await environment.close()
  }
}

/** All accounts wait. Their campaigns are in the lane one after the other. */
const amongAccounts = async (servers: Servers, { accounts, rate, seconds }: FairnessPlan) => {
  const environment = await makeDispatchEnvironment(servers, 6)
  const smsc = await startSmsc()
  try {
    await environment.markAllProjected()
    const sent = followSent(environment)
    const accountOf = new Map<string, number>()
    // Twice what each account gets.
    const each = Math.ceil((2 * rate * seconds) / accounts / CHUNK) * CHUNK
    for (let i = 0; i < accounts; i++) {
      const account = newAccount()
      for (let from = 0; from < each; from += CHUNK) {
        const messages = Array.from({ length: CHUNK }, (_, n) =>
          environment.message({
            account,
            to: number(i * each + from + n),
            class: 'service',
            mode: 'live',
          }),
        )
        for (const { messageId } of messages) accountOf.set(messageId, i)
        await environment.accept(messages)
      }
    }
    const dispatcher = await environment.start('dispatcher', settings(smsc, rate))
    await until(() => new Set([...sent.keys()].map((id) => accountOf.get(id))).size === accounts, 60_000)
    const from = Date.now()
    await delay(seconds * 1000)
    const counts = Array.from({ length: accounts }, () => 0)
    for (const [id, at] of sent) {
      const account = accountOf.get(id)
      if (account !== undefined && at >= from && at < from + seconds * 1000) counts[account]!++
    }
    return {
      index: jainIndex(counts),
      perSecond: counts.reduce((sum, count) => sum + count, 0) / seconds,
      memory: residentMiB(dispatcher.pid),
    }
  } finally {
    smsc.close()
    await environment.close()
  }
}

export const measureFairness = async (
  servers: Servers,
  log: (line: string) => void,
  plan: FairnessPlan = FAIRNESS_PLAN,
): Promise<Section> => {
  const behind = await behindBacklog(servers, plan, log)
  const among = await amongAccounts(servers, plan)
  log(
    `fairness: index ${among.index.toFixed(4)} of ${plan.accounts} accounts, ${among.perSecond.toFixed(0)}/s`,
  )
  const what = `${plan.others} messages behind ${plan.backlog} of another account`
  return {
    figures: {
      fairnessIndex: among.index,
      fairnessPerSecond: among.perSecond,
      fairnessMiB: Math.max(behind.memory, among.memory),
      ...Object.fromEntries(behind.results.map(({ ms, rate }) => [`behindBacklogAt${rate}Ms`, ms])),
    },
    rows: [
      ...behind.results.map(({ afterRestartMs, ms, ofBacklog, rate }): Section['rows'][number] => [
        `${what}, ${rate} parts/s`,
        `${(ms / 1000).toFixed(2)} s; ${(afterRestartMs / 1000).toFixed(2)} s after a restart of the dispatcher`,
        `${ofBacklog} of the backlog meanwhile`,
      ]),
      [
        `${plan.accounts} accounts that wait for ${plan.seconds} s`,
        `Jain's index ${among.index.toFixed(4)}`,
        `${among.perSecond.toFixed(0)} of ${plan.rate} parts/s`,
      ],
    ],
    targets: [
      // Half of the rate belongs to the other account, and it may take twice the time.
      ...behind.results.map(({ ms, rate }) =>
        target(`${what}, ${rate} parts/s, s`, ms / 1000, 2 * (plan.others / (rate / 2))),
      ),
      target(`1 − Jain's index of ${plan.accounts} accounts over ${plan.seconds} s`, 1 - among.index, 0.05),
      target('memory of the dispatcher meanwhile, MiB', Math.max(behind.memory, among.memory), 350),
    ],
  }
}

if (import.meta.main) {
  const [backlog = FAIRNESS_PLAN.backlog] = process.argv.slice(2).map(Number)
  const stack = await startStack()
  try {
    const servers = { brokers: stack.brokers, databaseUrl: stack.adminDatabaseUrl }
    const section = await measureFairness(servers, (line) => console.log(line), { ...FAIRNESS_PLAN, backlog })
    console.table(section.rows)
    console.table(section.targets)
  } finally {
    await stack.stop()
  }
}
