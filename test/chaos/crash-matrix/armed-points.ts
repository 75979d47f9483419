/** Arms the crash points of a hub through the folder that its processes watch. */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { CrashFault, CrashPoint } from '@hub/crash-points'

export interface ArmedPoint {
  /** The id of the process that has reached the point; `null`: none has. */
  readonly reachedBy: () => number | null
  /** Waits until a process has reached the point. Returns `null` if none does in time. */
  readonly reached: (withinMs: number) => Promise<number | null>
  /** Ends the use of the point. Another user can arm it then. */
  readonly release: () => void
}

const POLL_MS = 20

export const makeArmedPoints = (folder: string) => {
  /** A point has one user at a time. */
  const users = new Map<CrashPoint, Promise<void>>()
  return {
    /** Waits until nobody uses the point, and arms it. */
    arm: async (point: CrashPoint, fault: CrashFault): Promise<ArmedPoint> => {
      for (let user = users.get(point); user !== undefined; user = users.get(point)) await user
      const { promise, resolve } = Promise.withResolvers<void>()
      users.set(point, promise)
      const armed = join(folder, `${point}.armed`)
      const reachedFile = join(folder, `${point}.reached`)
      rmSync(reachedFile, { force: true })
      writeFileSync(`${armed}.new`, fault)
      renameSync(`${armed}.new`, armed)
      const reachedBy = () => (existsSync(reachedFile) ? Number(readFileSync(reachedFile, 'utf8')) : null)
      return {
        reachedBy,
        reached: async (withinMs) => {
          const deadline = performance.now() + withinMs
          while (performance.now() < deadline && reachedBy() === null) await delay(POLL_MS)
          return reachedBy()
        },
        release: () => {
          rmSync(armed, { force: true })
          users.delete(point)
          resolve()
        },
      }
    },
  }
}
export type ArmedPoints = ReturnType<typeof makeArmedPoints>
