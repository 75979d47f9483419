/**
 * The file in which a group member keeps its member id over restarts. A process that finds the file
 * at its start can end the session of the process that wrote it.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

interface SavedMember {
  readonly group: string
  readonly memberId: string
}

/** `undefined` if the file is absent or damaged. The old session then ends by its timeout. */
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

/** Throws where the folder is not writable. */
export const writeMember = (file: string, member: SavedMember): void => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify(member))
}

export const removeMember = (file: string): void => rmSync(file, { force: true })
