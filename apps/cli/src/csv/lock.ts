/** A lock beside a file that a run continues, so that two processes do not write it. A killed process leaves it. */
import { rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { refused } from '@hub/command-line'

/** Whether a process with this id runs. */
const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Takes the lock of a file, and returns what gives it back. */
export const takeLock = async (path: string): Promise<() => void> => {
  const lock = `${path}.lock`
  for (;;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' })
      return () => rmSync(lock, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const holder = Number(await readFile(lock, 'utf8').catch(() => ''))
    if (Number.isSafeInteger(holder) && holder > 0 && isRunning(holder)) {
      throw refused(
        'run_in_progress',
        `Another process (${holder}) writes ${path}. If it is no run of this command, delete ${lock}.`,
      )
    }
    rmSync(lock, { force: true })
  }
}
