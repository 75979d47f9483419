/**
 * Pid files with the start time of the process. The system reuses process ids, but a process id and
 * a start time together identify one process. So a leftover process can be stopped safely.
 */
import { execFile } from 'node:child_process'
import { linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

interface ProcessIdentity {
  readonly pid: number
  /** The start time as an opaque string, to distinguish processes with the same id. */
  readonly began: string
}

export interface PidFile extends ProcessIdentity {
  readonly name: string
  /** The signal for an orderly stop. */
  readonly stopSignal: NodeJS.Signals
}

/** The state and start time (field 22) of /proc/<pid>/stat. Field 2 may contain any character. */
export const parseProcStat = (
  stat: string,
): { readonly state: string; readonly startTicks: string } | null => {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const state = fields[0]
  const startTicks = fields[19]
  return state === undefined || startTicks === undefined ? null : { state, startTicks }
}

const run = promisify(execFile)

/** The start time of a process, or null if it does not run. A zombie process counts as ended. */
export const processStartTime = async (pid: number): Promise<string | null> => {
  if (process.platform === 'linux') {
    try {
      const parsed = parseProcStat(await readFile(`/proc/${pid}/stat`, 'utf8'))
      if (parsed === null || parsed.state === 'Z' || parsed.state === 'X') return null
      // Ticks count from the boot, so the boot id is part of the start time.
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
  // Written to a temporary file and renamed, so that nobody reads an incomplete file.
  writeFileSync(`${target}.new`, JSON.stringify(file))
  renameSync(`${target}.new`, target)
}

export const removePidFile = (dir: string, name: string): void =>
  rmSync(join(dir, `${name}.json`), { force: true })

/** Returns null if the file does not exist or is incomplete. */
const readPidFileAt = (path: string): PidFile | null => {
  try {
    const value = JSON.parse(readFileSync(path, 'utf8')) as Partial<PidFile> | null
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

export const readPidFile = (dir: string, name: string): PidFile | null =>
  readPidFileAt(join(dir, `${name}.json`))

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
 * Creates a pid file that only one running process can hold. Returns null on success, else the
 * holder. Takes over the pid file of a process that has ended.
 */
export const lockPidFile = async (dir: string, file: PidFile): Promise<PidFile | null> => {
  mkdirSync(dir, { recursive: true })
  const target = join(dir, `${file.name}.json`)
  const mine = `${target}.${process.pid}`
  writeFileSync(mine, JSON.stringify(file))
  try {
    for (;;) {
      try {
        // A link fails if the name exists, so it creates the file with its content atomically.
        linkSync(mine, target)
        return null
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      }
      const holder = readPidFile(dir, file.name)
      if (holder !== null && (await isAlive(holder))) return holder
      // First renames the file to an own name. So two processes that find the same dead holder
      // cannot remove each other's lock.
      const stale = `${target}.stale.${process.pid}`
      try {
        renameSync(target, stale)
      } catch {
        continue
      }
      const moved = readPidFileAt(stale)
      // If a running process created the renamed file in the meantime, the rename is undone. This
      // leaves a race only if three processes take over the same dead holder within microseconds.
      if (moved !== null && (await isAlive(moved))) renameSync(stale, target)
      else rmSync(stale, { force: true })
    }
  } finally {
    rmSync(mine, { force: true })
  }
}
