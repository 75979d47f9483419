/** Starts programs, records their output, and ends them by process id. */
import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process'
import { createInterface } from 'node:readline'

/** Flags of Java programs that run for seconds: the fast compiler and collector start fastest. */
export const SHORT_JAVA_RUN = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']

export interface Program {
  /** The lines of standard output and standard error. */
  readonly lines: ReadonlyArray<string>
  readonly isRunning: () => boolean
  /** Resolves when the program has ended, with its exit code. `null`: a signal has ended it, or it did not start. */
  readonly ended: Promise<number | null>
  /** Asks the program to end (SIGTERM). */
  readonly terminate: () => void
  /** Kills the program if it runs, and waits for its end. Further calls do nothing. */
  readonly stop: () => Promise<void>
}

// If the test process ends early, it must leave no program behind.
const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** Starts a program. Its standard input stays open while this process lives. */
export const startProgram = (
  command: string,
  args: ReadonlyArray<string>,
  options: Pick<SpawnOptions, 'cwd' | 'env' | 'gid' | 'uid'> = {},
): Program => {
  const child = spawn(command, [...args], { ...options, stdio: ['pipe', 'pipe', 'pipe'] })
  running.add(child)
  const lines: Array<string> = []
  for (const output of [child.stdout, child.stderr]) {
    createInterface({ input: output }).on('line', (line) => lines.push(line))
  }
  const ended = new Promise<number | null>((resolve) => {
    child.once('error', (error) => {
      lines.push(error.message)
      running.delete(child)
      resolve(null)
    })
    child.once('close', (code) => {
      running.delete(child)
      resolve(code)
    })
  })
  return {
    lines,
    isRunning: () => running.has(child),
    ended,
    terminate: () => void child.kill('SIGTERM'),
    stop: async () => {
      child.kill('SIGKILL')
      await ended
    },
  }
}
