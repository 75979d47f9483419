/** Runs programs to their end. */
import { spawn } from 'node:child_process'

interface RunOptions {
  readonly input?: string
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** Default: two minutes. */
  readonly withinMs?: number
}

export interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const WITHIN_MS = 120_000

/** Returns with any exit code. A program that takes too long is killed, and its code is 124. */
export const attempt = (
  command: string,
  args: ReadonlyArray<string>,
  options: RunOptions = {},
): Promise<Ended> =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      env: { ...process.env, ...options.env },
      stdio: 'pipe',
    })
    child.stdout.setEncoding('utf8')
    child.stderr.setEncoding('utf8')
    let stdout = ''
    let stderr = ''
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      child.kill('SIGKILL')
    }, options.withinMs ?? WITHIN_MS)
    child.stdout.on('data', (text: string) => (stdout += text))
    child.stderr.on('data', (text: string) => (stderr += text))
    // A program may end before it has read its input.
    child.stdin.on('error', () => {})
    child.stdin.end(options.input ?? '')
    child.once('error', (error) => {
      clearTimeout(timer)
      reject(error)
    })
    child.once('close', (code) => {
      clearTimeout(timer)
      if (isLate) stderr += `ended, because it took more than ${options.withinMs ?? WITHIN_MS} ms\n`
      resolve({ code: isLate ? 124 : (code ?? 1), stdout, stderr })
    })
  })

/** Returns the standard output. Fails with what the program has printed if its exit code is not 0. */
export const run = async (
  command: string,
  args: ReadonlyArray<string>,
  options: RunOptions = {},
): Promise<string> => {
  const { code, stderr, stdout } = await attempt(command, args, options)
  if (code === 0) return stdout
  throw new Error(
    `${[command, ...args].join(' ').slice(0, 300)} ended with ${code}: ${(stderr || stdout).trim().slice(-2000)}`,
  )
}

/** Runs a script of bash, which ends at its first failed command. Returns its standard output. */
export const script = (text: string, options: RunOptions = {}): Promise<string> =>
  run('bash', ['-euo', 'pipefail', '-c', text], options)
