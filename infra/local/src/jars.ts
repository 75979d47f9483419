/** The jars of Kafka and Redis, fetched once by Maven and verified on each start. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram } from './path.ts'
import { UserError } from './user-error.ts'

/** A set of jars that Maven fetches together. */
export interface JarSet {
  /** The path of the Maven project that lists them. */
  readonly pom: string
  /** The path of a file with a `sha256sum` line for each jar. */
  readonly checksums: string
  /** The content and the size, for the progress message. */
  readonly what: string
  readonly size: string
}

/** The folder with the list and the checksums of the jars: also of another version of Kafka, for tests. */
const FOLDER = process.env['HUB_KAFKA_JARS'] || join(import.meta.dirname, '..')

/** The jars of the local stack. */
export const STACK_JARS: JarSet = {
  pom: join(FOLDER, 'pom.xml'),
  checksums: join(FOLDER, 'jars.sha256'),
  what: 'Kafka and Redis',
  size: '44 MB',
}

/** Ten minutes are enough for 44 MB over a slow connection. */
const FETCH_TIMEOUT_MS = 600_000

/** Parses `sha256sum` lines. Returns the checksums by file name. */
export const parseChecksums = (text: string): ReadonlyMap<string, string> =>
  new Map(
    text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line) => {
        const match = /^([0-9a-f]{64}) [ *](\S+)$/u.exec(line)
        if (match?.[1] === undefined || match[2] === undefined)
          throw new Error(`not a checksum line: ${line}`)
        return [match[2], match[1]] as const
      }),
  )

/** Bytes that are read at a time. Whole files would stay in the memory of the supervisor. */
const BLOCK_BYTES = 1024 * 1024

const sha256 = async (path: string): Promise<string> => {
  const hash = createHash('sha256')
  const block = Buffer.allocUnsafe(BLOCK_BYTES)
  const file = await open(path)
  try {
    for (;;) {
      const { bytesRead } = await file.read(block, 0, block.length)
      if (bytesRead === 0) return hash.digest('hex')
      hash.update(block.subarray(0, bytesRead))
    }
  } finally {
    await file.close()
  }
}

/** The first missing, different or unexpected file of a folder, or null. */
export const findMismatch = async (
  dir: string,
  expected: ReadonlyMap<string, string>,
): Promise<string | null> => {
  const present = new Set(await readdir(dir).catch(() => []))
  for (const name of present) if (!expected.has(name)) return `${name} is not expected`
  for (const [name, checksum] of expected) {
    if (!present.has(name)) return `${name} is missing`
    const found = await sha256(join(dir, name))
    if (found !== checksum) return `${name} is not the file that was pinned (SHA-256 ${found})`
  }
  return null
}

export interface Jars {
  readonly dir: string
  /** Always in the same order, because a class archive is valid for one class path only. */
  readonly files: ReadonlyArray<string>
  /** The folder for files that this machine derives from the jars. */
  readonly derivedDir: string
}

/** Lets Maven copy the jars into a folder, without a check of their checksums. */
const fetchJars = async (set: JarSet, maven: string, into: string, signal: AbortSignal): Promise<void> => {
  await promisify(execFile)(
    maven,
    [
      '--batch-mode',
      '--quiet',
      '--file',
      set.pom,
      'dependency:copy-dependencies',
      '-DincludeScope=runtime',
      `-DoutputDirectory=${into}`,
    ],
    { timeout: FETCH_TIMEOUT_MS, signal },
  ).catch(({ stderr = '', stdout = '' }: { readonly stderr?: string; readonly stdout?: string }) => {
    const lines = `${stdout}\n${stderr}`.split('\n')
    const reason = lines.find((line) => line.includes('ERROR')) ?? 'it gave no reason'
    throw new UserError(`Maven could not fetch ${set.what}: ${reason.trim().slice(0, 400)}`)
  })
}

const noMaven = (set: JarSet): UserError =>
  new UserError(
    `Maven is needed once to fetch ${set.what}, but it is not on the PATH: install it (Debian or Ubuntu: apt install maven; macOS: brew install maven).`,
  )

interface JarFolders {
  readonly pinned: string
  /** The folder of this set of jars. */
  readonly home: string
  readonly dir: string
}

/** One folder for each set of checksums, so that checkouts of different versions share a cache. */
const foldersOf = async (set: JarSet, cacheDir: string): Promise<JarFolders> => {
  const pinned = await readFile(set.checksums, 'utf8')
  const key = createHash('sha256').update(pinned).digest('hex').slice(0, 16)
  const home = join(cacheDir, `jars-${key}`)
  return { pinned, home, dir: join(home, 'jars') }
}

/** Fails if Maven will be needed and is missing, so that nothing starts in vain. */
export const requireMaven = async (
  set: JarSet,
  cacheDir: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<void> => {
  const { dir } = await foldersOf(set, cacheDir)
  if (!existsSync(dir) && findProgram('mvn', environment['PATH']) === null) throw noMaven(set)
}

/** Fetches the jars with Maven, and writes their checksums into the file of the set. */
export const pinJars = async (
  set: JarSet,
  environment: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<void> => {
  const maven = findProgram('mvn', environment['PATH'])
  if (maven === null) throw noMaven(set)
  const temporary = await mkdtemp(`${set.checksums}.`)
  try {
    await fetchJars(set, maven, temporary, signal)
    const lines = (await readdir(temporary))
      .sort()
      .map(async (name) => `${await sha256(join(temporary, name))}  ${name}\n`)
    await writeFile(set.checksums, await Promise.all(lines))
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

/** Returns the verified jars. Fetches them if the cache does not contain them. */
export const ensureJars = async (
  set: JarSet,
  cacheDir: string,
  environment: Readonly<Record<string, string | undefined>>,
  report: (line: string) => void,
  signal: AbortSignal,
): Promise<Jars> => {
  const { dir, home, pinned } = await foldersOf(set, cacheDir)
  const expected = parseChecksums(pinned)
  const jars: Jars = {
    dir,
    files: [...expected.keys()].sort().map((name) => join(dir, name)),
    derivedDir: join(home, 'derived'),
  }
  await mkdir(jars.derivedDir, { recursive: true }).catch((error: unknown) => {
    throw new UserError(
      `The cache folder ${cacheDir} cannot be written (${error instanceof Error ? error.message : String(error)}): set HUB_CACHE_DIR to another one.`,
    )
  })
  if ((await findMismatch(dir, expected)) === null) return jars

  const maven = findProgram('mvn', environment['PATH'])
  if (maven === null) throw noMaven(set)
  report(`fetching ${expected.size} files for ${set.what} with Maven (${set.size}, once for this machine)`)
  const temporary = await mkdtemp(join(home, 'fetch-'))
  try {
    await fetchJars(set, maven, temporary, signal)
    const mismatch = await findMismatch(temporary, expected)
    if (mismatch !== null) {
      throw new UserError(`The files from Maven do not match ${basename(set.checksums)}: ${mismatch}.`)
    }
    // Renames make the folder appear atomically. If another start was faster, its files are used.
    await rename(dir, join(dirname(dir), `bad-${process.pid}`)).catch(() => {})
    await rename(temporary, dir).catch(async (error: unknown) => {
      if ((await findMismatch(dir, expected)) !== null) throw error
    })
  } finally {
    await rm(temporary, { recursive: true, force: true })
    await rm(join(home, `bad-${process.pid}`), { recursive: true, force: true })
  }
  return jars
}
