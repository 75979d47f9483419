/** The CPU time of processes, from `/proc`. */
import { readFileSync } from 'node:fs'

/** Linux reports CPU time in hundredths of a second (`getconf CLK_TCK`). */
export const TICK_MS = 10

export interface ProcessTimes {
  readonly parent: number
  /** CPU time of the process itself, ms. */
  readonly ms: number
  /** CPU time of its children that have exited, ms. */
  readonly exitedChildrenMs: number
}

/** Returns null if the process has ended, or on systems without `/proc`. */
export const processTimes = (pid: number): ProcessTimes | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The program name is in parentheses and may contain spaces. Field 3 of `stat` follows it.
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const ms = (first: number): number => (fields[first]! + fields[first + 1]!) * TICK_MS
    return { parent: fields[1]!, ms: ms(11), exitedChildrenMs: ms(13) }
  } catch {
    return null
  }
}

/** Returns the CPU time of a process in ms, or 0 if `/proc` does not exist or the process has ended. */
export const cpuMs = (pid: number): number => processTimes(pid)?.ms ?? 0
