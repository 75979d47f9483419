/**
 * Makes the steps of retention. Any number of processes may do so: a step holds the row of its job, so there is one at a time, and what it
 * leaves there in the same transaction is where the next one goes on, whoever makes it. Time comes from the clock of the effect.
 */
import { Cause, Clock, Duration, Effect, type Scope } from 'effect'
import { type Queries, Sql, type StorageError } from '../sql.ts'
import type { Job } from './job.ts'
import { RETENTION_JOBS } from './jobs.ts'
import { observeFailure, observeFinished, observeStep } from './metrics.ts'

/** A step takes some tens of milliseconds; to drop a partition it may wait for others. */
const DEADLINE = { deadline: Duration.seconds(8) }

/** Between two steps of a run: what the hub is for goes first. */
const STEP_PAUSE_MS = 20

/** After a step that failed. */
const AGAIN_AFTER_MS = 30_000

/** How often an idle runner looks what is due. */
const LOOK_EVERY = Duration.seconds(5)

/** What one step came to. */
export type Outcome =
  /** Nothing is due, or others are at it. */
  | { readonly type: 'idle' }
  | {
      readonly type: 'step'
      readonly job: string
      readonly removed: number
      /** The run has come to its end. */
      readonly ended: boolean
      readonly held: string | null
    }
  | { readonly type: 'failed'; readonly job: string; readonly error: StorageError }

/** Puts the jobs that are new to this database on its list. */
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

/** The job that has been due for longest, held until the transaction ends. */
const takeJob = async (q: Queries, jobs: ReadonlyArray<Job>, now: number) => {
  const [row] = await q<{ job: string; position: string | null }[]>`
    SELECT job, position FROM command.retention_jobs
     WHERE next_at <= ${new Date(now)} AND job = ANY (${jobs.map(({ name }) => name)})
     ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED`
  const job = jobs.find(({ name }) => name === row?.job)
  return row === undefined || job === undefined ? null : { job, position: row.position }
}

/** Makes one step of whichever job is due. */
export const runRetentionStep = Effect.fnUntraced(function* (
  jobs: ReadonlyArray<Job> = RETENTION_JOBS,
): Effect.fn.Return<Outcome, StorageError, Sql> {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  // What the transaction was about, should it fail.
  let at: string | null = null
  const attempt = sql.transaction(async (q): Promise<Outcome> => {
    const taken = await takeJob(q, jobs, now)
    if (taken === null) return { type: 'idle' }
    const { job, position } = taken
    at = job.name
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

  const outcome = yield* Effect.catch(attempt, (error): Effect.Effect<Outcome, StorageError> => {
    const job = at
    if (job === null) return Effect.fail(error)
    return Effect.as(
      sql.run(
        (q) => q`
          UPDATE command.retention_jobs
             SET next_at = ${new Date(now + AGAIN_AFTER_MS)}, failures = failures + 1,
                 failure = ${error._tag === 'StorageRejected' ? error.code : error.detail}
           WHERE job = ${job}`,
      ),
      { type: 'failed', job, error },
    )
  })
  if (outcome.type === 'step') {
    yield* observeStep(outcome.job, outcome.removed, outcome.held !== null)
    if (outcome.ended) yield* observeFinished(outcome.job, now)
  }
  if (outcome.type === 'failed') {
    yield* observeFailure(outcome.job)
    yield* Effect.logWarning('a step of retention failed', outcome.error).pipe(
      Effect.annotateLogs({ job: outcome.job }),
    )
  }
  return outcome
})

/** Keeps to the periods until the scope closes. */
export const runRetention: Effect.Effect<void, never, Sql | Scope.Scope> = Effect.gen(function* () {
  const turn = Effect.andThen(registerRetentionJobs(), runRetentionStep()).pipe(
    Effect.map((outcome) =>
      outcome.type === 'step' && !outcome.ended
        ? Duration.millis(STEP_PAUSE_MS)
        : outcome.type === 'idle'
          ? LOOK_EVERY
          : Duration.zero,
    ),
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.as(Effect.logWarning('retention has to wait', cause), LOOK_EVERY),
    ),
  )
  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(turn, Effect.sleep)))
})
