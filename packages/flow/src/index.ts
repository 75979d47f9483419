/** Loops and pauses: backoff after failures, the supervision of loops, and waits that can be ended. */
export { type Backoff, backoffMs, backoffSchedule, PATIENT, QUICK, SHORT } from './backoff.ts'
export { makeSupervisor, type Supervisor } from './supervisor.ts'
export { makeWakeSignal } from './wake-signal.ts'
