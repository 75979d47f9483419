/**
 * Executes retention, in any number of processes. A step locks the row of its job and stores its
 * progress in one transaction, so any process can execute the next step.
 */
import { Cause, Clock, Duration, Effect, type Scope } from 'effect'
import { storageCrashPoint } from '../crash-points.ts'
import { type Queries, Sql, type StorageError } from '../sql.ts'
import type { Job } from './job.ts'
import { RETENTION_JOBS } from './jobs.ts'
import { observeFailure, observeFinished, observeStep } from './metrics.ts'

/** A step takes some tens of milliseconds. The drop of a partition may wait for locks. */
const DEADLINE = { deadline: Duration.seconds(8) }

/** The pause after a step, so that requests have priority. */
const STEP_PAUSE_MS = 20

/** The pause after a failed step. */
const RETRY_AFTER_MS = 30_000

/** How often an idle runner looks for jobs that are due. */
const POLL_INTERVAL = Duration.seconds(5)

/** The outcome of one step. */
export type Outcome =
  /** No job is due, or other processes execute them. */
  | { readonly type: 'idle' }
  | {
      readonly type: 'step'
      readonly job: string
      readonly removed: number
      /** Whether the run has ended. */
      readonly ended: boolean
      readonly held: string | null
    }
  | { readonly type: 'failed'; readonly job: string; readonly error: StorageError }

const atStepped = storageCrashPoint(
  'projector.retention-stepped',
  (outcome: Outcome) => outcome.type === 'step' && outcome.removed > 0,
)

/** Inserts jobs that the database does not know yet. */
export const registerRetentionJobs = (
  jobs: ReadonlyArray<Job> = RETENTION_JOBS,
): Effect.Effect<void, StorageError, Sql> =>
  Effect.flatMap(Effect.all([Sql, Clock.currentTimeMillis]), ([sql, now]) =>
    Effect.asVoid(
      sql.run(
        (q) => q`
          INSERT INTO command.retention_jobs (job, next_at)
          SELECT job, ${new Date(now)} FROM unnest(${jobs.map(({ name }) => name)}::text[]) AS j (job)
          ON CONFLICT DO NOTHING`,
      ),
    ),
  )

/** Locks the job that has been due longest. */
const lockDueJob = async (q: Queries, jobs: ReadonlyArray<Job>, now: number) => {
  const [row] = await q<{ job: string; position: string | null }[]>`
    SELECT job, position FROM command.retention_jobs
     WHERE next_at <= ${new Date(now)} AND job = ANY (${jobs.map(({ name }) => name)})
     ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED`
  const job = jobs.find(({ name }) => name === row?.job)
  return row === undefined || job === undefined ? null : { job, position: row.position }
}

/** Executes one step of a job that is due. */
export const runRetentionStep = Effect.fnUntraced(function* (
  jobs: ReadonlyArray<Job> = RETENTION_JOBS,
): Effect.fn.Return<Outcome, StorageError, Sql> {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  // The job of the transaction, for the case that it fails.
  let failedJob: string | null = null
  const attempt = sql.transaction(async (q): Promise<Outcome> => {
    const locked = await lockDueJob(q, jobs, now)
    if (locked === null) return { type: 'idle' }
    const { job, position } = locked
    failedJob = job.name
    const step = await job.step(q, now, position)
    const ended = step.position === null
    await q`
      UPDATE command.retention_jobs SET
        next_at = ${new Date(now + (ended ? job.everyMs : STEP_PAUSE_MS))},
        started_at = ${ended ? null : q`coalesce(started_at, ${new Date(now)})`},
        position = ${step.position},
        removed = ${ended ? 0 : q`removed + ${step.removed}`},
        steps = ${ended ? 0 : q`steps + 1`},
        last_started_at = ${ended ? q`coalesce(started_at, ${new Date(now)})` : q`last_started_at`},
        last_finished_at = ${ended ? new Date(now) : q`last_finished_at`},
        last_removed = ${ended ? q`removed + ${step.removed}` : q`last_removed`},
        last_steps = ${ended ? q`steps + 1` : q`last_steps`},
        held = ${step.held ?? null}, failures = 0, failure = NULL
       WHERE job = ${job.name}`
    return { type: 'step', job: job.name, removed: step.removed, ended, held: step.held ?? null }
  }, DEADLINE)

  const outcome = yield* Effect.catch(atStepped(attempt), (error): Effect.Effect<Outcome, StorageError> => {
    const job = failedJob
    if (job === null) return Effect.fail(error)
    return Effect.as(
      sql.run(
        (q) => q`
          UPDATE command.retention_jobs
             SET next_at = ${new Date(now + RETRY_AFTER_MS)}, failures = failures + 1,
                 failure = ${error._tag === 'StorageRejected' ? error.code : error.detail}
           WHERE job = ${job}`,
      ),
      { type: 'failed', job, error },
    )
  })
  if (outcome.type === 'step') {
    observeStep(outcome.job, outcome.removed, outcome.held !== null)
    if (outcome.ended) observeFinished(outcome.job, now)
  }
  if (outcome.type === 'failed') {
    observeFailure(outcome.job)
    yield* Effect.logWarning('retention: step failed, retrying', outcome.error).pipe(
      Effect.annotateLogs({ job: outcome.job }),
    )
  }
  return outcome
})

/** Runs retention until the scope closes. */
export const runRetention: Effect.Effect<void, never, Sql | Scope.Scope> = Effect.gen(function* () {
  const step = Effect.andThen(registerRetentionJobs(), runRetentionStep()).pipe(
    Effect.map((outcome) =>
      outcome.type === 'step' && !outcome.ended
        ? Duration.millis(STEP_PAUSE_MS)
        : outcome.type === 'idle'
          ? POLL_INTERVAL
          : Duration.zero,
    ),
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.as(
            Effect.logWarning('retention: PostgreSQL is unavailable, retrying', cause),
            POLL_INTERVAL,
          ),
    ),
  )
  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(step, Effect.sleep)))
})
