/** The processes of the hub: two of each app, restarted after a kill, and continued after a stop. */
import { setTimeout as delay } from 'node:timers/promises'
import type { App } from '@hub/config'
import type { ProcessHandle } from '../../support/hub.ts'

/** A consumer group removes a silent member after six seconds, so others take over meanwhile. */
export const STOPPED_MS = 20_000

/** A process may end again during its start, at a point that another cell has armed. */
const MAX_STARTS = 5

const pidOf = (process: ProcessHandle): number | null => {
  try {
    return process.pid()
  } catch {
    return null
  }
}

export const makeProcesses = (byApp: Readonly<Record<App, ReadonlyArray<ProcessHandle>>>) => {
  const all = Object.values(byApp).flat()
  /** The last restart of each process. Several cells may want one at the same time. */
  const restarts = new Map<ProcessHandle, Promise<void>>()
  const stopped = new Set<ProcessHandle>()

  const start = async (process: ProcessHandle): Promise<void> => {
    for (let attempt = 1; pidOf(process) === null; attempt++) {
      try {
        await process.restart()
        remember()
      } catch (error) {
        if (attempt === MAX_STARTS || pidOf(process) !== null) throw error
      }
    }
  }
  const startAgain = (process: ProcessHandle): Promise<void> => {
    const next = (restarts.get(process) ?? Promise.resolve()).then(() => start(process))
    restarts.set(process, next)
    return next
  }

  /** The process may be killed by another cell of the wave while this one waits. */
  const untilReady = async (process: ProcessHandle): Promise<void> => {
    for (let attempt = 1; ; attempt++) {
      await startAgain(process)
      try {
        await process.waitReady()
        return
      } catch (error) {
        if (attempt === MAX_STARTS || pidOf(process) !== null) throw error
      }
    }
  }

  const known = new Map<number, ProcessHandle>()
  const remember = (): void => {
    for (const process of all) {
      const pid = pidOf(process)
      if (pid !== null) known.set(pid, process)
    }
  }
  remember()

  return {
    /** The process with this id. `null`: it is not of the hub, or it has not been ready yet. */
    find: (pid: number): ProcessHandle | null => known.get(pid) ?? null,
    /** Waits for the end of a killed process, and starts it again. */
    startKilled: async (process: ProcessHandle): Promise<void> => {
      await process.exited()
      await startAgain(process)
    },
    /** Continues a process that has stopped itself, after `STOPPED_MS`. */
    continueStopped: async (pid: number, name: ProcessHandle | null): Promise<void> => {
      if (name !== null) stopped.add(name)
      await delay(STOPPED_MS)
      process.kill(pid, 'SIGCONT')
      if (name === null) return
      stopped.delete(name)
      await name.waitReady()
    },
    /** Kills a process of an app that is not stopped, and starts it again. */
    restartOne: async (app: App): Promise<void> => {
      const running = byApp[app].find((process) => !stopped.has(process) && pidOf(process) !== null)
      if (running === undefined) return
      running.kill('SIGKILL')
      await running.exited()
      await startAgain(running)
    },
    /** Stops the running processes of an app, and continues them: within their session. */
    pause: async (app: App, ms: number): Promise<void> => {
      const paused = byApp[app].filter((process) => !stopped.has(process) && pidOf(process) !== null)
      for (const process of paused) process.kill('SIGSTOP')
      await delay(ms)
      for (const process of paused) if (pidOf(process) !== null) process.kill('SIGCONT')
    },
    /** Kills all processes of an app, and starts them after a time. */
    stopAllFor: async (app: App, ms: number): Promise<void> => {
      for (const process of byApp[app]) if (pidOf(process) !== null) process.kill('SIGKILL')
      for (const process of byApp[app]) await process.exited()
      await delay(ms)
      await Promise.all(byApp[app].map(startAgain))
    },
    waitReady: async (): Promise<void> => {
      for (const process of all) await untilReady(process)
    },
  }
}
export type Processes = ReturnType<typeof makeProcesses>
