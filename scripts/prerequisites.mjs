/**
 * Checks before the packages are installed whether a program of the project will find Java and
 * Maven, which the local servers need. It runs on Node 20 without any package, so it repeats what
 * `infra/local` does in full when it starts the servers.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'

/** Kafka 4 brokers are compiled for Java 17. */
const JAVA_MINIMUM = 17

const find = (name, path) =>
  (path ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK)
        return true
      } catch {
        return false
      }
    })

const isSet = (value) => value !== undefined && value.trim() !== ''

/** Whether the program starts Kafka. Unit tests and generators do not. */
const startsServers = (program, args) =>
  (program === 'infra/local/src/main.ts' && args[0] === 'start') ||
  (program === 'scripts/test.ts' && args[0] !== 'unit') ||
  program === 'benchmarks/run.ts'

const javaProblem = (env) => {
  const command =
    (isSet(env.JAVA_HOME) ? find('java', join(env.JAVA_HOME, 'bin')) : undefined) ?? find('java', env.PATH)
  if (command === undefined) return 'there is none'
  const { stderr = '', stdout = '' } = spawnSync(command, ['-version'], { encoding: 'utf8', timeout: 10_000 })
  const [, first, second] = /version "(\d+)(?:[._](\d+))?/u.exec(`${stderr}\n${stdout}`) ?? []
  if (first === undefined) return `${command} does not run`
  const major = Number(first === '1' ? second : first)
  return major < JAVA_MINIMUM ? `${command} is Java ${major}` : null
}

/** The folder of what all hubs of a user share. */
export const cacheDir = (root, env) => {
  const cacheHome = isSet(env.XDG_CACHE_HOME) ? env.XDG_CACHE_HOME : join(homedir(), '.cache')
  return resolve(root, isSet(env.HUB_CACHE_DIR) ? env.HUB_CACHE_DIR : join(cacheHome, 'sms-delivery-hub'))
}

/** Whether an earlier start has fetched the jars. The start verifies them. */
const hasJars = (root, env) => {
  const pinned = readFileSync(join(root, 'infra/local/jars.sha256'))
  const key = createHash('sha256').update(pinned).digest('hex').slice(0, 16)
  return existsSync(join(cacheDir(root, env), `jars-${key}`, 'jars'))
}

/** Returns one sentence about what is missing, or null. */
export const missingPrerequisite = (root, program, args, env) => {
  if (!startsServers(program, args) || isSet(env.HUB_KAFKA_BROKERS)) return null
  const problem = javaProblem(env)
  if (problem !== null) {
    return `Kafka needs Java ${JAVA_MINIMUM} or newer and ${problem}: install one (Debian or Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) or point JAVA_HOME at it.`
  }
  if (find('mvn', env.PATH) === undefined && !hasJars(root, env)) {
    return 'Maven is needed once to fetch Kafka and Redis, but it is not on the PATH: install it (Debian or Ubuntu: apt install maven; macOS: brew install maven).'
  }
  return null
}
