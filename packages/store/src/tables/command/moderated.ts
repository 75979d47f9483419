/** The shape and the filters that senders and templates have in common: hub staff moderate both. */
import type { Mode } from '@hub/domain'

export interface ModeratedRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly name: string
  readonly reason: string | null
  readonly created_at: Date
}

/** Filters for rows, oldest first; `null`: any. Ids are UUIDs. */
export interface ModerationFilter {
  readonly id: string | null
  readonly account: string | null
  readonly mode: Mode | null
  readonly status: string | null
  readonly limit: number
}
