/**
 * Bundles the programs of the image into a folder inside the repository, with `--local` also those of a local hub:
 *
 *   node infra/bundle/main.ts <folder> [--local]
 */
import { join, resolve } from 'node:path'
import { bundlePrograms, differenceOfPackages, LOCAL_PROGRAMS, PROGRAMS } from './bundle.ts'

const [folder, flag] = process.argv.slice(2)
if (folder === undefined) {
  console.error('Usage: node infra/bundle/main.ts <folder> [--local]')
  process.exitCode = 2
} else {
  const isLocal = flag === '--local'
  const programs = isLocal ? LOCAL_PROGRAMS : PROGRAMS
  const { packages } = await bundlePrograms(programs, join(import.meta.dirname, '../..'), resolve(folder))
  const difference = isLocal ? null : differenceOfPackages(packages)
  if (difference !== null) {
    console.error(difference)
    process.exitCode = 1
  }
}
