/** The built files of the console. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { ReportProgress } from './stack.ts'

/** A build takes seconds, on a loaded machine a minute. This only ends a build that hangs. */
const BUILT_WITHIN_MS = 180_000

/**
 * Returns the folder with the built console of a checkout; `null` if the checkout has no console. A
 * failed build does not prevent the start: the operations API works without the console.
 */
export const ensureConsole = async (
  sources: string,
  dataDir: string,
  report: ReportProgress,
): Promise<string | null> => {
  const builder = join(sources, 'apps/console/build/build.ts')
  if (!existsSync(builder)) return null
  const program = join(import.meta.dirname, 'console-process.ts')
  try {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [program, builder, join(dataDir, 'console')],
      { timeout: BUILT_WITHIN_MS },
    )
    return stdout.trim()
  } catch (error) {
    report(`The console cannot be built: ${error instanceof Error ? error.message : String(error)}`)
    return null
  }
}
