/** CPU time (which varies less than throughput) and memory of processes, from /proc. */
import { readdirSync, readFileSync } from 'node:fs'
import { processTimes } from '../test/support/cpu-time.ts'

/** The parent of a process; 0 if it is unknown. */
export const parentOf = (pid: number): number => processTimes(pid)?.parent ?? 0

/**
 * CPU time of a process and of its children, those that have exited included, ms; NaN on systems
 * without /proc.
 */
export const cpuWithChildrenMs = (pid: number): number => {
  const root = processTimes(pid)
  if (root === null) return Number.NaN
  return readdirSync('/proc')
    .filter((name) => /^\d+$/u.test(name))
    .map((name) => processTimes(Number(name)))
    .filter((one) => one?.parent === pid)
    .reduce((sum, one) => sum + one!.ms + one!.exitedChildrenMs, root.ms + root.exitedChildrenMs)
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
