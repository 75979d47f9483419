/** Starts Redis: the `redis-server` on the PATH, else the binary in the embedded-redis jar. */
import { chmodSync, existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Jars } from './jars.ts'
import { findProgram } from './path.ts'
import { UserError } from './user-error.ts'
import { launch, type RunningProcess } from './processes.ts'
import { readZipEntry } from './zip.ts'

/** The names of the binaries in the jar, by platform and architecture. */
const BINARIES: Readonly<Record<string, string>> = {
  'linux-x64': 'redis-server-6.2.6-v5-linux-amd64',
  'linux-arm64': 'redis-server-6.2.7-linux-arm64',
  'linux-ia32': 'redis-server-6.2.7-linux-386',
  'darwin-x64': 'redis-server-6.2.6-v5-darwin-amd64',
  'darwin-arm64': 'redis-server-6.2.6-v5-darwin-arm64',
}

/** The path of the program. Fetches the jar only if no Redis is installed. */
export const findRedis = async (
  environment: Readonly<Record<string, string | undefined>>,
  jars: () => Promise<Jars>,
): Promise<string> => {
  const installed = findProgram('redis-server', environment['PATH'])
  if (installed !== null) return installed
  const name = BINARIES[`${process.platform}-${process.arch}`]
  if (name === undefined) {
    throw new UserError(
      `There is no Redis for ${process.platform} on ${process.arch} to fetch: install redis-server, or set HUB_REDIS_URL to a running one.`,
    )
  }
  const { derivedDir, files } = await jars()
  const target = join(derivedDir, name)
  if (existsSync(target)) return target
  const jar = files.find((file) => basename(file).startsWith('embedded-redis-'))
  if (jar === undefined) throw new Error('The pinned jars do not contain embedded-redis.')
  const binary = readZipEntry(await readFile(jar), name)
  if (binary === null) throw new Error(`${basename(jar)} does not contain ${name}.`)
  const temporary = `${target}.${process.pid}`
  writeFileSync(temporary, binary)
  chmodSync(temporary, 0o755)
  renameSync(temporary, target)
  return target
}

interface RedisOptions {
  readonly command: string
  readonly dir: string
  readonly port: number
  readonly log: string
  readonly runDir: string
}

export const startRedis = (options: RedisOptions): Promise<RunningProcess> => {
  mkdirSync(options.dir, { recursive: true })
  return launch({
    name: 'redis',
    command: options.command,
    args: Object.entries({
      bind: '127.0.0.1',
      port: String(options.port),
      dir: options.dir,
      // Keeps the counters over a restart, except for the last second.
      appendonly: 'yes',
      appendfsync: 'everysec',
      save: '',
    }).flatMap(([name, value]) => [`--${name}`, value]),
    log: options.log,
    runDir: options.runDir,
  })
}
