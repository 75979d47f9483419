/**
 * Selects the hub that hubctl uses. If `HUB_DATABASE_URL` or its file is set, the environment describes it.
 * Otherwise it is the local hub: `npm start` writes its variables to `hubctl.env` in its data
 * folder (`.local`, or `HUB_DATA_DIR`). Settings of two hubs are never mixed.
 */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { type CommandFailed, printNote, unavailable } from '@hub/command-line'
import { readSecretFile } from '@hub/config'
import { ConfigProvider, Context, Effect, Layer, Result } from 'effect'

/** The checkout of this file, in which a local hub has its data folder. */
const ROOT = resolve(import.meta.dirname, '../../..')

type Variables = Readonly<Record<string, string>>

/** The environment variables of the process. */
export const Environment = Context.Reference<Variables>('@hub/hubctl/Environment', {
  defaultValue: () =>
    Object.fromEntries(
      Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    ),
})

interface HubSettings {
  /** For people, without secrets. */
  readonly title: string
  readonly variables: Variables
}

/** Host and database name, without the password. */
const describeUrl = (url: string): string =>
  URL.canParse(url) ? `${new URL(url).host}${new URL(url).pathname}` : 'a database whose URL cannot be read'

/** Whatever is wrong with the file is reported when the setting is read. */
const urlOfFile = (file: string): string => Result.getOrElse(readSecretFile(file), () => '')

const readFileIfExists = (path: string): string | null => {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

export const findHub = (environment: Variables): Result.Result<HubSettings, CommandFailed> => {
  const file = environment['HUB_DATABASE_URL_FILE']?.trim() || null
  const url = environment['HUB_DATABASE_URL']?.trim() || (file === null ? null : urlOfFile(file))
  if (url !== null) {
    return Result.succeed({ title: `the hub at ${describeUrl(url)}`, variables: environment })
  }
  const dataDir = resolve(ROOT, environment['HUB_DATA_DIR']?.trim() || '.local')
  const text = readFileIfExists(join(dataDir, 'hubctl.env'))
  if (text === null) {
    const message = `HUB_DATABASE_URL is not set, and no local hub runs in ${dataDir}. Set it, or run npm start.`
    return Result.fail(unavailable('no_hub', message))
  }
  const others = Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('HUB_')))
  return Result.succeed({
    title: `the local hub in ${dataDir}`,
    variables: { ...others, ...(parseEnv(text) as Variables) },
  })
}

/** Makes `Config` read the settings of the selected hub, and prints which hub that is. */
export const selectedHub: Layer.Layer<never, CommandFailed> = ConfigProvider.layer(
  Effect.gen(function* () {
    const hub = yield* Effect.fromResult(findHub(yield* Environment))
    yield* printNote(`hubctl: ${hub.title}`)
    return ConfigProvider.fromEnv({ env: hub.variables })
  }),
)
