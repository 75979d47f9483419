/**
 * Which hub hubctl talks to. Where `HUB_DATABASE_URL` is set, the one that the environment describes, by the same variables that the apps
 * read. Otherwise the local one: while it runs, `npm start` keeps those variables in `hubctl.env` in its data folder (`.local`, or
 * `HUB_DATA_DIR`). Settings of two hubs are never mixed: of the environment, a local hub's settings are all taken from the file.
 */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { ConfigProvider, Context, Effect, Layer, Result } from 'effect'
import { type CommandFailed, unavailable } from './command-line/failure.ts'
import { note } from './command-line/output.ts'

/** The checkout this file belongs to: where a local hub has its data folder. */
const ROOT = resolve(import.meta.dirname, '../../..')

type Variables = Readonly<Record<string, string>>

/** The variables that hubctl was started with. */
export const Environment = Context.Reference<Variables>('@hub/hubctl/Environment', {
  defaultValue: () =>
    Object.fromEntries(
      Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    ),
})

export interface HubSettings {
  /** For people, without secrets. */
  readonly title: string
  readonly variables: Variables
}

/** Host and name of a database; a URL has a password as well. */
const placeOf = (url: string): string =>
  URL.canParse(url) ? `${new URL(url).host}${new URL(url).pathname}` : 'a database whose URL cannot be read'

/** `read` answers the text of a file, or `null` where there is none. */
export const findHub = (
  surroundings: Variables,
  read: (path: string) => string | null,
): Result.Result<HubSettings, CommandFailed> => {
  const url = surroundings['HUB_DATABASE_URL']?.trim()
  if (url !== undefined && url !== '') {
    return Result.succeed({ title: `the hub at ${placeOf(url)}`, variables: surroundings })
  }
  const dataDir = resolve(ROOT, surroundings['HUB_DATA_DIR']?.trim() || '.local')
  const text = read(join(dataDir, 'hubctl.env'))
  if (text === null) {
    return Result.fail(
      unavailable(
        'no_hub',
        `HUB_DATABASE_URL is not set, and no local hub runs in ${dataDir}: set it, or run npm start.`,
      ),
    )
  }
  const others = Object.fromEntries(Object.entries(surroundings).filter(([name]) => !name.startsWith('HUB_')))
  return Result.succeed({
    title: `the local hub in ${dataDir}`,
    variables: { ...others, ...(parseEnv(text) as Variables) },
  })
}

export const readIfThere = (path: string): string | null => {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Makes `Config` read the settings of the hub that was found, and says on standard error which one that is. */
export const settings: Layer.Layer<never, CommandFailed> = ConfigProvider.layer(
  Effect.gen(function* () {
    const surroundings = yield* Environment
    const hub = yield* Effect.fromResult(findHub(surroundings, readIfThere))
    yield* note(`hubctl: ${hub.title}`)
    return ConfigProvider.fromEnv({ env: hub.variables })
  }),
)
