/**
 * Lets a local hub deliver webhooks to receivers on this machine. The folder `receiver/` of the data
 * folder has a certificate for localhost and that of its authority, which the hub trusts. Only `npm start`
 * uses this: the address policy of the hub itself has no exceptions.
 */
import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Environment } from './settings.ts'
import { UserError } from './user-error.ts'

/** Names and addresses of this machine. */
const LOCAL_HOSTS = ['localhost', '127.0.0.1'] as const

/** Long enough for a data folder that nobody deletes, short enough for strict TLS clients. */
const VALID_DAYS = 365
/** A certificate that ends sooner is replaced at the start. */
const REPLACED_BEFORE_MS = 30 * 86_400_000

const folderOf = (dataDir: string): string => join(dataDir, 'receiver')

/** The key and the certificate of a receiver on localhost: `{"key", "cert"}` in PEM. */
export const receiverTlsFile = (dataDir: string): string => join(folderOf(dataDir), 'tls.json')

const authorityFile = (dataDir: string): string => join(folderOf(dataDir), 'ca.pem')

/** All authorities that the hub trusts: that of the receivers, and those of the developer. */
const trustedFile = (dataDir: string): string => join(folderOf(dataDir), 'trusted.pem')

const write = (path: string, content: string): void => {
  writeFileSync(`${path}.new`, content, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

const isUsable = (dataDir: string): boolean => {
  try {
    const { cert } = JSON.parse(readFileSync(receiverTlsFile(dataDir), 'utf8')) as { readonly cert: string }
    const end = Date.parse(new X509Certificate(cert).validTo)
    return existsSync(authorityFile(dataDir)) && end - Date.now() > REPLACED_BEFORE_MS
  } catch {
    return false
  }
}

/** Milliseconds of work. This only ends a process that hangs. */
const MADE_WITHIN_MS = 60_000

const makeCertificates = async (dataDir: string): Promise<void> => {
  mkdirSync(folderOf(dataDir), { recursive: true })
  const program = join(import.meta.dirname, 'certificates-process.ts')
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [program, String(VALID_DAYS), ...LOCAL_HOSTS],
    {
      timeout: MADE_WITHIN_MS,
    },
  )
  const { authority, ...receiver } = JSON.parse(stdout) as Readonly<Record<string, string>>
  write(authorityFile(dataDir), authority!)
  write(receiverTlsFile(dataDir), JSON.stringify(receiver))
}

const ownAuthorities = (environment: Environment): string => {
  const file = environment['HUB_WEBHOOK_CA_FILE']?.trim() ?? ''
  if (file === '') return ''
  try {
    return readFileSync(file, 'utf8')
  } catch {
    throw new UserError(`HUB_WEBHOOK_CA_FILE cannot be read: ${file}.`)
  }
}

/** The environment of the apps in which receivers on this machine work, besides what it allows already. */
export const withLocalReceivers = async (dataDir: string, environment: Environment): Promise<Environment> => {
  if (!isUsable(dataDir)) await makeCertificates(dataDir)
  const authorities = [readFileSync(authorityFile(dataDir), 'utf8'), ownAuthorities(environment)]
  write(trustedFile(dataDir), authorities.join('\n'))
  const hosts = [...LOCAL_HOSTS, environment['HUB_WEBHOOK_ALLOWED_HOSTS']?.trim() ?? '']
  return {
    ...environment,
    HUB_WEBHOOK_ALLOWED_HOSTS: hosts.filter((host) => host !== '').join(','),
    HUB_WEBHOOK_CA_FILE: trustedFile(dataDir),
  }
}
