/** Measures the CPU time of each process of a run, so that its page shows what limits the rate. */
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { cpuWithChildrenMs } from '../../benchmarks/measure/process-usage.ts'
import { cpuMs, TICK_MS } from '../support/cpu-time.ts'
import type { Cluster } from './cluster.ts'

/** A process that is killed loses what it used since the last sample. A sample takes some milliseconds. */
const SAMPLE_EVERY_MS = 5000

export interface CpuProfile {
  readonly seconds: number
  /** Messages that were accepted meanwhile. */
  readonly messages: number
  /** CPU time by process or thread, ms. */
  readonly used: ReadonlyMap<string, number>
  readonly machine: {
    readonly cores: number
    /** All ms of all cores without work. */
    readonly idle: number
    /** The part of `idle` in which a process waited for a disk. */
    readonly waitsForDisk: number
    /** What processes used that do not belong to the run. */
    readonly others: number
  }
}

/** Work and idle time of all cores since the boot, ms. */
const machineTimes = (): { readonly busy: number; readonly idle: number; readonly waitsForDisk: number } => {
  const [user, nice, system, idle, waits, irq, softIrq] = readFileSync('/proc/stat', 'utf8')
    .split('\n', 1)[0]!
    .split(/\s+/u)
    .slice(1)
    .map((ticks) => Number(ticks) * TICK_MS) as [number, number, number, number, number, number, number]
  return { busy: user + nice + system + irq + softIrq, idle: idle + waits, waitsForDisk: waits }
}

/** CPU time of the threads of this process, ms. */
const ownTimes = async (cluster: Cluster): Promise<ReadonlyMap<string, number>> => {
  const ms = ({ system, user }: { readonly user: number; readonly system: number }): number =>
    (user + system) / 1000
  const all = ms(process.cpuUsage())
  const main = ms(process.threadCpuUsage())
  const proxies = await cluster.network.cpuMs()
  return new Map([
    ['this process: load, readers, receivers, operator and records', main],
    ['this process: proxies', proxies],
    ['this process: other threads', all - main - proxies],
  ])
}

/** Measures from now on. Returns null on systems without `/proc`. */
export const startCpuProfile = async (
  cluster: Cluster,
  accepted: () => number,
): Promise<{ readonly stop: () => Promise<CpuProfile> } | null> => {
  if (cpuMs(process.pid) === 0) return null
  const used = new Map<string, number>()
  const last = new Map<string, { readonly pid: number; readonly ms: number }>()
  const sample = (): void => {
    for (const [name, { service }] of cluster.processes) {
      const pid = service.pid()
      if (pid === null) continue
      const ms = name.startsWith('postgres') ? cpuWithChildrenMs(pid) : cpuMs(pid)
      // It has just ended.
      if (!(ms > 0)) continue
      const before = last.get(name)
      const isSame = before?.pid === pid
      used.set(name, (used.get(name) ?? 0) + Math.max(0, ms - (isSame ? before.ms : 0)))
      last.set(name, { pid, ms })
    }
  }
  sample()
  used.clear()
  const began = performance.now()
  const firstAccepted = accepted()
  const machine = machineTimes()
  const own = await ownTimes(cluster)
  const ending = new AbortController()
  const running = (async () => {
    while (!ending.signal.aborted) {
      await delay(SAMPLE_EVERY_MS, undefined, { signal: ending.signal, ref: false }).catch(() => {})
      sample()
    }
  })()
  return {
    stop: async () => {
      ending.abort()
      await running
      for (const [name, ms] of await ownTimes(cluster)) used.set(name, ms - own.get(name)!)
      const { busy, idle, waitsForDisk } = machineTimes()
      const total = [...used.values()].reduce((sum, ms) => sum + ms, 0)
      return {
        seconds: (performance.now() - began) / 1000,
        messages: accepted() - firstAccepted,
        used,
        machine: {
          cores: cpus().length,
          idle: idle - machine.idle,
          waitsForDisk: waitsForDisk - machine.waitsForDisk,
          others: Math.max(0, busy - machine.busy - total),
        },
      }
    },
  }
}
