/** The checks of all dependencies of a hub. */
export type { Finding, Verdict } from './check.ts'
export { check, checkHub } from './doctor.ts'
export { doctorPool } from './servers.ts'
