/** Programs of others that a test talks to: started, listened to, and ended by their own process id. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

export interface Program {
  /** What it has said, standard output and error, line by line. */
  readonly lines: ReadonlyArray<string>
  readonly isRunning: () => boolean
  /** Resolves when it has ended, by itself or not. */
  readonly ended: Promise<void>
  /** Kills it where it still runs, and waits until it is gone. Safe to repeat. */
  readonly stop: () => Promise<void>
}

// Whatever becomes of the test process, nothing stays behind.
const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** Starts a program. Its standard input stays open for as long as this process lives. */
export const startProgram = (command: string, args: ReadonlyArray<string>): Program => {
  const child = spawn(command, [...args], { stdio: ['pipe', 'pipe', 'pipe'] })
  running.add(child)
  const lines: Array<string> = []
  for (const output of [child.stdout, child.stderr]) {
    createInterface({ input: output }).on('line', (line) => lines.push(line))
  }
  const ended = new Promise<void>((resolve) => {
    child.once('error', (error) => {
      lines.push(error.message)
      running.delete(child)
      resolve()
    })
    child.once('close', () => {
      running.delete(child)
      resolve()
    })
  })
  return {
    lines,
    isRunning: () => running.has(child),
    ended,
    stop: async () => {
      child.kill('SIGKILL')
      await ended
    },
  }
}
