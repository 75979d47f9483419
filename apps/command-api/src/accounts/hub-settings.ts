/** Settings of the whole hub, from PostgreSQL through a short cache: every flush asks. */
import { CACHE_TTL_MS } from '@hub/domain'
import { Sql } from '@hub/store'
import { Clock, Context, Duration, Effect, Layer, Metric } from 'effect'

export interface HubLimits {
  /** Messages a day (UTC), all accounts and modes together; `null` is no limit. */
  readonly dailyLimit: number | null
  /** Nothing new is accepted before this moment, milliseconds since the epoch. */
  readonly stoppedUntil: number | null
}

const BELIEVED_FOR = Duration.millis(CACHE_TTL_MS.hubSettings)
const DEADLINE = { deadline: Duration.millis(500) }

const stopped = Metric.gauge('hub_accept_stopped', {
  description: '1 while the stop flag of the hub keeps anything new from being accepted.',
})

/** What cannot be read does not stop anybody. Source: specification, Errors, rule 4. */
const NO_LIMITS: HubLimits = { dailyLimit: null, stoppedUntil: null }

export class HubSettings extends Context.Service<
  HubSettings,
  { readonly current: Effect.Effect<HubLimits> }
>()('@hub/command-api/HubSettings') {
  static readonly layer: Layer.Layer<HubSettings, never, Sql> = Layer.effect(
    HubSettings,
    Effect.gen(function* () {
      const sql = yield* Sql
      const read = sql
        .run(
          (q) => q<{ daily_limit: number | null; stopped_until: Date | null }[]>`
            SELECT daily_limit, stopped_until FROM command.hub_settings`,
          DEADLINE,
        )
        .pipe(
          Effect.map(([row]): HubLimits => ({
            dailyLimit: row?.daily_limit ?? null,
            stoppedUntil: row?.stopped_until?.getTime() ?? null,
          })),
          Effect.tap(({ stoppedUntil }) =>
            Effect.flatMap(Clock.currentTimeMillis, (now) =>
              Metric.update(stopped, stoppedUntil !== null && stoppedUntil > now ? 1 : 0),
            ),
          ),
          Effect.catch((error) =>
            Effect.logWarning('the settings of the hub could not be read').pipe(
              Effect.annotateLogs({ error: error._tag }),
              Effect.as(NO_LIMITS),
            ),
          ),
        )
      return { current: yield* Effect.cachedWithTTL(read, BELIEVED_FOR) }
    }),
  )
}
