/** What a process has cost. */
import { readFileSync } from 'node:fs'

/** Linux counts in hundredths of a second, whatever its own clock does (`getconf CLK_TCK`). */
const TICK_MS = 10

/** Processor time that a process has taken so far, ms; 0 where the system does not tell it in `/proc`, or the process is gone. */
export const cpuMs = (pid: number): number => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name of the program stands in parentheses and may hold spaces; what follows is numbered from 3.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS
  } catch {
    return 0
  }
}
