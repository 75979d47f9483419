/** What the image is made of, as package-lock.json has it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../..')

/** The programs of the image, by their folders. */
export const PROGRAMS = [
  'apps/command-api',
  'apps/dispatcher',
  'apps/hubctl',
  'apps/projector',
  'apps/webhook-fanout',
] as const

/** One entry of the lock, as far as it is looked at. */
interface LockEntry {
  readonly name?: string
  readonly version?: string
  readonly license?: string
  readonly integrity?: string
  readonly resolved?: string
  readonly link?: boolean
  readonly optional?: boolean
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

/** Entries by the folder that a package lies in. */
export type Lock = Readonly<Record<string, LockEntry>>

export const readLock = (path: string): Lock =>
  (JSON.parse(readFileSync(path, 'utf8')) as { readonly packages: Lock }).packages

export interface Package {
  /** The folder, which names it once: the same package may be there in two versions. */
  readonly path: string
  readonly name: string
  readonly version: string
  /** SPDX expression; `null` where the lock has none, as of our own. */
  readonly licence: string | null
  /** As npm has it: algorithm, hyphen, base64. `null` for our own. */
  readonly integrity: string | null
  readonly isOurs: boolean
  /** Folders of what it depends on, in order. */
  readonly dependsOn: ReadonlyArray<string>
}

const MODULES = 'node_modules/'

/** Where a package finds another by name, as Node looks for it: beside itself first, then in each folder above. */
const find = (lock: Lock, from: string, name: string): string | null => {
  for (let at = from; ;) {
    const path = `${at === '' ? '' : `${at}/`}${MODULES}${name}`
    const entry = lock[path]
    // A workspace is a link; what it depends on is said where it really lies.
    if (entry !== undefined) return entry.link === true ? (entry.resolved ?? null) : path
    if (at === '') return null
    at = at.slice(0, Math.max(0, at.lastIndexOf('/')))
  }
}

/** A dependency that a package cannot do without is not in the lock: the lock is damaged. */
const missing = (path: string, name: string): never => {
  throw new Error(`package-lock.json has no ${name}, which ${path} depends on`)
}

const dependenciesOf = (lock: Lock, path: string): ReadonlyArray<string> => {
  const entry = lock[path] ?? {}
  const found = new Set<string>()
  for (const name of Object.keys(entry.dependencies ?? {})) {
    found.add(find(lock, path, name) ?? missing(path, name))
  }
  // What is not there for this platform, or not wanted by anybody else, is not there.
  for (const name of Object.keys(entry.optionalDependencies ?? {})) {
    const at = find(lock, path, name)
    if (at !== null) found.add(at)
  }
  for (const name of Object.keys(entry.peerDependencies ?? {})) {
    if (entry.peerDependenciesMeta?.[name]?.optional === true) continue
    found.add(find(lock, path, name) ?? missing(path, name))
  }
  return [...found].sort()
}

const nameOf = (path: string, entry: LockEntry): string =>
  entry.name ?? path.slice(path.lastIndexOf(MODULES) + MODULES.length)

/**
 * Everything that the programs need at run time, themselves included, in the order of the folders. npm's own list (`npm sbom --omit=dev`)
 * leaves out what the tests want as well, which is half of it.
 */
export const productionPackages = (
  lock: Lock,
  programs: ReadonlyArray<string> = PROGRAMS,
): ReadonlyArray<Package> => {
  const seen = new Map<string, ReadonlyArray<string>>()
  const waiting = [...programs]
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (seen.has(path)) continue
    if (lock[path] === undefined) missing('this repository', path)
    const dependsOn = dependenciesOf(lock, path)
    seen.set(path, dependsOn)
    waiting.push(...dependsOn)
  }
  return [...seen]
    .map(([path, dependsOn]): Package => {
      const entry = lock[path] ?? {}
      return {
        path,
        name: nameOf(path, entry),
        version: entry.version ?? '',
        licence: entry.license ?? null,
        integrity: entry.integrity ?? null,
        isOurs: !path.startsWith(MODULES),
        dependsOn,
      }
    })
    .sort((a, b) => (a.path < b.path ? -1 : 1))
}
