/**
 * Where a member keeps its id over restarts: a file of its own. Whoever starts and finds one knows that the process which wrote it is
 * gone, and can end its session (`leaveFor`), for which the group would wait otherwise.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

export interface SavedMember {
  readonly group: string
  readonly memberId: string
}

/** What the file says; undefined where there is none, or one torn by a crash: then the old session ends by itself. */
export const readMember = (file: string): SavedMember | undefined => {
  try {
    const saved = JSON.parse(readFileSync(file, 'utf8')) as { group?: unknown; memberId?: unknown }
    return typeof saved.group === 'string' && typeof saved.memberId === 'string'
      ? { group: saved.group, memberId: saved.memberId }
      : undefined
  } catch {
    return undefined
  }
}

/** Throws where the folder cannot be written to. */
export const writeMember = (file: string, member: SavedMember): void => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify(member))
}

export const removeMember = (file: string): void => rmSync(file, { force: true })
