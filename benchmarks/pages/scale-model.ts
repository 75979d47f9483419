/**
 * The scale model of `docs/capacity.md`: what a hub needs for a rate, calculated from the cost of a message.
 * Pure.
 */
import { costOf } from './cost-page.ts'
import type { CostResults, ProcessName } from './cost-results.ts'
import { median } from '../measure/numbers.ts'

/** Messages per second at the peak. */
export const RATES = [1000, 10_000, 100_000] as const

/** What the model assumes. The page lists it. */
export const ASSUMPTIONS = {
  /** The share of a core that a plan may use at the peak. The rest is for failures and restarts. */
  used: 0.6,
  /** Copies of each topic. */
  copies: 3,
  /** What a follower costs, as a share of what the leader of a partition costs: it only copies. */
  follower: 0.5,
  /** Messages per second of a shard: half of what one carried beside five others on two cores. */
  shard: 200,
  /** Of the month's average, at the peak of the day. */
  peakOverAverage: 3,
  /** MB of write-ahead log that one PostgreSQL server writes and sends to a standby in a second. */
  logMBPerSecond: 200,
  /** Cores of the largest PostgreSQL server in the plan. */
  postgresCores: 32,
  brokerCores: 8,
  /** Prices per month, USD: a core with 4 GB of memory, and a GB of replicated SSD. */
  core: 35,
  gigabyte: 0.1,
} as const

export interface Sizing {
  readonly rate: number
  /** Cores at the peak, before the reserve. */
  readonly used: Readonly<Record<ProcessName, number>>
  /** Processes of the apps, and cores for each. */
  readonly processes: Readonly<Record<'command-api' | 'dispatcher' | 'projector' | 'webhook-fanout', number>>
  readonly partitions: number
  readonly brokers: number
  readonly brokerCores: number
  readonly postgresServers: number
  readonly postgresCores: number
  /** MB per second, over all servers. */
  readonly logMBPerSecond: number
  /** TB that the messages of a month add to PostgreSQL, and to one copy of the topics. */
  readonly tablesTBPerMonth: number
  readonly topicsTBPerMonth: number
  readonly messagesPerMonth: number
  /** Cores of everything, with the reserve. */
  readonly cores: number
  /** USD per month: cores, and one month of messages on disk. */
  readonly computePrice: number
  readonly diskPrice: number
}

const APPS = ['command-api', 'dispatcher', 'projector', 'webhook-fanout'] as const
const SECONDS_PER_MONTH = 30 * 86_400

const roundUp = (value: number, to: readonly number[]): number => to.find((one) => one >= value) ?? value

/** What a hub needs for this rate of single sends, by the cost of a message with 64 connections. */
export const sizingOf = ({ loads }: Pick<CostResults, 'loads'>, rate: number): Sizing => {
  const cost = (name: ProcessName): number => median(loads['64'].map((one) => costOf(one, name)))
  const perMessage = (of: 'tables' | 'topics' | 'log'): number =>
    median(loads['64'].map((one) => one.bytes[of] / one.messages))
  const names: ReadonlyArray<ProcessName> = [...APPS, 'kafka', 'postgres', 'redis']
  const used = Object.fromEntries(names.map((name) => [name, (rate * cost(name)) / 1e6])) as Record<
    ProcessName,
    number
  >
  // Each app has two processes at least, so that one may fail. A process uses one core.
  const processes = Object.fromEntries(
    APPS.map((name) => [name, Math.max(2, Math.ceil(used[name] / ASSUMPTIONS.used))]),
  ) as Sizing['processes']
  const allCopies = used.kafka * (1 + (ASSUMPTIONS.copies - 1) * ASSUMPTIONS.follower)
  const brokers = Math.max(
    ASSUMPTIONS.copies,
    Math.ceil(allCopies / ASSUMPTIONS.used / ASSUMPTIONS.brokerCores),
  )
  const brokerCores = Math.max(2, Math.ceil(allCopies / ASSUMPTIONS.used / brokers))
  const logMBPerSecond = (rate * perMessage('log')) / 1e6
  const postgresServers = Math.max(
    Math.ceil(logMBPerSecond / ASSUMPTIONS.logMBPerSecond),
    Math.ceil(used.postgres / ASSUMPTIONS.used / ASSUMPTIONS.postgresCores),
  )
  const postgresCores = Math.max(2, Math.ceil(used.postgres / ASSUMPTIONS.used / postgresServers))
  const messagesPerMonth = (rate / ASSUMPTIONS.peakOverAverage) * SECONDS_PER_MONTH
  const tablesTBPerMonth = (messagesPerMonth * perMessage('tables')) / 1e12
  const topicsTBPerMonth = (messagesPerMonth * perMessage('topics')) / 1e12
  const appCores = APPS.reduce((sum, name) => sum + processes[name], 0)
  const redisCores = Math.max(1, Math.ceil(used.redis / ASSUMPTIONS.used))
  // A standby of each PostgreSQL and of Redis.
  const cores = appCores + brokers * brokerCores + 2 * postgresServers * postgresCores + 2 * redisCores
  const gigabytes = 1000 * (2 * tablesTBPerMonth + ASSUMPTIONS.copies * topicsTBPerMonth)
  return {
    rate,
    used,
    processes,
    partitions: roundUp(rate / ASSUMPTIONS.shard, [48, 96, 192, 384, 768]),
    brokers,
    brokerCores,
    postgresServers,
    postgresCores,
    logMBPerSecond,
    tablesTBPerMonth,
    topicsTBPerMonth,
    messagesPerMonth,
    cores,
    computePrice: cores * ASSUMPTIONS.core,
    diskPrice: gigabytes * ASSUMPTIONS.gigabyte,
  }
}
