/** One run: starts the hub, sends under faults, waits until all is done, and judges the history. */
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { SHORTEST_LIFETIME_SECONDS } from '@hub/config'
import { eventually } from '@hub/testkit'
import { makeHubAdmin } from '../support/hub-admin.ts'
import { ACCOUNTS, amountOf, type RunAccount } from './accounts.ts'
import { type Api, openApi } from './api.ts'
import { checkHistory } from './checker/check.ts'
import type { Entry, MessageClass } from './checker/history.ts'
import { readHistory } from './checker/read-history.ts'
import { type Cluster, removeCluster, startCluster } from './cluster.ts'
import { startCpuProfile } from './cpu-profile.ts'
import { runFaults } from './faults.ts'
import { type Load, startLoad } from './load.ts'
import { PASSWORD, startOperator, SYSTEM_ID, type TestOperator } from './operator.ts'
import { commandOf, type RunOptions } from './options.ts'
import { type RunResult, writePage } from './page.ts'
import { type Followers, followEvents, hasOpenMessages, readEverything } from './readers.ts'
import { type Receivers, startReceivers } from './receivers.ts'
import { openRecorder, type Recorder } from './recorder.ts'
import { planFaults, shortening } from './schedule.ts'

/**
 * Short, so that a run can wait for each final status: the longest is a message that is submitted at
 * the end of its lifetime, and gets no report. Short runs have shorter ones, as they have shorter
 * faults. The report deadlines are the same.
 */
const LIFETIME_SECONDS = { otp: 60, service: 90 } as const

/** The lifetime of a class in a run of so many seconds, in seconds. */
const lifetimeOf = (messageClass: MessageClass, seconds: number): number =>
  Math.max(SHORTEST_LIFETIME_SECONDS, Math.round(LIFETIME_SECONDS[messageClass] * shortening(seconds)))

/** All messages are final, at the latest: twice the deadlines, because a busy machine has a backlog. */
const SETTLE_WITHIN_MS = 360_000
/** All webhooks are delivered: a receiver that hung gets its batches again after one or two minutes. */
const WEBHOOKS_WITHIN_MS = 240_000
const CHECK_EVERY_MS = 1000
/** Before, the rate rises and new processes compile their code. In short runs, a quarter of the load. */
const PROFILE_AFTER_SECONDS = 15
const OPT_OUT_WITHIN_MS = 60_000
const OPT_OUT_SENDS_EVERY_MS = 6000

const createAccounts = async (
  cluster: Cluster,
  api: Api,
  receivers: Receivers,
): Promise<ReadonlyArray<RunAccount>> => {
  const admin = makeHubAdmin({ describe: cluster.hub.describe, dataDir: cluster.dataDir })
  try {
    const accounts: Array<RunAccount> = []
    for (const limits of ACCOUNTS) {
      const { keys } = await admin.createAccount({
        live: {
          spend_limit: amountOf(limits.spendLimit),
          price_otp: amountOf(limits.prices.otp),
          price_service: amountOf(limits.prices.service),
          flood_pause_seconds: limits.pauseSeconds,
          flood_per_hour: limits.perHour,
        },
      })
      for (const subscription of limits.subscriptions) {
        const request = { withinMs: 60_000, idempotencyKey: `${limits.name}-${subscription}` }
        // A hub that has just started on a busy machine may answer 503.
        const body = await eventually(async () => {
          const url = receivers.url(subscription)
          const answer = await api.post(keys.live, '/v1/webhook_endpoints', { url }, request)
          if (answer.status !== 201)
            throw new Error(`POST /v1/webhook_endpoints returned status ${answer.status}`)
          return answer.body
        })
        receivers.expectFrom(limits.name, subscription, body.secret)
      }
      accounts.push({ ...limits, key: keys.live })
    }
    return accounts
  } finally {
    await admin.close()
  }
}

interface Parts {
  readonly account: RunAccount
  readonly load: Load
  readonly operator: TestOperator
  readonly followers: Followers
  readonly recorder: Recorder
  readonly signal: AbortSignal
}

/** A recipient answers STOP, and the account continues to send. */
const optOut = async ({ account, followers, load, operator, recorder, signal }: Parts): Promise<void> => {
  const number = '+79330000001'
  if ((await load.sendOne({ account, class: 'service', number })) === null) return
  const happens = (what: () => boolean): Promise<boolean> =>
    eventually(what, { withinMs: OPT_OUT_WITHIN_MS, everyMs: 200 }).catch(() => false)
  // Nobody answers a message before it came. The hub does not know whom such an answer is for.
  if (!(await happens(() => operator.hasMessageFor(number)))) return
  operator.receive(number, 'STOP')
  if (!(await happens(() => followers.optOuts() > 0))) return
  recorder.record({ kind: 'opt-out', number, appliedBy: Date.now() })
  while (!signal.aborted) {
    await load.sendOne({ account, class: 'service', number })
    await delay(OPT_OUT_SENDS_EVERY_MS, undefined, { signal }).catch(() => {})
  }
}

