/** Child processes with a log file, a pid file, and an end that is always reached. */
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  processStartTime,
  isAlive,
  type PidFile,
  readPidFiles,
  removePidFile,
  writePidFile,
} from './pidfile.ts'
import { UserError } from './user-error.ts'

interface LaunchOptions {
  readonly name: string
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly cwd?: string
  /** Standard output and error are appended here. */
  readonly log: string
  /** Folder of pid files. */
  readonly runDir: string
  readonly stopSignal?: NodeJS.Signals
  /** Runs as somebody else; only root can. */
  readonly user?: { readonly uid: number; readonly gid: number }
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface RunningProcess {
  readonly name: string
  readonly pid: number
  /** Resolves when the process has ended, whatever ended it. */
  readonly exited: Promise<Exit>
  /** Null while it runs. */
  readonly exit: () => Exit | null
  /** Asks it to end, kills it after `graceMs`, and waits until it is gone. */
  readonly end: (graceMs: number) => Promise<Exit>
}

/** How long a killed process may stay in the table: the kernel needs milliseconds, a stopped disk seconds. */
const KILL_WAIT_MS = 5_000

const signalGroup = (pid: number, signal: NodeJS.Signals): void => {
  try {
    // Each child leads a process group of its own, so that what it started goes with it.
    process.kill(-pid, signal)
  } catch {
    // It has ended already.
  }
}

const signalOne = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended already.
  }
}

/**
 * Starts a program. It leads a process group of its own, so that Ctrl-C in the terminal reaches the supervisor
 * only, and its output goes straight to a file, so that it does not depend on the supervisor's life.
 */
export const launch = async (options: LaunchOptions): Promise<RunningProcess> => {
  mkdirSync(dirname(options.log), { recursive: true })
  const out = openSync(options.log, 'a')
  const child = spawn(options.command, options.args, {
    detached: true,
    stdio: ['ignore', out, out],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.env === undefined ? {} : { env: options.env as NodeJS.ProcessEnv }),
    ...(options.user === undefined ? {} : { uid: options.user.uid, gid: options.user.gid }),
  })
  closeSync(out)
  const state: { ended: Exit | null } = { ended: null }
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => {
      const exit: Exit = { code, signal }
      state.ended = exit
      removePidFile(options.runDir, options.name)
      resolve(exit)
    })
  })
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', (error) =>
      reject(new UserError(`${options.name} could not be started (${options.command}): ${error.message}`)),
    )
  })
  const pid = child.pid
  if (pid === undefined) throw new Error(`${options.name} has no process id`)
  const stopSignal = options.stopSignal ?? 'SIGTERM'
  const began = await processStartTime(pid)
  if (began !== null && state.ended === null) {
    writePidFile(options.runDir, { name: options.name, pid, began, stopSignal })
    // It may have ended while its pid file was being written.
    if (state.ended !== null) removePidFile(options.runDir, options.name)
  }
  return {
    name: options.name,
    pid,
    exited,
    exit: () => state.ended,
    end: async (graceMs) => {
      if (state.ended !== null) return state.ended
      signalOne(pid, stopSignal)
      // A stopped process (SIGSTOP) acts on nothing but SIGKILL until it is continued.
      signalOne(pid, 'SIGCONT')
      const timer = setTimeout(() => signalGroup(pid, 'SIGKILL'), graceMs)
      const exit = await exited
      clearTimeout(timer)
      return exit
    },
  }
}

/** Polls until `check` answers true; false when the time is over. `stop` ends it early. */
export const until = async (
  check: () => Promise<boolean>,
  bounds: { readonly withinMs: number; readonly everyMs: number; readonly stop?: () => boolean },
): Promise<boolean> => {
  const deadline = performance.now() + bounds.withinMs
  for (;;) {
    if (await check()) return true
    if (bounds.stop?.() === true || performance.now() >= deadline) return false
    await delay(bounds.everyMs)
  }
}

/**
 * Ends what an earlier supervisor left behind: exactly the processes its pid files name, where they are still the
 * same. Answers their names.
 */
export const stopLeftoverProcesses = async (
  runDir: string,
  graceMs: number,
  which: (name: string) => boolean = () => true,
): Promise<ReadonlyArray<string>> => {
  const files = readPidFiles(runDir).filter((file) => which(file.name))
  const alive: Array<PidFile> = []
  for (const file of files) {
    if (await isAlive(file)) alive.push(file)
    else removePidFile(runDir, file.name)
  }
  await Promise.all(
    alive.map(async (file) => {
      signalOne(file.pid, file.stopSignal)
      signalOne(file.pid, 'SIGCONT')
      const gone = async () => !(await isAlive(file))
      if (!(await until(gone, { withinMs: graceMs, everyMs: 20 }))) {
        signalGroup(file.pid, 'SIGKILL')
        if (!(await until(gone, { withinMs: KILL_WAIT_MS, everyMs: 20 }))) {
          throw new UserError(
            `Process ${file.pid} (${file.name}) of an earlier start does not end, even when killed.`,
          )
        }
      }
      removePidFile(runDir, file.name)
    }),
  )
  return alive.map((file) => file.name)
}

/** The last lines of a text file; empty where there is none. Reads at most 64 KiB from its end. */
export const tail = (path: string, lines: number): ReadonlyArray<string> => {
  try {
    const size = statSync(path).size
    const length = Math.min(size, 65_536)
    const buffer = Buffer.alloc(length)
    const file = openSync(path, 'r')
    try {
      readSync(file, buffer, 0, length, size - length)
    } finally {
      closeSync(file)
    }
    return buffer
      .toString('utf8')
      .split('\n')
      .filter((line) => line.trim() !== '')
      .slice(-lines)
  } catch {
    return []
  }
}
