/** Loops and pauses: backoff after failures, the supervision of loops, the gathering of work, wake-ups. */
export { type Backoff, backoffMs, backoffSchedule, PATIENT, QUICK, SHORT } from './backoff.ts'
export { makeGather } from './gather.ts'
export { makeSupervisor, type Supervisor } from './supervisor.ts'
export { makeWakeSignal } from './wake-signal.ts'
