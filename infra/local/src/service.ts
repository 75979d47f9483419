/** A part of a local hub that runs as a process: start, wait until it answers, end, and start again. */
import { renameSync, rmSync } from 'node:fs'
import { UserError } from './user-error.ts'
import { type Exit, type RunningProcess, until } from './processes.ts'

interface ServiceOptions {
  readonly name: string
  /** As people call it. */
  readonly title: string
  readonly log: string
  /** Starts the process. */
  readonly launch: () => Promise<RunningProcess>
  /** Whether it answers. */
  readonly answers: () => Promise<boolean>
  /** How long it may take from launch to answer. */
  readonly readyWithinMs: number
  /** How long it may take to end in an orderly way. */
  readonly endWithinMs: number
}

export interface Service {
  readonly name: string
  readonly title: string
  readonly log: string
  /** Launches it and waits until it answers. Fails with a `UserError` that names the log. */
  readonly start: () => Promise<void>
  /** Waits until it answers, as after a `restart` of somebody else or a SIGCONT. */
  readonly waitReady: () => Promise<void>
  /** Null while it does not run. */
  readonly pid: () => number | null
  /** The process that was launched last ends, and how; null before the first launch. */
  readonly exited: () => Promise<Exit> | null
  readonly signal: (signal: NodeJS.Signals) => void
  /** Ends it and waits until it is gone. */
  readonly end: () => Promise<void>
}

/** Often enough that a start is not slowed by it, seldom enough to cost nothing. */
const POLL_MS = 20

/** Keeps the log of the run before as `<log>.1`, so that a log never grows over many runs. */
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
    const ready = await until(options.answers, {
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
