/** Runs a program on a terminal: a pseudo-terminal of Python, because Node has none. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type Found, runTool } from './external-tools.ts'

/** Its standard input is what a person types, and its output what the terminal shows. */
const ON_TERMINAL = `
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
`

export interface TerminalProgram {
  readonly child: ChildProcess
  /** Everything that the terminal shows, with its control characters. */
  readonly shown: () => string
  readonly type: (text: string) => void
  readonly ended: Promise<number | null>
}

export interface Terminal {
  readonly start: (
    command: ReadonlyArray<string>,
    environment: Readonly<Record<string, string>>,
  ) => TerminalProgram
}

/** Returns the reason if this machine has no Python with pseudo-terminals. */
export const findTerminal = async (): Promise<Found<Terminal>> => {
  const { code, text } = await runTool('python3', ['-c', 'import os, pty; os.waitstatus_to_exitcode'], {
    withinMs: 180_000,
  })
  if (code !== 0) return { missing: `Python 3.9 with the module pty cannot be run: ${text.trim()}` }
  return {
    start: (command, environment) => {
      const child = spawn('python3', ['-c', ON_TERMINAL, ...command], {
        env: { ...process.env, ...environment },
        stdio: ['pipe', 'pipe', 'inherit'],
      })
      let shown = ''
      child.stdout.on('data', (chunk) => (shown += String(chunk)))
      return {
        child,
        shown: () => shown,
        type: (text) => void child.stdin.write(text),
        ended: once(child, 'close').then(([status]) => status as number | null),
      }
    },
  }
}
