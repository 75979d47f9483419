/**
 * Finds the hub and the key: the variables `HUB_URL` and `HUB_KEY`, else the file of `hub login`, else
 * the local hub that `npm start` runs in this folder or one above it.
 */
import { statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  CommandFailed,
  isLoopbackAddress,
  isPrivateAddress,
  refused,
  urlOf,
  usageError,
} from '@hub/command-line'
import type { ProcessContext } from './environment.ts'
import { type Login, type Mode, readIfExists, readLogin } from './login-file.ts'

export interface FoundHub {
  readonly baseUrl: string
  readonly key: string
  readonly mode: Mode
  /** Where the address comes from, as words for a note. */
  readonly source: string
  /** The other key of the account, as far as it is known. */
  readonly otherKey: string | null
}

export const modeOfKey = (key: string): Mode => (key.startsWith('hub_live_') ? 'live' : 'test')

/**
 * Other people can write into a folder above the current one, such as /tmp. Their file would name a hub of
 * theirs, to which a command sends the numbers of recipients.
 */
const checkOwner = (file: string): void => {
  const { mode, uid } = statSync(file)
  if (process.getuid !== undefined && uid !== process.getuid()) {
    throw refused(
      'local_hub_of_another_user',
      `${file} belongs to another user, so it is not used. Set HUB_URL and HUB_KEY, or start the command in another folder.`,
    )
  }
  if ((mode & 0o022) !== 0) {
    throw refused(
      'local_hub_of_another_user',
      `Other users can write ${file}, so it is not used. Set HUB_URL and HUB_KEY, or take the permission away (chmod go-w) after a look into the file.`,
    )
  }
}

const parseLocalHub = (file: string, text: string): Login => {
  let login: Login | null = null
  try {
    login = JSON.parse(text) as Login
  } catch {
    // The refusal below covers it.
  }
  if (typeof login?.base_url !== 'string' || typeof login.keys !== 'object') {
    throw refused('local_hub_damaged', `${file} is damaged. Start the local hub again: npm start`)
  }
  if (!isLoopbackAddress(login.base_url)) {
    throw refused(
      'local_hub_elsewhere',
      `${file} names a hub on another machine, so it is not used. A local hub runs on this machine. For another one: hub login`,
    )
  }
  return login
}

/** The description that a running local hub writes. */
export const readLocalHub = ({
  environment,
  folder,
}: ProcessContext): { login: Login; file: string } | null => {
  const configured = environment['HUB_DATA_DIR'] ?? ''
  for (let at = folder; ; at = dirname(at)) {
    const file = configured === '' ? join(at, '.local', 'hub.json') : join(configured, 'hub.json')
    const text = readIfExists(file)
    if (text !== null) {
      checkOwner(file)
      return { login: parseLocalHub(file, text), file }
    }
    if (configured !== '' || at === dirname(at)) return null
  }
}

const ofLogin = (login: Login, source: string, live: boolean): FoundHub | CommandFailed => {
  const mode: Mode = live ? 'live' : 'test'
  const key = login.keys[mode]
  const otherKey = login.keys[live ? 'test' : 'live'] ?? null
  if (key !== undefined) return { baseUrl: login.base_url, key, mode, source, otherKey }
  return refused(
    'no_key',
    live
      ? 'There is no live key. Log in with one: hub login'
      : 'There is no test key. Add --live, or log in with one: hub login',
  )
}

/** `live`: the flag `--live`. Without it, a command uses the test key and reaches no phone. */
export const findHub = (context: ProcessContext, live: boolean): FoundHub | CommandFailed => {
  const found = selectHub(context, live)
  if (found instanceof CommandFailed) return found
  const url = urlOf(found.baseUrl)
  // The client refuses what is no URL.
  if (url === null || isPrivateAddress(url)) return found
  return refused(
    'hub_address_insecure',
    `The hub must have an https address (${found.source}): others could read the key and the numbers.`,
  )
}

const selectHub = (context: ProcessContext, live: boolean): FoundHub | CommandFailed => {
  const { environment } = context
  const url = environment['HUB_URL'] ?? ''
  const key = environment['HUB_KEY'] ?? ''
  if (key !== '' && url === '') return usageError('HUB_KEY is set, but HUB_URL is not.')
  if (url !== '' && key === '') return usageError('HUB_URL is set, but HUB_KEY is not.')
  if (url !== '') {
    const mode = modeOfKey(key)
    if (live !== (mode === 'live')) {
      return usageError(
        live
          ? 'HUB_KEY is a test key, so --live is not possible.'
          : 'HUB_KEY is a live key. Add --live to use it.',
      )
    }
    return { baseUrl: url, key, mode, source: 'HUB_URL', otherKey: null }
  }
  const login = readLogin(environment)
  if (login !== null) return ofLogin(login, 'hub login', live)
  const local = readLocalHub(context)
  if (local !== null) return ofLogin(local.login, local.file, live)
  return refused(
    'no_hub',
    'No hub is known. Log in with "hub login", or set HUB_URL and HUB_KEY, or start a local hub with "npm start".',
  )
}
