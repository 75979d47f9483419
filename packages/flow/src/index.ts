/** Loops and pauses: backoff after failures, and the supervision of loops. */
export { type Backoff, backoffMs, backoffSchedule, PATIENT, QUICK, SHORT } from './backoff.ts'
export { makeSupervisor, type Supervisor } from './supervisor.ts'
