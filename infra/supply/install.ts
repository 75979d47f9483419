/**
 * Copies the packages that the image contains from `node_modules`, after a comparison with the lock file.
 * The packages that programs load are copied without source maps and declarations, which nothing reads.
 * The others are in bundles and built files. Of them, the description and the licence are copied: image
 * scanners read the one, and the licences require the other.
 */
import { cpSync } from 'node:fs'
import { join, relative } from 'node:path'
import { loadedFolders, type Lock, type Package, productionPackages, readLock, ROOT } from './packages.ts'

/** The first package that is not installed as the lock file says, or `null`. */
export const differenceOf = (packages: ReadonlyArray<Package>, installed: Lock): string | null => {
  for (const { integrity, isOurs, path, version } of packages) {
    if (isOurs) continue
    const entry = installed[path]
    if (entry === undefined) return `${path} is needed and not installed`
    if (version !== entry.version || integrity !== (entry.integrity ?? null)) {
      return `${path} is installed in another version than the lock has`
    }
  }
  return null
}

const DESCRIPTION = /^(?:package\.json|(?:licen[cs]e|copying|notice)(?:\..+)?)$/iu
const UNREAD = /\.(?:map|d\.[cm]?ts)$/u

/** Whether the image contains a file or folder of a package, `file` is relative to the package. */
export const isCopied = (file: string, isLoaded: boolean): boolean => {
  if (file === '') return true
  // A package inside has its own entry in the lock.
  if (file.split('/')[0] === 'node_modules') return false
  return isLoaded ? !UNREAD.test(file) : DESCRIPTION.test(file)
}

/** Copies the packages into `node_modules` of a folder. Returns the reason if the installed ones are not those of the lock. */
export const installPackages = (folder: string): string | null => {
  const lock = readLock(join(ROOT, 'package-lock.json'))
  const packages = productionPackages(lock)
  const difference = differenceOf(packages, readLock(join(ROOT, 'node_modules/.package-lock.json')))
  if (difference !== null) return difference
  const loaded = loadedFolders(lock)
  for (const { isOurs, path } of packages) {
    if (isOurs) continue
    const from = join(ROOT, path)
    cpSync(from, join(folder, path), {
      recursive: true,
      filter: (file) => isCopied(relative(from, file), loaded.has(path)),
    })
  }
  return null
}