/** Waits until nothing is left. At its bound it notes what is left. */
const settle = async (
  what: string,
  withinMs: number,
  left: () => number | Promise<number>,
  unsettled: Array<string>,
  signal: AbortSignal,
): Promise<void> => {
  const deadline = performance.now() + withinMs
  for (;;) {
    const count = await left()
    if (count === 0) return
    if (performance.now() > deadline) {
      unsettled.push(`${count} ${what} after ${withinMs / 1000} s`)
      return
    }
    await delay(CHECK_EVERY_MS, undefined, { signal })
  }
}

/**
 * How many messages and accounts will change: a late report will make a message delivered, or a charge is due.
 * `isReported` gets the reference of a message that has one part.
 */
const changes = (
  entries: ReadonlyArray<Entry>,
  isReported: (ref: string) => boolean,
  accepted: ReadonlyMap<string, string>,
): number => {
  const finals = entries.filter((entry) => entry.kind === 'final')
  const late = finals.filter(
    ({ clientRef, id, parts, reason }) =>
      reason === 'dlr_timeout_local' && parts === 1 && isReported(clientRef ?? accepted.get(id) ?? ''),
  )
  const costs = new Map<string, number>()
  for (const { account, price } of finals) costs.set(account, (costs.get(account) ?? 0) + price)
  const uncharged = entries.filter(
    (entry) => entry.kind === 'account' && entry.spent !== (costs.get(entry.account) ?? 0),
  )
  return late.length + uncharged.length
}

/** The file of the recorded history. */
const HISTORY = 'history.jsonl'

export interface Run {
  readonly result: RunResult
  readonly page: string
}

/** Keeps the recorded history and the logs. A run that failed early has no logs. */
const keepFiles = (dir: string, out: string, seed: number): void => {
  cpSync(join(dir, HISTORY), join(out, `run-${seed}.jsonl`))
  for (const part of ['servers', 'hub']) {
    const logs = join(dir, part, 'logs')
    const kept = join(out, `run-${seed}-logs`, part)
    if (existsSync(logs)) cpSync(logs, kept, { recursive: true, force: true })
  }
}

