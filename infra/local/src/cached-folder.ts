/** Folders in the cache that several starts may create at the same time. */
import { renameSync, rmSync } from 'node:fs'

/** Makes a complete folder appear under its final name, unless another start was faster. */
export const keepFirst = (complete: string, final: string): void => {
  try {
    renameSync(complete, final)
  } catch {
    // The existing folder is not empty, so it is complete.
    rmSync(complete, { recursive: true, force: true })
  }
}
