/** Starts and stops child processes with a log file and a pid file. */
import { spawn } from 'node:child_process'
import { closeSync, fchmodSync, mkdirSync, openSync, readSync, statSync } from 'node:fs'
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
  /** Runs the program as another user. Requires root. */
  readonly user?: { readonly uid: number; readonly gid: number }
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface RunningProcess {
  readonly name: string
  readonly pid: number
  /** Resolves when the process has ended for any reason. */
  readonly exited: Promise<Exit>
  /** Null while it runs. */
  readonly exit: () => Exit | null
  /** Sends the stop signal, kills the process group after `graceMs`, and waits for the end. */
  readonly end: (graceMs: number) => Promise<Exit>
}

/** Time until a killed process disappears: milliseconds, or seconds with a slow disk. */
const KILL_WAIT_MS = 5_000

/** Signals a process, or with a negative id a process group. */
const signalIfAlive = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended already.
  }
}

/** A log may contain what others must not read, so only its owner can, also if it exists already. */
const LOG_MODE = 0o600

/** Opens a log file to append (`a`) or from its start (`w`). The caller closes it. */
export const openLog = (path: string, flags: 'a' | 'w'): number => {
  const file = openSync(path, flags, LOG_MODE)
  fchmodSync(file, LOG_MODE)
  return file
}

/**
 * Starts a program as the leader of its own process group. So Ctrl-C in the terminal reaches only
 * the supervisor, and a kill of the group includes the children of the program. The program writes
 * directly to its log file, so it does not need the supervisor.
 */
export const launch = async (options: LaunchOptions): Promise<RunningProcess> => {
  mkdirSync(dirname(options.log), { recursive: true })
  const out = openLog(options.log, 'a')
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
  if (pid === undefined) throw new Error(`${options.name} has no process id.`)
  const stopSignal = options.stopSignal ?? 'SIGTERM'
  const began = await processStartTime(pid)
  if (began !== null && state.ended === null) {
    writePidFile(options.runDir, { name: options.name, pid, began, stopSignal })
    // It may have ended while the pid file was written.
    if (state.ended !== null) removePidFile(options.runDir, options.name)
  }
  return {
    name: options.name,
    pid,
    exited,
    exit: () => state.ended,
    end: async (graceMs) => {
      if (state.ended !== null) return state.ended
      signalIfAlive(pid, stopSignal)
      // A process stopped by SIGSTOP handles the stop signal only after SIGCONT.
      signalIfAlive(pid, 'SIGCONT')
      const timer = setTimeout(() => signalIfAlive(-pid, 'SIGKILL'), graceMs)
      const exit = await exited
      clearTimeout(timer)
      return exit
    },
  }
}

/** Kills the processes with pid files at once, and waits for nothing: the caller is about to end. */
export const killLeftoverProcesses = (runDir: string): void => {
  for (const { pid } of readPidFiles(runDir)) if (pid !== process.pid) signalIfAlive(-pid, 'SIGKILL')
}

/** Polls until `check` returns true. Returns false on timeout, or when `stop` returns true. */
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
 * Stops the processes that an earlier supervisor left running: those of its pid files whose start
 * time still matches. Returns their names.
 */
export const stopLeftoverProcesses = async (
  runDir: string,
  graceMs: number,
  isSelected: (name: string) => boolean = () => true,
): Promise<ReadonlyArray<string>> => {
  const files = readPidFiles(runDir).filter((file) => isSelected(file.name))
  const alive: Array<PidFile> = []
  for (const file of files) {
    if (await isAlive(file)) alive.push(file)
    else removePidFile(runDir, file.name)
  }
  await Promise.all(
    alive.map(async (file) => {
      signalIfAlive(file.pid, file.stopSignal)
      signalIfAlive(file.pid, 'SIGCONT')
      const hasEnded = async () => !(await isAlive(file))
      if (!(await until(hasEnded, { withinMs: graceMs, everyMs: 20 }))) {
        signalIfAlive(-file.pid, 'SIGKILL')
        if (!(await until(hasEnded, { withinMs: KILL_WAIT_MS, everyMs: 20 }))) {
          throw new UserError(
            `Process ${file.pid} (${file.name}) of an earlier start still runs after SIGKILL: stop it, then start again.`,
          )
        }
      }
      removePidFile(runDir, file.name)
    }),
  )
  return alive.map((file) => file.name)
}

/** The bytes of a file from an offset on. */
export const readFrom = (path: string, offset: number, length: number): Buffer => {
  const buffer = Buffer.alloc(length)
  const file = openSync(path, 'r')
  try {
    readSync(file, buffer, 0, length, offset)
  } finally {
    closeSync(file)
  }
  return buffer
}

/** The last lines of a text file, from its last 64 KiB. Empty if the file does not exist. */
export const tail = (path: string, lines: number): ReadonlyArray<string> => {
  try {
    const { size } = statSync(path)
    const length = Math.min(size, 65_536)
    return readFrom(path, size - length, length)
      .toString('utf8')
      .split('\n')
      .filter((line) => line.trim() !== '')
      .slice(-lines)
  } catch {
    return []
  }
}
