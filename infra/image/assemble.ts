/**
 * Copies what the programs need at run time into an empty folder: the packages that they load, the bill of
 * materials, and the files that they read. Bundles and the console are built separately. The image and the archive
 * for systemd contain this folder.
 *
 *   node infra/image/assemble.ts <folder> [<root file system of the image>]
 */
import { cpSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { installPackages } from '../supply/install.ts'
import { ROOT } from '../supply/packages.ts'
import { writeBill } from '../supply/sbom.ts'

/** The files and folders that programs read, relative to the root of the repository. */
const READ = [
  // hubctl prints its version.
  'apps/hubctl/package.json',
  // command-api serves it at /docs/changelog.
  'docs/changelog.md',
  'infra/image/health.ts',
  'infra/image/idle.ts',
  // Node reads in it that these two are modules.
  'package.json',
  'packages/kafka/schemas',
  'packages/store/migrations',
]

/** `root`: the root file system of the image, whose libraries are in the bill of materials too. Fails with an `Error`. */
export const assemble = (folder: string, root: string | null): void => {
  const difference = installPackages(folder)
  if (difference !== null) {
    throw new Error(`The installed packages do not match package-lock.json: ${difference}.`)
  }
  writeBill(join(folder, 'sbom.cdx.json'), root)
  for (const path of READ) cpSync(join(ROOT, path), join(folder, path), { recursive: true })
}

if (import.meta.main) {
  const [folder, root] = process.argv.slice(2)
  if (folder === undefined) {
    console.error('Usage: node infra/image/assemble.ts <folder> [<root file system>]')
    process.exitCode = 2
  } else assemble(resolve(folder), root ?? null)
}
