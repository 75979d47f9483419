/**
 * The server delay: how long PostgreSQL and Kafka take for a send, while they are slow. Admission control
 * adds it to its limits: while a server answers late, each send is in progress for longer, although it does
 * not wait for other sends. Refusing some of them would not make the others faster. Pure: no clock, no I/O.
 *
 * It is the least time from the start of an acceptance batch to the acceptance of one of its sends. It
 * covers the last 0.5 to 1 s. A queue makes many of these times longer, but rarely all of them. Source: the
 * least round trip of TCP BBR (N. Cardwell and others, "BBR: Congestion-Based Congestion Control", 2016);
 * docs/decisions/overload.md#server-delay.
 */
import type { WorkKind } from './work-kinds.ts'

/** A shorter time is that of fast servers, and counts as 0. */
export const SLOW_MS = 150
/** A longer delay counts as this one: a send that takes longer misses its deadline in any case. */
export const LONGEST_MS = 2000
/** The least time is that of the current window and of the one before. */
export const WINDOW_MS = 500
/**
 * While the event loop has work for at least this share of the time, the process itself is late with every
 * step of a send. These times do not show how slow the servers are.
 */
export const BUSY_UTILIZATION = 0.8

type Times = Readonly<Record<WorkKind, number>>
const NONE: Times = { otp: Infinity, service: Infinity, batch: Infinity }

/** For each kind, the shorter time. */
const least = (a: Times, b: Times): Times => ({
  otp: Math.min(a.otp, b.otp),
  service: Math.min(a.service, b.service),
  batch: Math.min(a.batch, b.batch),
})

const addedBy = (ms: number): number => (ms < SLOW_MS || ms === Infinity ? 0 : Math.min(LONGEST_MS, ms))

export const makeServerDelay = () => {
  let inSample = NONE
  let inWindow = NONE
  let inWindowBefore = NONE
  let windowMs = 0
  let added: Times = { otp: 0, service: 0, batch: 0 }

  return {
    /** A new message of this kind was accepted so many milliseconds after its acceptance batch began. */
    accepted: (kind: WorkKind, ms: number): void => {
      inSample = { ...inSample, [kind]: Math.min(inSample[kind], ms) }
    },
    /** Ends a sample of `ms` milliseconds. */
    sample: (ms: number, eventLoopUtilization: number): void => {
      if (eventLoopUtilization < BUSY_UTILIZATION) inWindow = least(inWindow, inSample)
      inSample = NONE
      windowMs += ms
      if (windowMs >= WINDOW_MS) {
        windowMs = 0
        inWindowBefore = inWindow
        inWindow = NONE
      }
      const { batch, otp, service } = least(inWindow, inWindowBefore)
      const single = Math.max(addedBy(otp), addedBy(service))
      added = { otp: addedBy(otp), service: single, batch: Math.max(single, addedBy(batch)) }
    },
    /**
     * Milliseconds that slow servers add to a send of this kind; 0 while they are fast, or nothing was
     * accepted. Sends of all more urgent kinds are in progress before it, so the longest time counts.
     */
    addedMs: (kind: WorkKind): number => added[kind],
  }
}
