/**
 * Who a process is, over time. A process id alone is reused sooner or later; together with the moment the process
 * began it names one process for good, so that a leftover of ours can be ended without ever hitting a stranger.
 */
import { execFile } from 'node:child_process'
import { linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

interface ProcessIdentity {
  readonly pid: number
  /** Opaque: equal for the same process, different for any other that ever has this id. */
  readonly began: string
}

export interface PidFile extends ProcessIdentity {
  readonly name: string
  /** What asks this process to end in an orderly way. */
  readonly stopSignal: NodeJS.Signals
}

/** Field 22 of /proc/<pid>/stat, and the state; the second field is the program's name and may hold anything. */
export const parseProcStat = (
  stat: string,
): { readonly state: string; readonly startTicks: string } | null => {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const state = fields[0]
  const startTicks = fields[19]
  return state === undefined || startTicks === undefined ? null : { state, startTicks }
}

const run = promisify(execFile)

/** When the process with this id began, or null where there is none (a zombie has ended). */
export const processStartTime = async (pid: number): Promise<string | null> => {
  if (process.platform === 'linux') {
    try {
      const parsed = parseProcStat(await readFile(`/proc/${pid}/stat`, 'utf8'))
      if (parsed === null || parsed.state === 'Z' || parsed.state === 'X') return null
      // Ticks count from the boot, so the boot has to be named as well.
      const boot = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim()
      return `${boot}/${parsed.startTicks}`
    } catch {
      return null
    }
  }
  try {
    const { stdout } = await run('ps', ['-o', 'state=,lstart=', '-p', String(pid)])
    const line = stdout.trim()
    return line === '' || line.startsWith('Z') ? null : line.replace(/^\S+\s+/u, '')
  } catch {
    return null
  }
}

export const isAlive = async (identity: ProcessIdentity): Promise<boolean> =>
  (await processStartTime(identity.pid)) === identity.began

export const writePidFile = (dir: string, file: PidFile): void => {
  mkdirSync(dir, { recursive: true })
  const target = join(dir, `${file.name}.json`)
  // Written aside and renamed, so that nobody ever reads half of it.
  writeFileSync(`${target}.new`, JSON.stringify(file))
  renameSync(`${target}.new`, target)
}

export const removePidFile = (dir: string, name: string): void =>
  rmSync(join(dir, `${name}.json`), { force: true })

const parsePidFile = (text: string): PidFile | null => {
  try {
    const value = JSON.parse(text) as Partial<PidFile> | null
    return value !== null &&
      typeof value.pid === 'number' &&
      typeof value.began === 'string' &&
      typeof value.name === 'string' &&
      typeof value.stopSignal === 'string'
      ? (value as PidFile)
      : null
  } catch {
    return null
  }
}

export const readPidFile = (dir: string, name: string): PidFile | null => {
  try {
    return parsePidFile(readFileSync(join(dir, `${name}.json`), 'utf8'))
  } catch {
    return null
  }
}

export const readPidFiles = (dir: string): ReadonlyArray<PidFile> => {
  try {
    return readdirSync(dir)
      .filter((name) => name.endsWith('.json'))
      .flatMap((name) => readPidFile(dir, name.slice(0, -'.json'.length)) ?? [])
  } catch {
    return []
  }
}

/**
 * Takes a pid file that only one living process can have. Answers null when it is ours now, and its holder
 * otherwise. What a dead process left is taken over.
 */
export const lockPidFile = async (dir: string, file: PidFile): Promise<PidFile | null> => {
  mkdirSync(dir, { recursive: true })
  const target = join(dir, `${file.name}.json`)
  const mine = `${target}.${process.pid}`
  writeFileSync(mine, JSON.stringify(file))
  try {
    for (;;) {
      try {
        // A link fails where the name exists: creating the file with its content is one step.
        linkSync(mine, target)
        return null
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      }
      const holder = readPidFile(dir, file.name)
      if (holder !== null && (await isAlive(holder))) return holder
      // Moved away under a name of our own first: two that find the same dead holder cannot remove each other's claim.
      const stale = `${target}.stale.${process.pid}`
      try {
        renameSync(target, stale)
      } catch {
        continue
      }
      const moved = parsePidFile(readFileSync(stale, 'utf8'))
      // What was moved is a claim made in between, by a living process: it goes back. The lock is only ever in doubt
      // where three processes take over the same dead holder within microseconds.
      if (moved !== null && (await isAlive(moved))) renameSync(stale, target)
      else rmSync(stale, { force: true })
    }
  } finally {
    rmSync(mine, { force: true })
  }
}
