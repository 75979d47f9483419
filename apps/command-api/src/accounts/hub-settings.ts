/** Settings of the whole hub, from PostgreSQL through a short-lived cache. */
import { CACHE_TTL_MS } from '@hub/domain'
import { Sql } from '@hub/store'
import { Clock, Context, Duration, Effect, Layer, Metric, Schedule } from 'effect'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import { acceptStopped } from '../metrics.ts'
import { makeRefreshedCache } from './refreshed-cache.ts'

export interface HubLimits {
  /** Messages per day (UTC), over all accounts and modes; `null`: no limit. */
  readonly dailyLimit: number | null
  /** The hub accepts no new messages before this time, ms since the epoch. */
  readonly stoppedUntil: number | null
}

/** The cached settings are used this often, also while nothing is accepted: so no acceptance batch waits. */
const USE_EVERY = Duration.millis(CACHE_TTL_MS.hubSettings / 4)

/** Without settings nothing is stopped. Source: LIM-24. */
const NO_LIMITS: HubLimits = { dailyLimit: null, stoppedUntil: null }

export class HubSettings extends Context.Service<HubSettings>()('@hub/command-api/HubSettings', {
  make: Effect.gen(function* () {
    const sql = yield* Sql
    const read = sql
      .run(
        (q) => q<{ daily_limit: number | null; stopped_until: Date | null }[]>`
          SELECT daily_limit, stopped_until FROM command.hub_settings`,
        STATEMENT_DEADLINE,
      )
      .pipe(
        Effect.map(([row]): HubLimits => ({
          dailyLimit: row?.daily_limit ?? null,
          stoppedUntil: row?.stopped_until?.getTime() ?? null,
        })),
        Effect.tap(({ stoppedUntil }) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) =>
            Metric.update(acceptStopped, stoppedUntil !== null && stoppedUntil > now ? 1 : 0),
          ),
        ),
        Effect.catch((error) =>
          Effect.logWarning(
            'hub settings: could not be read; the hub applies no daily limit until they can',
          ).pipe(Effect.annotateLogs({ error: error._tag }), Effect.as(NO_LIMITS)),
        ),
      )
    const cache = yield* makeRefreshedCache({
      capacity: 1,
      lifetimeMs: () => CACHE_TTL_MS.hubSettings,
      read: () => read,
    })
    const current = cache.get('')
    yield* Effect.forkScoped(Effect.repeat(current, Schedule.spaced(USE_EVERY)))
    return { current }
  }),
}) {
  static readonly layer = Layer.effect(this, this.make)
}
