/** The Java side's files: fetched once by Maven, checked against the committed checksums on every start. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { findProgram } from './path.ts'
import { UserError } from './user-error.ts'

/** Jars that belong together: what Maven is to fetch, and what it must turn out to be. */
export interface JarSet {
  /** The Maven project that names them. */
  readonly pom: string
  /** `sha256sum` lines, one for each file that it brings. */
  readonly checksums: string
  /** For the person who waits: what is in them, and how much that is. */
  readonly what: string
  readonly size: string
}

const FOLDER = join(import.meta.dirname, '..')

/** What the local stack runs on the Java side. */
export const STACK_JARS: JarSet = {
  pom: join(FOLDER, 'pom.xml'),
  checksums: join(FOLDER, 'jars.sha256'),
  what: 'Kafka and Redis',
  size: '44 MB',
}

/** 44 MB: ten minutes are enough over any line that a person would work on. */
const FETCH_TIMEOUT_MS = 600_000

/** Lines of `sha256sum`: checksum, two spaces, name. */
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

/** The first thing wrong with a folder of files, or null: a file missing, different, or not expected. */
export const findMismatch = async (
  dir: string,
  expected: ReadonlyMap<string, string>,
): Promise<string | null> => {
  const present = new Set(await readdir(dir).catch(() => []))
  for (const name of present) if (!expected.has(name)) return `${name} is not expected`
  for (const [name, checksum] of expected) {
    if (!present.has(name)) return `${name} is missing`
    const found = createHash('sha256')
      .update(await readFile(join(dir, name)))
      .digest('hex')
    if (found !== checksum) return `${name} is not the file that was pinned (SHA-256 ${found})`
  }
  return null
}

export interface Jars {
  readonly dir: string
  /** In one order always: a class archive is only valid for the class path it was made with. */
  readonly files: ReadonlyArray<string>
  /** What is made from the jars on this machine is kept here, beside them. */
  readonly derivedDir: string
}

const fetchJars = async (
  set: JarSet,
  maven: string,
  into: string,
  signal: AbortSignal | undefined,
): Promise<void> => {
  const output: Array<string> = []
  const child = spawn(
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
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: FETCH_TIMEOUT_MS,
      ...(signal === undefined ? {} : { signal }),
    },
  )
  const keep = (chunk: Buffer): void => {
    output.push(chunk.toString('utf8'))
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  const code = await new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(null))
    child.once('close', resolve)
  })
  if (code !== 0) {
    const said =
      output
        .join('')
        .split('\n')
        .find((line) => line.includes('ERROR')) ?? 'it gave no reason'
    throw new UserError(`Maven could not fetch ${set.what}: ${said.trim().slice(0, 400)}`)
  }
}

/** The verified jars, fetched if the cache does not have them. `report` is told when that takes a while. */
export const ensureJars = async (
  set: JarSet,
  cacheDir: string,
  environment: Readonly<Record<string, string | undefined>>,
  report: (line: string) => void,
  signal: AbortSignal,
): Promise<Jars> => {
  const pinned = await readFile(set.checksums, 'utf8')
  const expected = parseChecksums(pinned)
  // A folder for each set of pins: checkouts of different versions share a cache without disturbing each other.
  const key = createHash('sha256').update(pinned).digest('hex').slice(0, 16)
  const home = join(cacheDir, `jars-${key}`)
  const dir = join(home, 'jars')
  const jars: Jars = {
    dir,
    files: [...expected.keys()].sort().map((name) => join(dir, name)),
    derivedDir: join(home, 'derived'),
  }
  await mkdir(jars.derivedDir, { recursive: true }).catch((error: unknown) => {
    throw new UserError(
      `The cache folder ${cacheDir} cannot be written (${error instanceof Error ? error.message : String(error)}): name another with HUB_CACHE_DIR.`,
    )
  })
  if ((await findMismatch(dir, expected)) === null) return jars

  const maven = findProgram('mvn', environment['PATH'])
  if (maven === null) {
    throw new UserError(
      `Maven is needed once, to fetch ${set.what}, and there is none: install it (Debian or Ubuntu: apt install maven; macOS: brew install maven).`,
    )
  }
  report(`fetching ${expected.size} files for ${set.what} with Maven (${set.size}, once for this machine)`)
  const aside = await mkdtemp(join(home, 'fetch-'))
  try {
    await fetchJars(set, maven, aside, signal)
    const mismatch = await findMismatch(aside, expected)
    if (mismatch !== null) {
      throw new UserError(`What Maven fetched is not what ${basename(set.checksums)} pins: ${mismatch}.`)
    }
    // Renames make the folder appear whole or not at all. Where another start was quicker, its files are as good.
    await rename(dir, join(dirname(dir), `bad-${process.pid}`)).catch(() => {})
    await rename(aside, dir).catch(async (error: unknown) => {
      if ((await findMismatch(dir, expected)) !== null) throw error
    })
  } finally {
    await rm(aside, { recursive: true, force: true })
    await rm(join(home, `bad-${process.pid}`), { recursive: true, force: true })
  }
  return jars
}
