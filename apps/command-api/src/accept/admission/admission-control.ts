/**
 * Admission control of the process: keeps `admission.ts` informed about the work in progress, and gives
 * it samples. The HTTP pipeline asks it before it does anything for a send.
 */
import type { ApiError } from '@hub/contract'
import { Clock, Context, Duration, Effect, Latch, Layer, Metric, Result } from 'effect'
import { admissionInProgress, admissionRate, admissionWaitSeconds, capacityUsed } from '../../metrics.ts'
import { INITIAL_RATE, makeAdmission, type RefusalReason, type Work } from './admission.ts'
import { WORK_KINDS } from './work-kinds.ts'
import { refuseOverloaded } from './overloaded.ts'

/** A sample has many sends under load, and is short beside the limits of the expected wait. */
const SAMPLE_EVERY = Duration.millis(100)
/** The same while no work begins or is in progress. The first work ends it at once. */
const SAMPLE_QUIET_EVERY = Duration.seconds(1)
/** How much of a change the delay of the event loop follows in a sample. One late timer is no overload. */
const DELAY_WEIGHT = 0.3
/** While work is refused, a log line in this time says how much. */
const LOG_EVERY_MS = 10_000

/** The admitted work of one request. */
export interface Ticket {
  /**
   * The acceptor takes the work over. From now on, it consists of `sends` until each has finished.
   * `weight`: of the account.
   */
  readonly transfer: (sends: number, weight: number) => void
  /**
   * A transferred send has its outcome. `begunAt`: if it is a new message, when its acceptance
   * batch began, milliseconds since the epoch. The time since then shows how slow the servers are.
   */
  readonly finish: (begunAt: number | null) => void
  /** The request ends, and with it the work that was not transferred. May be called again. */
  readonly end: () => void
}

/** Options for tests. */
export interface AdmissionOptions {
  /** Sends per second before anything was measured. */
  readonly initialRate?: number
  /** `null`: measures nothing. */
  readonly sampleEvery?: Duration.Duration | null
}

export class AdmissionControl extends Context.Service<AdmissionControl>()(
  '@hub/command-api/AdmissionControl',
  {
    make: Effect.fnUntraced(function* ({
      initialRate = INITIAL_RATE,
      sampleEvery = SAMPLE_EVERY,
    }: AdmissionOptions) {
      const admission = makeAdmission(initialRate)
      const clock = yield* Clock.Clock

      let eventLoopDelayMs = 0
      let sampledAt = yield* Clock.currentTimeMillis
      let loopTime = performance.eventLoopUtilization()
      let refused = { requests: 0, since: sampledAt }
      /** Open if work has begun since the last sample. */
      const hasBegun = Latch.makeUnsafe(false)
      let isQuiet = false
      const begin = (work: Work): void => {
        admission.begin(work)
        hasBegun.openUnsafe()
      }
      const sample = Effect.fnUntraced(function* (every: Duration.Duration) {
        const now = yield* Clock.currentTimeMillis
        const ms = now - sampledAt
        if (ms <= 0) return
        sampledAt = now
        const before = loopTime
        loopTime = performance.eventLoopUtilization()
        const { utilization } = performance.eventLoopUtilization(loopTime, before)
        const late = Math.max(0, ms - Duration.toMillis(isQuiet ? SAMPLE_QUIET_EVERY : every))
        eventLoopDelayMs += DELAY_WEIGHT * (late - eventLoopDelayMs)
        admission.sample({ ms, eventLoopDelayMs, eventLoopUtilization: utilization })
        yield* Metric.update(admissionInProgress, admission.inProgress())
        yield* Metric.update(admissionRate, admission.rate())
        yield* Metric.update(capacityUsed, admission.capacityUsed())
        for (const kind of WORK_KINDS) {
          yield* Metric.update(
            Metric.withAttributes(admissionWaitSeconds, { work: kind }),
            admission.expectedWaitMs(kind) / 1000,
          )
        }
        if (now - refused.since < LOG_EVERY_MS) return
        if (refused.requests > 0) {
          yield* Effect.logWarning('admission: refused requests because of overload').pipe(
            Effect.annotateLogs({
              requests: refused.requests,
              seconds: Math.round((now - refused.since) / 1000),
              sends_in_progress: admission.inProgress(),
              sends_per_second: Math.round(admission.rate()),
              event_loop_delay_ms: Math.round(eventLoopDelayMs),
            }),
          )
        }
        refused = { requests: 0, since: now }
      })
      const untilNext = (every: Duration.Duration) => {
        isQuiet = admission.inProgress() === 0 && !hasBegun.isOpen()
        if (isQuiet) return Effect.raceFirst(Effect.sleep(SAMPLE_QUIET_EVERY), hasBegun.await)
        hasBegun.closeUnsafe()
        return Effect.sleep(every)
      }
      if (sampleEvery !== null) {
        const once = Effect.andThen(sample(sampleEvery), () => untilNext(sampleEvery))
        yield* Effect.forkScoped(Effect.forever(once))
      }

      const refuse = (
        work: Work,
        reason: RefusalReason,
        counted: Parameters<typeof refuseOverloaded>[0] = work.kind,
      ): ApiError => {
        admission.refused(work)
        refused.requests++
        return refuseOverloaded(counted, reason)
      }

      return {
        /** False if all work of so many sends is admitted at present. */
        mayRefuse: admission.mayRefuse,
        /**
         * The error that refuses a request whose body is not read; `null`: the least work that it can have
         * would be admitted. `least`: `otp` for a single send, whose class is not known.
         */
        refusal: (least: Work): ApiError | null => {
          const reason = admission.refusal(least)
          return reason === null ? null : refuse(least, reason, least.kind === 'otp' ? 'send' : least.kind)
        },

        /** Admits work, or returns the error that refuses it. */
        admit: (work: Work): Result.Result<Ticket, ApiError> => {
          const reason = admission.refusal(work)
          if (reason !== null) return Result.fail(refuse(work, reason))
          begin(work)
          let held: Work | null = work
          const one = { ...work, sends: 1 }
          return Result.succeed({
            transfer: (sends, weight) => {
              // A request with an idempotency key goes on after its client has disconnected. Its work
              // has ended then, and counts again from now on.
              admission.resize(held ?? { ...work, sends: 0 }, sends)
              held = null
              admission.weigh(work.account, weight)
            },
            finish: (begunAt) => {
              admission.finish(one)
              if (begunAt === null) return
              admission.accepted(work.kind, clock.currentTimeMillisUnsafe() - begunAt)
            },
            end: () => {
              if (held !== null) admission.end(held)
              held = null
            },
          })
        },
      }
    }),
  },
) {
  static readonly layer = (options: AdmissionOptions = {}) => Layer.effect(this, this.make(options))
}
