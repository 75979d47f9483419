/** Reads the packages of the image from package-lock.json. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isBundled, LOADED_PACKAGES } from '../bundle/bundle.ts'

export const ROOT = join(import.meta.dirname, '../..')

/** The folders of the programs in the image. */
export const PROGRAMS = [
  'apps/command-api',
  // Its packages are in the built files.
  'apps/console',
  'apps/dispatcher',
  'apps/hubctl',
  'apps/operations-api',
  'apps/projector',
  'apps/webhook-fanout',
] as const

/** The fields of a lock entry that this module reads. */
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

/** Lock entries by the folder of the package. */
export type Lock = Readonly<Record<string, LockEntry>>

export const readLock = (path: string): Lock =>
  (JSON.parse(readFileSync(path, 'utf8')) as { readonly packages: Lock }).packages

export interface Package {
  /** The folder is the unique key, because a package may be installed in two versions. */
  readonly path: string
  readonly name: string
  readonly version: string
  /** SPDX expression. `null` if the lock has none, as for our own packages. */
  readonly licence: string | null
  /** npm's format: algorithm, hyphen, base64. `null` for our own packages. */
  readonly integrity: string | null
  readonly isOurs: boolean
  /** The folders of its dependencies, sorted. */
  readonly dependsOn: ReadonlyArray<string>
}

const MODULES = 'node_modules/'

/** Resolves a package name as Node does: in the own node_modules, then in each parent folder. */
const find = (lock: Lock, from: string, name: string): string | null => {
  for (let at = from; ;) {
    const path = `${at === '' ? '' : `${at}/`}${MODULES}${name}`
    const entry = lock[path]
    // A workspace is a link. The entry of its target lists the dependencies.
    if (entry !== undefined) return entry.link === true ? (entry.resolved ?? null) : path
    if (at === '') return null
    at = at.slice(0, Math.max(0, at.lastIndexOf('/')))
  }
}

/** A required dependency is not in the lock, so the lock is damaged. */
const failMissing = (path: string, name: string): never => {
  throw new Error(`package-lock.json has no ${name}, which ${path} depends on`)
}

const dependenciesOf = (lock: Lock, path: string): ReadonlyArray<string> => {
  const entry = lock[path] ?? {}
  const found = new Set<string>()
  for (const name of Object.keys(entry.dependencies ?? {})) {
    found.add(find(lock, path, name) ?? failMissing(path, name))
  }
  // An optional dependency may be absent, for example if it is for another platform.
  for (const name of Object.keys(entry.optionalDependencies ?? {})) {
    const at = find(lock, path, name)
    if (at !== null) found.add(at)
  }
  for (const name of Object.keys(entry.peerDependencies ?? {})) {
    if (entry.peerDependenciesMeta?.[name]?.optional === true) continue
    found.add(find(lock, path, name) ?? failMissing(path, name))
  }
  return [...found].sort()
}

/**
 * A bundle contains what it uses of a library, so the image has only those dependencies of the library
 * that are bundled too, or that bundles load.
 */
const isLeftOut = (path: string, dependency: string): boolean => {
  const name = dependency.slice(MODULES.length)
  return (
    path.startsWith(MODULES) &&
    isBundled(path.slice(MODULES.length)) &&
    !isBundled(name) &&
    !LOADED_PACKAGES.includes(name)
  )
}

const nameOf = (path: string, entry: LockEntry): string =>
  entry.name ?? path.slice(path.lastIndexOf(MODULES) + MODULES.length)

/**
 * The programs and all packages that the image contains, in bundles, in built files or in `node_modules`,
 * sorted by folder. `npm sbom --omit=dev`
 * is no alternative: it omits packages that tests also use, about half of the list.
 */
export const productionPackages = (
  lock: Lock,
  programs: ReadonlyArray<string> = PROGRAMS,
): ReadonlyArray<Package> => {
  const seen = new Map<string, ReadonlyArray<string>>()
  const waiting = [...programs]
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (seen.has(path)) continue
    if (lock[path] === undefined) failMissing('this repository', path)
    const dependsOn = dependenciesOf(lock, path).filter((found) => !isLeftOut(path, found))
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

/** The folders of the packages that programs load from `node_modules`. */
export const loadedFolders = (lock: Lock): ReadonlySet<string> =>
  new Set(
    productionPackages(
      lock,
      LOADED_PACKAGES.map((name) => `${MODULES}${name}`),
    ).map(({ path }) => path),
  )
