/** Finds a Java installation that Kafka can use. */
import { execFile } from 'node:child_process'
import { realpath, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram } from './path.ts'
import { UserError } from './user-error.ts'

/** Kafka 4 brokers are compiled for Java 17. */
const JAVA_MINIMUM = 17

export interface Java {
  readonly command: string
  /** The full version, such as `17.0.15`: a class archive is valid for one build only. */
  readonly version: string
}

const noJava = (problem: string): UserError =>
  new UserError(
    `Kafka needs Java ${JAVA_MINIMUM} or newer and ${problem}: install one (Debian or Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) or point JAVA_HOME at it.`,
  )

const run = promisify(execFile)

/** The version in a `release` file (`JAVA_VERSION="17.0.15"`) or the output of `java -version`. */
export const parseJavaVersion = (text: string): string | null =>
  /(?:JAVA_VERSION=|version )"(\d+[\d._]*)/u.exec(text)?.[1] ?? null

/** 17 for `17.0.15`, 8 for `1.8.0_402`. */
export const majorOf = (version: string): number => {
  const [first, second] = version.split(/[._]/u)
  return Number(first === '1' ? second : first)
}

const versionOf = async (command: string): Promise<string | null> => {
  // Reads the `release` file beside `bin`, because starting Java takes a tenth of a second.
  const release = await realpath(command)
    .then((path) => readFile(join(dirname(dirname(path)), 'release'), 'utf8'))
    .catch(() => '')
  const released = parseJavaVersion(release)
  if (released !== null) return released
  return run(command, ['-version'], { timeout: 10_000 }).then(
    ({ stderr, stdout }) => parseJavaVersion(`${stderr}\n${stdout}`),
    () => null,
  )
}

/** The Java of `JAVA_HOME`, else the one on the PATH. */
export const findJava = async (environment: Readonly<Record<string, string | undefined>>): Promise<Java> => {
  const home = environment['JAVA_HOME']
  const command =
    (home === undefined || home === '' ? null : findProgram('java', join(home, 'bin'))) ??
    findProgram('java', environment['PATH'])
  if (command === null) throw noJava('there is none')
  const version = await versionOf(command)
  // Without Java, the /usr/bin/java of macOS only prints a hint.
  if (version === null) throw noJava(`${command} does not run`)
  if (majorOf(version) < JAVA_MINIMUM) throw noJava(`${command} is ${version}`)
  return { command, version }
}
