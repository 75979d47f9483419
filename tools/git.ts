/** The git history for the gates of `npm run verify`. */
import { execFileSync } from 'node:child_process'

/** What git prints, run in a folder. `null`: it failed, for example because there is no history. */
export const git = (folder: string, ...args: ReadonlyArray<string>): string | null => {
  try {
    return execFileSync('git', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return null
  }
}
