/**
 * Metrics of the process and of Node, with the names, types and units of prom-client 15.1, so that dashboards for
 * Node show them. A scrape updates them.
 */
import { readdirSync, readFileSync } from 'node:fs'
import type { monitorEventLoopDelay } from 'node:perf_hooks'
import { Context, type Metric } from 'effect'
import packageJson from '../package.json' with { type: 'json' }
import { counter, gauge } from './metric-kinds.ts'
import { memoizeLabels } from './metric-labels.ts'

const cpu = counter('process_cpu_seconds_total', 'Total user and system CPU time spent in seconds.')
const userCpu = counter('process_cpu_user_seconds_total', 'Total user CPU time spent in seconds.')
const systemCpu = counter('process_cpu_system_seconds_total', 'Total system CPU time spent in seconds.')
const startTime = gauge(
  'process_start_time_seconds',
  'Start time of the process since unix epoch in seconds.',
)
const residentMemory = gauge('process_resident_memory_bytes', 'Resident memory size in bytes.')
const openFiles = gauge('process_open_fds', 'Number of open file descriptors. Only on Linux.')
const maxFiles = gauge('process_max_fds', 'Maximum number of open file descriptors. Only on Linux.')
const heapTotal = gauge('nodejs_heap_size_total_bytes', 'Process heap size from Node.js in bytes.')
const heapUsed = gauge('nodejs_heap_size_used_bytes', 'Process heap size used from Node.js in bytes.')
const external = gauge('nodejs_external_memory_bytes', 'Node.js external memory size in bytes.')
const lagMax = gauge(
  'nodejs_eventloop_lag_max_seconds',
  'The maximum event loop delay since the last scrape.',
)
const lagP50 = gauge(
  'nodejs_eventloop_lag_p50_seconds',
  'The 50th percentile of the event loop delays since the last scrape.',
)
const lagP99 = gauge(
  'nodejs_eventloop_lag_p99_seconds',
  'The 99th percentile of the event loop delays since the last scrape.',
)
const nodeVersion = gauge('nodejs_version_info', 'Node.js version info. The value is always 1.')
const build = gauge('hub_build_info', 'The version of the hub. The value is always 1.')
const oldResidentMemory = gauge(
  'hub_process_resident_memory_bytes',
  'Old name of process_resident_memory_bytes, until version 0.5.0.',
)
const oldLagP99 = gauge(
  'hub_process_event_loop_delay_p99_seconds',
  'Old name of nodejs_eventloop_lag_p99_seconds, until version 0.5.0.',
)

const context = Context.empty()
const set = (value: number, ...gauges: ReadonlyArray<Metric.Metric<number, unknown>>): void => {
  for (const one of gauges) one.updateUnsafe(value, context)
}

const labelled = memoizeLabels()
const [major = '', minor = '', patch = ''] = process.versions.node.split('.')
const NODE = { version: process.version, major, minor, patch }

/** `null` where the system has no such file. */
const fromProc = <A>(read: () => A): A | null => {
  try {
    return read()
  } catch {
    return null
  }
}

const openFileCount = () => fromProc(() => readdirSync('/proc/self/fd').length - 1)
const maxFileCount = fromProc(() => {
  const soft = /^Max open files\s+(\d+)/mu.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
  return soft === undefined ? null : Number(soft)
})

const secondsOf = (microseconds: number): number => microseconds / 1e6

let counted = { user: 0, system: 0 }

/** Brings the metrics up to date, and begins a new period of event loop delays. */
export const updateProcessMetrics = (delay: ReturnType<typeof monitorEventLoopDelay>): void => {
  const used = process.cpuUsage()
  userCpu.add(secondsOf(used.user - counted.user))
  systemCpu.add(secondsOf(used.system - counted.system))
  cpu.add(secondsOf(used.user + used.system - counted.user - counted.system))
  counted = used

  const memory = process.memoryUsage()
  set(memory.rss, residentMemory, oldResidentMemory)
  set(memory.heapTotal, heapTotal)
  set(memory.heapUsed, heapUsed)
  set(memory.external, external)
  const files = openFileCount()
  if (files !== null) set(files, openFiles)
  if (maxFileCount !== null) set(maxFileCount, maxFiles)

  set(delay.percentile(99) / 1e9, lagP99, oldLagP99)
  set(delay.percentile(50) / 1e9, lagP50)
  set(delay.max / 1e9, lagMax)
  delay.reset()

  set(performance.timeOrigin / 1000, startTime)
  set(1, labelled(nodeVersion, NODE), labelled(build, { version: packageJson.version }))
}
