/** CPU time (which varies less than throughput) and memory of processes, from /proc. */
import { readdirSync, readFileSync } from 'node:fs'

/** `/proc` counts in jiffies. A jiffy is 10 ms on all common Linux kernels. */
const JIFFY_MS = 10

interface Times {
  readonly pid: number
  readonly parent: number
  /** CPU time of the process and of its children that have exited, ms. */
  readonly ms: number
}

const timesOf = (pid: number): Times | null => {
  try {
    // The program name, in brackets, may contain spaces and brackets. Skip to the last bracket.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /su, '')
      .split(' ')
    const ms = fields.slice(11, 15).reduce((sum, jiffies) => sum + Number(jiffies) * JIFFY_MS, 0)
    return { pid, parent: Number(fields[1]), ms }
  } catch {
    // The process has exited, or this is not Linux.
    return null
  }
}

/** The parent of a process; 0 if it is unknown. */
export const parentOf = (pid: number): number => timesOf(pid)?.parent ?? 0

/** CPU time of a process and of its children, ms; NaN on systems without /proc. */
export const cpuMs = (pid: number): number => {
  const root = timesOf(pid)
  if (root === null) return Number.NaN
  return readdirSync('/proc')
    .filter((name) => /^\d+$/u.test(name))
    .map((name) => timesOf(Number(name)))
    .reduce((sum, one) => sum + (one !== null && one.parent === pid ? one.ms : 0), root.ms)
}

const memoryMiB = (pid: number, field: 'VmRSS' | 'VmHWM'): number => {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(new RegExp(`${field}:\\s+(\\d+) kB`, 'u').exec(status)?.[1]) / 1024
  } catch {
    return Number.NaN
  }
}

/** Resident memory of a process, MiB; NaN on systems without /proc. */
export const residentMiB = (pid: number): number => memoryMiB(pid, 'VmRSS')
/** The same, the largest value so far. */
export const peakMiB = (pid: number): number => memoryMiB(pid, 'VmHWM')
