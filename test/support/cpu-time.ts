/** The CPU time of a process. */
import { readFileSync } from 'node:fs'

/** Linux reports CPU time in hundredths of a second (`getconf CLK_TCK`). */
const TICK_MS = 10

/**
 * Returns the CPU time of a process in ms, or 0 if `/proc` does not exist or the process has ended.
 */
export const cpuMs = (pid: number): number => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The program name is in parentheses and may contain spaces. The first field after it is field
    // 3.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS
  } catch {
    return 0
  }
}
