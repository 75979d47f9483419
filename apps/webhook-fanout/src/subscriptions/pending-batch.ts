/** A webhook batch while it waits for its delivery, as the deliverer holds it in memory. */
import type { TraceHeaders } from '@hub/telemetry'

export interface PendingBatch {
  readonly uuid: string
  /** `evb_…` */
  readonly id: string
  readonly attempts: number
  readonly queuedAt: number
  /** The next attempt by its own schedule, or the end of its retry window; ms since the epoch. */
  readonly dueAt: number
  /** UUID of the redelivery that it belongs to; its attempts do not change the endpoint health. */
  readonly redelivery: string | null
  /** The traces of its events, where some are traced; only for a batch that was just stored. */
  readonly traces?: ReadonlyArray<TraceHeaders>
  /** `null`: the body is only in PostgreSQL. */
  body: Uint8Array | null
  /** From the start of an attempt until its outcome is recorded. */
  attempt: RunningAttempt | null
}

/** An attempt that is in flight, or whose outcome is not recorded yet. */
export interface RunningAttempt {
  /** Closes the connection. */
  abort: () => void
  /** Its outcome is known. */
  ended: boolean
}

/** The last batch that a scan of due batches has read; the scan continues behind it. */
export interface BatchCursor {
  /** When the batch is due, microseconds since the epoch, which is the resolution of PostgreSQL. */
  readonly dueAt: number
  /** Journal sequence of its first event. */
  readonly sequence: number
}
