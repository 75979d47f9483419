/** For how long what is kept, and the jobs that keep to it. */
export type { Job, Step } from './job.ts'
export { JOBS } from './jobs.ts'
export { ACCEPTED_LATER, operatorIdsSince, personalDataSince, recordsSince } from './periods.ts'
export { enlistJobs, type Outcome as RetentionOutcome, retentionStep, runRetention } from './runner.ts'
