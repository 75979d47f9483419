/**
 * Starts a third-party schema registry: Apicurio with in-memory storage and its Confluent-
 * compatible API.
 */
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ensureJars, findJava, freePortBase, UserError, readSettings, ROOT } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import { SHORT_JAVA_RUN, startProgram } from './program.ts'
import { runTool } from './external-tools.ts'

const FOLDER = join(ROOT, 'test/read-models/schema-registry')
/** The download has 142 MB. It happens once for each machine. */
const FETCH_WITHIN_MS = 240_000
/** The start takes three seconds. A busy machine may need minutes. */
const START_WITHIN_MS = 600_000

/** Returns the folder with the unpacked program, beside the Maven download. */
const unpacked = async (): Promise<string> => {
  const { derivedDir, files } = await ensureJars(
    {
      pom: join(FOLDER, 'pom.xml'),
      checksums: join(FOLDER, 'files.sha256'),
      what: 'the schema registry of Apicurio',
      size: '142 MB',
    },
    readSettings(process.env).cacheDir,
    process.env,
    (line) => console.log(line),
    AbortSignal.timeout(FETCH_WITHIN_MS),
  )
  const folder = join(derivedDir, 'app')
  if (existsSync(folder)) return folder
  const temporary = mkdtempSync(`${folder}.`)
  try {
    const { code, text } = await runTool('tar', ['-xzf', files[0]!, '-C', temporary], {
      withinMs: START_WITHIN_MS,
    })
    if (code !== 0) throw new UserError(`The schema registry of Apicurio could not be unpacked: ${text}`)
    renameSync(temporary, folder)
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
  return folder
}

interface Registry {
  /** The Confluent-compatible API. */
  readonly url: string
  readonly stop: () => Promise<void>
}

/** Starts an empty registry, or says why it cannot run on this machine. */
export const startRegistry = async (): Promise<Registry | { readonly missing: string }> => {
  try {
    const { command } = await findJava(process.env)
    const folder = await unpacked()
    const port = await freePortBase()
    const program = startProgram(command, [
      ...SHORT_JAVA_RUN,
      '-Xmx384m',
      '-Dquarkus.http.host=127.0.0.1',
      `-Dquarkus.http.port=${port}`,
      '-jar',
      join(folder, 'apicurio-registry-app-2.6.13.Final-runner.jar'),
    ])
    const url = `http://127.0.0.1:${port}/apis/ccompat/v7`
    await eventually(
      async () => {
        if (!program.isRunning()) return true
        const response = await fetch(`${url}/subjects`)
        await response.arrayBuffer()
        return response.ok
      },
      { withinMs: START_WITHIN_MS, everyMs: 100 },
    )
    if (!program.isRunning()) {
      throw new Error(`the schema registry ended. Its last output:\n${program.lines.slice(-20).join('\n')}`)
    }
    return { url, stop: program.stop }
  } catch (error) {
    if (error instanceof UserError) return { missing: error.message }
    throw error
  }
}
