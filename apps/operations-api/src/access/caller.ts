import type { Actor } from '@hub/operations'
import type { Session } from './sessions.ts'

/** Who sends a request. */
export interface Caller {
  readonly actor: Actor
  /** `null`: a program with a bearer token. */
  readonly session: Session | null
}
