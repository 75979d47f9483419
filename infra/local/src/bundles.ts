/** The bundles of the programs that a local hub runs. */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { bundleOf, type LocalProgram, sourcesHash } from '../../bundle/bundle.ts'
import { keepFirst } from './cached-folder.ts'
import { ROOT } from './settings.ts'
import { UserError } from './user-error.ts'

/** Inside `node_modules`, so that the bundles find the packages that are not part of them. */
const FOLDER = join(ROOT, 'node_modules/.cache/hub-bundles')

/** A build takes two seconds, on a loaded machine ten. This only ends a build that hangs. */
const BUILT_WITHIN_MS = 180_000

/** A hub that was started before a change of the sources still restarts its programs from their bundles. */
const KEPT_MS = 7 * 86_400_000

const removeOld = (current: string): void => {
  for (const name of readdirSync(FOLDER)) {
    const path = join(FOLDER, name)
    const { mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? { mtimeMs: Number.POSITIVE_INFINITY }
    if (path !== current && Date.now() - mtimeMs > KEPT_MS) rmSync(path, { recursive: true, force: true })
  }
}

/** The bundler needs 150 MiB, which the supervisor would keep, so it runs in a process of its own. */
const build = async (folder: string): Promise<void> => {
  const unfinished = `${folder}.${process.pid}`
  mkdirSync(FOLDER, { recursive: true })
  removeOld(folder)
  try {
    await promisify(execFile)(process.execPath, [join(ROOT, 'infra/bundle/main.ts'), unfinished, '--local'], {
      timeout: BUILT_WITHIN_MS,
    })
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true })
    throw new UserError(
      `The programs of the hub could not be bundled: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
  keepFirst(unfinished, folder)
}

let ensured: Promise<string> | null = null

const ensure = async (): Promise<string> => {
  const folder = join(FOLDER, sourcesHash(ROOT))
  if (!existsSync(folder)) await build(folder)
  const now = new Date()
  utimesSync(folder, now, now)
  return folder
}

/**
 * Returns the folder with the bundles of this checkout, and builds them if its sources have changed. A
 * process looks once. Fails with a `UserError`.
 */
export const ensureBundles = (): Promise<string> => (ensured ??= ensure())

/** The file of a program of this checkout, for Node. */
export const programFile = async (program: LocalProgram): Promise<string> =>
  bundleOf(await ensureBundles(), program)
