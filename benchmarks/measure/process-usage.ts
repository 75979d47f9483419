/** CPU time (which varies less than throughput) and memory of processes, from /proc. */
import { readdirSync, readFileSync } from 'node:fs'
import { type ProcessTimes, processTimes } from '../../test/support/cpu-time.ts'

/** The parent of a process; 0 if it is unknown. */
export const parentOf = (pid: number): number => processTimes(pid)?.parent ?? 0

/** The processes of this machine by id. */
const allProcesses = (): ReadonlyMap<number, ProcessTimes> =>
  new Map(
    readdirSync('/proc').flatMap((name) => {
      const times = /^\d+$/u.test(name) ? processTimes(Number(name)) : null
      return times === null ? [] : [[Number(name), times] as const]
    }),
  )

/** A process and its descendants that run. */
const treeOf = (processes: ReadonlyMap<number, ProcessTimes>, root: number): ReadonlyArray<number> => {
  const tree = [root]
  for (const parent of tree) {
    for (const [pid, one] of processes) if (one.parent === parent) tree.push(pid)
  }
  return tree
}

/**
 * CPU time of a process and of all its descendants, those that have exited included, ms; NaN if it
 * has ended, and on systems without /proc.
 */
export const cpuWithChildrenMs = (pid: number): number => {
  if (processTimes(pid) === null) return Number.NaN
  const processes = allProcesses()
  return treeOf(processes, pid)
    .map((one) => processes.get(one))
    .reduce((sum, one) => sum + (one?.ms ?? 0) + (one?.exitedChildrenMs ?? 0), 0)
}

/** A value in kB of a file in the folder of a process, in MiB; NaN if it cannot be read. */
const memoryMiB = (pid: number, file: 'status' | 'smaps_rollup', field: string): number => {
  try {
    const text = readFileSync(`/proc/${pid}/${file}`, 'utf8')
    return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'mu').exec(text)?.[1]) / 1024
  } catch {
    return Number.NaN
  }
}

/** Resident memory of a process, MiB; NaN on systems without /proc. */
export const residentMiB = (pid: number): number => memoryMiB(pid, 'status', 'VmRSS')
/** The same, the largest value so far. */
export const peakMiB = (pid: number): number => memoryMiB(pid, 'status', 'VmHWM')

/**
 * Memory of a process without its children: its resident pages, where a page that several processes
 * share is divided among them, MiB; NaN if it has ended, and on systems without /proc.
 */
export const proportionalMiB = (pid: number): number => memoryMiB(pid, 'smaps_rollup', 'Pss')

/** The same of a process and of its descendants that run. */
export const proportionalWithChildrenMiB = (pid: number): number =>
  // A descendant may end at any time.
  proportionalMiB(pid) +
  treeOf(allProcesses(), pid)
    .slice(1)
    .reduce((sum, one) => sum + (proportionalMiB(one) || 0), 0)
