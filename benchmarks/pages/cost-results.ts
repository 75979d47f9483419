/** The shape of `cost.json`: what `npm run bench -- cost` measured. */
import type { ChartFile } from './chart-files.ts'
import type { Conditions } from '../measure/conditions.ts'
import type { Latencies } from '../measure/numbers.ts'

/** The processes whose CPU time counts to a message: the apps of the hub and its servers. */
export const COUNTED = [
  'command-api',
  'dispatcher',
  'projector',
  'webhook-fanout',
  'kafka',
  'postgres',
  'redis',
] as const
/** The other processes of a local hub. Messages do not need them. */
export const NOT_COUNTED = ['operations-api', 'operator-simulator', 'supervisor'] as const
export const PROCESSES = [...COUNTED, ...NOT_COUNTED] as const
export type ProcessName = (typeof PROCESSES)[number]
export type ByProcess<A> = Readonly<Record<ProcessName, A>>

/** The loads, in the order in which they run. */
export const LOADS = ['idle', '20', '200', 'one', '64', 'batches', 'webhooks'] as const
export type LoadName = (typeof LOADS)[number]

/** One repetition of a load: from its first send until its last event is in the event journal. */
export interface Repetition {
  /** The accepted messages. */
  readonly messages: number
  readonly seconds: number
  readonly cpuMs: ByProcess<number>
  /** Bytes that the load added. */
  readonly bytes: {
    /** Tables and indexes of PostgreSQL. */
    readonly tables: number
    /** Write-ahead log of PostgreSQL. */
    readonly log: number
    /** One copy of the topics of the hub. */
    readonly topics: number
  }
  /** By what was measured. ms. */
  readonly latencies: Readonly<Record<string, Latencies>>
}

export interface CostRun extends Conditions {
  readonly seconds: number
  readonly loads: Readonly<Record<LoadName, ReadonlyArray<Repetition>>>
  /** Resident memory, where shared pages are divided among their processes, MiB. */
  readonly memory: {
    /** Before the first message. */
    readonly idle: ByProcess<number>
    /** The largest values directly after a repetition of a load. */
    readonly loaded: ByProcess<number>
  }
}

export interface CostResults extends CostRun {
  /** Partitions of each topic. */
  readonly partitions: number
  readonly charts: ReadonlyArray<ChartFile>
  /** The run before, if it measured the same commit. */
  readonly earlier: CostRun | null
}

/** The cost with few and with many of something. */
export interface GrowthCosts {
  readonly what: string
  readonly few: number
  readonly many: number
  /** Of each repetition: µs of CPU time per message; of an idle hub % of a core. */
  readonly costs: { readonly few: ReadonlyArray<number>; readonly many: ReadonlyArray<number> }
}

/** The same, with the run that measured it. */
export interface GrowthRow extends GrowthCosts, Conditions {
  readonly seconds: number
}

/** The shape of `growth.json`: what `npm run bench -- growth` measured, in one run or in several. */
export interface GrowthResults {
  readonly rows: ReadonlyArray<GrowthRow>
}
