/** Retention: how long data is kept, and the jobs that remove older data. */
export type { Job, Step } from './job.ts'
export { RETENTION_JOBS } from './jobs.ts'
export { ACCEPTANCE_AFTER_ID_MS, operatorIdsCutoff } from './periods.ts'
export {
  registerRetentionJobs,
  type Outcome as RetentionOutcome,
  runRetentionStep,
  runRetention,
} from './runner.ts'
