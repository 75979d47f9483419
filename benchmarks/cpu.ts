/** CPU time of processes: on a machine that has other work it moves less than what they get done in a second. */
import { readdirSync, readFileSync } from 'node:fs'

/** Jiffies are hundredths of a second on every Linux there is. */
const JIFFY_MS = 10

interface Times {
  readonly pid: number
  readonly parent: number
  /** Of itself and of its children that have ended, ms. */
  readonly ms: number
}

const timesOf = (pid: number): Times | null => {
  try {
    // The name of the program, in brackets, may hold anything.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /su, '')
      .split(' ')
    const ms = fields.slice(11, 15).reduce((sum, jiffies) => sum + Number(jiffies) * JIFFY_MS, 0)
    return { pid, parent: Number(fields[1]), ms }
  } catch {
    // It has ended meanwhile, or this is no Linux.
    return null
  }
}

/** The process that has started another one; 0 where nobody knows. */
export const parentOf = (pid: number): number => timesOf(pid)?.parent ?? 0

/** CPU time of a process and of its children, ms. Linux tells it in /proc; elsewhere it is not a number. */
export const cpuMs = (pid: number): number => {
  const root = timesOf(pid)
  if (root === null) return Number.NaN
  return readdirSync('/proc')
    .filter((name) => /^\d+$/u.test(name))
    .map((name) => timesOf(Number(name)))
    .reduce((sum, one) => sum + (one !== null && one.parent === pid ? one.ms : 0), root.ms)
}
