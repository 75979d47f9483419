/** A process of a local hub: start, wait until it is ready, stop, start again. */
import { renameSync, rmSync } from 'node:fs'
import { UserError } from './user-error.ts'
import { type Exit, type RunningProcess, until } from './processes.ts'

interface ServiceOptions {
  readonly name: string
  /** The name in messages. */
  readonly title: string
  readonly log: string
  readonly launch: () => Promise<RunningProcess>
  readonly isReady: () => Promise<boolean>
  /** Maximum time from the launch until it is ready. */
  readonly readyWithinMs: number
  /** Maximum time for an orderly stop. Then it is killed. */
  readonly endWithinMs: number
}

export interface Service {
  readonly name: string
  readonly title: string
  readonly log: string
  /** Launches it and waits until it is ready. Fails with a `UserError` that names the log. */
  readonly start: () => Promise<void>
  /** Waits until it is ready, for example after a SIGCONT. */
  readonly waitReady: () => Promise<void>
  /** Null while it does not run. */
  readonly pid: () => number | null
  /** Resolves when the last launched process has ended. Null before the first launch. */
  readonly exited: () => Promise<Exit> | null
  readonly signal: (signal: NodeJS.Signals) => void
  /** Stops it and waits until the process has ended. */
  readonly end: () => Promise<void>
}

/** Short, so that polling does not delay the start. A poll costs little. */
const POLL_MS = 20

/** Renames the log of the previous run to `<log>.1`, so that logs do not grow over many runs. */
const rotate = (log: string): void => {
  try {
    renameSync(log, `${log}.1`)
  } catch {
    rmSync(log, { force: true })
  }
}

const describe = (exit: Exit): string =>
  exit.signal === null ? `exit code ${exit.code ?? 'unknown'}` : `signal ${exit.signal}`

export const makeService = (options: ServiceOptions): Service => {
  let running: RunningProcess | null = null
  let launched = false

  const waitReady = async (): Promise<void> => {
    const current = running
    if (current === null) throw new UserError(`${options.title} does not run.`, options.log)
    const ready = await until(options.isReady, {
      withinMs: options.readyWithinMs,
      everyMs: POLL_MS,
      stop: () => current.exit() !== null,
    })
    const exit = current.exit()
    if (exit !== null) throw new UserError(`${options.title} ended (${describe(exit)}).`, options.log)
    if (!ready) {
      throw new UserError(
        `${options.title} did not answer within ${Math.round(options.readyWithinMs / 1000)} s.`,
        options.log,
      )
    }
  }

  return {
    name: options.name,
    title: options.title,
    log: options.log,
    start: async () => {
      if (!launched) rotate(options.log)
      launched = true
      running = await options.launch()
      await waitReady()
    },
    waitReady,
    pid: () => (running === null || running.exit() !== null ? null : running.pid),
    exited: () => running?.exited ?? null,
    signal: (signal) => {
      if (running === null || running.exit() !== null) throw new UserError(`${options.title} does not run.`)
      process.kill(running.pid, signal)
    },
    end: async () => {
      await running?.end(options.endWithinMs)
    },
  }
}