/** Makes a run and writes its page. Removes all of its processes and files, also if it fails. */
export const makeRun = async (
  options: RunOptions,
  report: (line: string) => void,
  signal: AbortSignal,
): Promise<Run> => {
  const { out, rate, seconds, seed } = options
  const lifetimeMs = {
    otp: 1000 * lifetimeOf('otp', seconds),
    service: 1000 * lifetimeOf('service', seconds),
  }
  mkdirSync(out, { recursive: true })
  const parent = process.env['HUB_TEST_DIR'] ?? tmpdir()
  mkdirSync(parent, { recursive: true })
  const dir = mkdtempSync(join(parent, 'histories-'))
  // If this runs as root, PostgreSQL runs as another user.
  chmodSync(dir, 0o755)
  const cleanUp = (): void => {
    removeCluster(dir)
    rmSync(dir, { recursive: true, force: true })
  }
  process.once('exit', cleanUp)
  const path = join(dir, HISTORY)
  const recorder = openRecorder(path)
  const closing: Array<() => Promise<unknown>> = []
  let isViolated = true
  try {
    const operator = await startOperator(recorder)
    closing.push(operator.stop)
    const receivers = await startReceivers(recorder)
    closing.push(receivers.close)
    const cluster = await startCluster({
      dir,
      operatorPort: operator.port,
      operator: { systemId: SYSTEM_ID, password: PASSWORD },
      environment: {
        HUB_LIFETIME_OTP_SECONDS: String(lifetimeMs.otp / 1000),
        HUB_REPORT_DEADLINE_OTP_SECONDS: String(lifetimeMs.otp / 1000),
        HUB_LIFETIME_SERVICE_SECONDS: String(lifetimeMs.service / 1000),
        HUB_REPORT_DEADLINE_SERVICE_SECONDS: String(lifetimeMs.service / 1000),
        ...receivers.environment,
      },
      report,
      signal,
    })
    closing.push(cluster.stop)
    const api = openApi(cluster.addresses)
    closing.push(api.close)
    const accounts = await createAccounts(cluster, api, receivers)

    const began = Date.now()
    recorder.record({
      kind: 'run',
      at: began,
      seed,
      rate,
      seconds,
      accounts: ACCOUNTS,
      lifetimeMs,
    })
    const followers = followEvents({ api, recorder, accounts })
    closing.push(followers.stop)
    const load = startLoad({ api, recorder, accounts, seed, rate })
    closing.push(load.abandon)
    const loading = new AbortController()
    const both = AbortSignal.any([loading.signal, signal])
    const optingOut = optOut({ account: accounts.at(-1)!, load, operator, followers, recorder, signal: both })
    const faults = runFaults(
      planFaults(seed, seconds, options.faults),
      { cluster, operator, receivers, recorder, rate, report },
      began,
      signal,
    )
    // It is awaited below. A failure ends the run.
    faults.catch(() => {})
    const untilSecond = async (second: number): Promise<void> => {
      while (Date.now() - began < 1000 * second && recorder.bytes() < options.maxBytes) {
        await delay(CHECK_EVERY_MS, undefined, { signal })
      }
    }
    await untilSecond(Math.min(PROFILE_AFTER_SECONDS, seconds / 4))
    const profiling = await startCpuProfile(cluster, () => load.accepted.size)
    const [skipped] = await Promise.all([faults, untilSecond(seconds)])
    const cpu = (await profiling?.stop()) ?? null
    if (recorder.bytes() >= options.maxBytes)
      report(`the recorded history has its largest size: the load ends early`)
    const loadSeconds = (Date.now() - began) / 1000
    loading.abort()
    await optingOut
    await load.stop()
    report(
      `${Math.round((Date.now() - began) / 1000)} s: the load has ended with ${load.accepted.size} accepted messages`,
    )

    const unsettled: Array<string> = []
    const open = (): number => {
      let count = 0
      for (const id of load.accepted.keys()) if (!followers.final.has(id)) count += 1
      for (const id of load.batches) if (!followers.final.has(id)) count += 1
      return count
    }
    await settle('messages or batches without a final event', SETTLE_WITHIN_MS, open, unsettled, signal)
    // A late report makes an expired message delivered.
    const reports = 'reports that the hub has not acknowledged'
    await settle(reports, SETTLE_WITHIN_MS, operator.unacknowledged, unsettled, signal)
    const reading = { api, recorder, accounts }
    const openLists = async (): Promise<number> => ((await hasOpenMessages(reading)) ? 1 : 0)
    await settle('list has messages without a final status', SETTLE_WITHIN_MS, openLists, unsettled, signal)
    await followers.stop()
    // The final reads. They are repeated while late reports and charges are not yet in the messages and accounts.
    let entries: Array<Entry> = []
    let journals: ReadonlyMap<string, ReadonlyArray<string>> = new Map()
    const isReported = (ref: string): boolean => {
      const number = load.onlyMessageTo(ref)
      return number !== null && operator.hasReported(number)
    }
    const changing = async (): Promise<number> => {
      entries = []
      journals = await readEverything({ api, accounts, recorder: { record: (entry) => entries.push(entry) } })
      return changes(entries, isReported, load.accepted)
    }
    await settle('messages or accounts still change', SETTLE_WITHIN_MS, changing, unsettled, signal)
    for (const entry of entries) recorder.record(entry)
    const missing = (): number => {
      let count = 0
      for (const { name, subscriptions } of accounts) {
        for (const subscription of subscriptions) {
          const confirmed = receivers.confirmed(subscription)
          for (const id of journals.get(name) ?? []) if (!confirmed.has(id)) count += 1
        }
      }
      return count
    }
    await settle('events not delivered to a subscription', WEBHOOKS_WITHIN_MS, missing, unsettled, signal)
    report(
      `${Math.round((Date.now() - began) / 1000)} s: judging the history of ${Math.round(recorder.bytes() / 1024 / 1024)} MB`,
    )
    closing.splice(closing.indexOf(operator.stop), 1)
    await operator.stop()
    recorder.record({ kind: 'end', at: Date.now(), unsettled })
    await recorder.close()
    // The processes are not needed any more, and the check needs memory.
    while (closing.length > 0) await closing.pop()!()

    const history = await readHistory(path)
    const verdict = checkHistory(history)
    isViolated = verdict.findings.length > 0
    const { due, leftOut } = load.statistics()
    const result: RunResult = {
      seed,
      rate,
      seconds,
      verdict,
      skipped,
      due,
      leftOut,
      acceptedPerSecond: verdict.counts.accepted / loadSeconds,
      cpu,
      unsettled,
      command: commandOf(options),
    }
    return { result, page: writePage(out, result, history) }
  } finally {
    while (closing.length > 0) await closing.pop()!().catch((error: unknown) => report(String(error)))
    await recorder.close().catch(() => {})
    if ((isViolated || options.keep) && !signal.aborted) keepFiles(dir, out, seed)
    process.removeListener('exit', cleanUp)
    cleanUp()
  }
}
