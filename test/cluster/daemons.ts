/** Programs that keep running when the command that started them has ended. They are found by their pid files. */
import { setTimeout as delay } from 'node:timers/promises'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { isAlive, launch, readPidFile, stopLeftoverProcesses, UserError } from '@hub/local-stack'

interface Daemon {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
}

export interface Daemons {
  /** Starts a program, unless it runs. */
  readonly start: (name: string, daemon: Daemon) => Promise<void>
  readonly isRunning: (name: string) => Promise<boolean>
  /** The path of its log. */
  readonly log: (name: string) => string
  readonly signal: (name: string, signal: NodeJS.Signals) => Promise<void>
  readonly stop: (...names: ReadonlyArray<string>) => Promise<void>
  readonly stopAll: () => Promise<ReadonlyArray<string>>
}

/** A program that has not ended by then is killed. */
const STOP_WITHIN_MS = 15_000
/** A program with a wrong option ends at once. */
const STARTED_AFTER_MS = 300

export const openDaemons = (dir: string): Daemons => {
  const runDir = join(dir, 'run')
  mkdirSync(runDir, { recursive: true })
  const log = (name: string): string => join(dir, 'logs', `${name}.log`)
  const isRunning = async (name: string): Promise<boolean> => {
    const file = readPidFile(runDir, name)
    return file !== null && (await isAlive(file))
  }
  return {
    log,
    isRunning,
    start: async (name, { args, command, env }) => {
      if (await isRunning(name)) return
      const running = await launch({
        name,
        command,
        args,
        log: log(name),
        runDir,
        env: { ...process.env, ...env },
      })
      await Promise.race([running.exited, delay(STARTED_AFTER_MS)])
      if (running.exit() !== null) throw new UserError(`${name} has ended.`, log(name))
    },
    signal: async (name, signal) => {
      const file = readPidFile(runDir, name)
      if (file === null || !(await isAlive(file))) throw new Error(`${name} does not run`)
      process.kill(file.pid, signal)
    },
    stop: async (...names) => {
      await stopLeftoverProcesses(runDir, STOP_WITHIN_MS, (name) => names.includes(name))
    },
    stopAll: () => stopLeftoverProcesses(runDir, STOP_WITHIN_MS),
  }
}
