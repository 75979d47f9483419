/** Runs the command line `hub` as a process of its own, which a test can kill. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import type { TestHub } from './hub.ts'

export interface HubCommand {
  readonly child: ChildProcess
  readonly out: () => string
  readonly err: () => string
  /** The exit code; `null` after a signal. */
  readonly ended: Promise<number | null>
}

/** A folder for the files that the command keeps, such as logins and positions. */
export const newConfigFolder = (): string =>
  mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'hub-config-'))

/** Starts a command for a hub. `config`: from `newConfigFolder`. */
export const startHubCommand = (
  hub: Pick<TestHub, 'dataDir'>,
  config: string,
  args: ReadonlyArray<string>,
  program: ReadonlyArray<string> = [process.execPath, join(ROOT, 'apps/cli/src/main.ts')],
): HubCommand => {
  const [command = '', ...first] = program
  const child = spawn(command, [...first, ...args], {
    env: { ...process.env, HUB_DATA_DIR: hub.dataDir, XDG_CONFIG_HOME: config, HUB_URL: '', HUB_KEY: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  let err = ''
  child.stdout.on('data', (chunk) => (out += String(chunk)))
  child.stderr.on('data', (chunk) => (err += String(chunk)))
  const ended = once(child, 'close').then(([code]) => code as number | null)
  return { child, out: () => out, err: () => err, ended }
}

/** Runs a command to its end. */
export const runHubCommand = async (
  hub: Pick<TestHub, 'dataDir'>,
  config: string,
  args: ReadonlyArray<string>,
  program?: ReadonlyArray<string>,
): Promise<{
  readonly code: number | null
  readonly out: string
  readonly err: string
  readonly json: any
}> => {
  const started = startHubCommand(hub, config, [...args, '--json'], program)
  const code = await started.ended
  const out = started.out()
  return { code, out, err: started.err(), json: out.trim() === '' ? null : JSON.parse(out) }
}

/** Longer than the last line that is complete and one that is not. */
const END_BYTES = 1024

/** The row of the last complete line of the result file of `hub send --csv`; 0 without one. A long file is not read as a whole. */
export const lastResultRow = async (file: string): Promise<number> => {
  if (!existsSync(file)) return 0
  const handle = await open(file, 'r')
  try {
    const { size } = await handle.stat()
    const { buffer, bytesRead } = await handle.read({
      buffer: Buffer.alloc(END_BYTES),
      position: Math.max(0, size - END_BYTES),
    })
    return Number(
      /(?:^|\n)(?<row>\d+),[^\n]*\n[^\n]*$/u.exec(buffer.toString('utf8', 0, bytesRead))?.groups?.['row'] ??
        0,
    )
  } finally {
    await handle.close()
  }
}
