/** The file of `hub login`: the address of a hub and the keys of an account, readable only by its owner. */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { refused } from '@hub/command-line'
import type { Environment } from './environment.ts'

export type Mode = 'test' | 'live'

export interface Login {
  readonly base_url: string
  readonly keys: { readonly [Name in Mode]?: string }
}

/** The folder for the files of this program. */
export const configFolder = (environment: Environment): string => {
  const home = environment['XDG_CONFIG_HOME'] ?? ''
  return join(home === '' ? join(environment['HOME'] ?? homedir(), '.config') : home, 'sms-delivery-hub')
}

const loginFile = (environment: Environment): string => join(configFolder(environment), 'login.json')

/** Writes a file that only its owner can read. A crash leaves the earlier content. */
export const writePrivateFile = (path: string, content: string): void => {
  mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 })
  const temporary = `${path}.${process.pid}`
  writeFileSync(temporary, content, { mode: 0o600 })
  chmodSync(temporary, 0o600)
  renameSync(temporary, path)
}

/** `null` if there is no such file. */
export const readIfExists = (path: string): string | null => {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw refused('file_unreadable', `${path} cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  }
}

export const readLogin = (environment: Environment): Login | null => {
  const path = loginFile(environment)
  const text = readIfExists(path)
  if (text === null) return null
  try {
    const login = JSON.parse(text) as Login
    if (typeof login.base_url === 'string' && typeof login.keys === 'object') return login
  } catch {
    // The message below covers it.
  }
  throw refused('login_damaged', `${path} is damaged. Log in again: hub login`)
}

/** Returns the path of the file. */
export const writeLogin = (environment: Environment, login: Login): string => {
  const path = loginFile(environment)
  writePrivateFile(path, `${JSON.stringify(login, null, 2)}\n`)
  return path
}
