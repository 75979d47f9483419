/** The whole hub: its daily limit, and the switch that stops it. */
import { Counters, utcDay } from '@hub/counters'
import { CommandHubSettings } from '@hub/store'
import { Clock, Effect, Option, Schema } from 'effect'
import { refused } from './failures.ts'
import { Timestamp } from './fields.ts'
import { query } from './sql.ts'
import { defineUseCase } from './use-case.ts'

/** Fits into the column, and is more than a hub sends in a day. */
export const MAX_DAILY_LIMIT = 2_000_000_000

/** Longer than any manual repair: a week. A stop is not meant for taking a hub out of service. */
export const MAX_STOP_SECONDS = 7 * 86_400

export const HubSettings = Schema.Struct({
  object: Schema.Literal('hub'),
  /** Messages per day (UTC); `null`: no limit. */
  daily_limit: Schema.NullOr(Schema.Int),
  stopped: Schema.Boolean,
  /** `null`: the hub is not stopped. */
  stopped_until: Schema.NullOr(Timestamp),
})
export type HubSettings = typeof HubSettings.Type

/** Messages of a day above its limit. */
export const aboveLimit = (limit: number | null, accepted: number): number =>
  limit === null ? 0 : Math.max(0, accepted - limit)

const readHub = Effect.map(
  query(CommandHubSettings.read),
  ({ daily_limit, stopped, stopped_until }): HubSettings => ({
    object: 'hub',
    daily_limit,
    stopped,
    stopped_until: stopped ? (stopped_until?.toISOString() ?? null) : null,
  }),
)

/** The daily limit with its use, and the stop. */
export const get = defineUseCase({
  name: 'hub show',
  permission: 'hub.read',
  input: Schema.Struct({}),
  output: Schema.Struct({
    ...HubSettings.fields,
    /** Today in UTC. */
    day: Schema.String,
    /** `null`: Redis does not answer. */
    accepted_today: Schema.NullOr(Schema.Int),
    /** How many of these are above the limit: a batch that begins below it is accepted in whole. */
    above_limit: Schema.Int,
  }),
  audit: null,
  run: Effect.fnUntraced(function* () {
    const counters = yield* Counters
    const hub = yield* readHub
    const day = utcDay(yield* Clock.currentTimeMillis)
    // Counting zero messages returns the total.
    const today = Option.getOrNull(yield* Effect.option(counters.daily.count(day, 0)))
    return { ...hub, day, accepted_today: today, above_limit: aboveLimit(hub.daily_limit, today ?? 0) }
  }),
})

export const setLimit = defineUseCase({
  name: 'hub limit',
  permission: 'hub.change',
  input: Schema.Struct({
    daily_limit: Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_DAILY_LIMIT }))),
  }),
  output: HubSettings,
  audit: ({ daily_limit }) => ({ daily_limit }),
  run: ({ daily_limit }) =>
    Effect.andThen(
      query((q) => CommandHubSettings.setDailyLimit(q, daily_limit)),
      readHub,
    ),
})

/** Stops the acceptance of messages for some time from now. */
export const stop = defineUseCase({
  name: 'hub stop',
  permission: 'hub.change',
  input: Schema.Struct({
    seconds: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_STOP_SECONDS })),
  }),
  output: HubSettings,
  audit: ({ seconds }) => ({ seconds }),
  run: ({ seconds }) =>
    Effect.andThen(
      query((q) => CommandHubSettings.setStop(q, seconds)),
      readHub,
    ),
})

/** Ends a stop early. */
export const resume = defineUseCase({
  name: 'hub resume',
  permission: 'hub.change',
  input: Schema.Struct({}),
  output: HubSettings,
  audit: () => ({}),
  run: Effect.fnUntraced(function* () {
    if (!(yield* readHub).stopped) {
      return yield* refused('not_stopped', 'The hub is not stopped. Nothing was changed.')
    }
    yield* query((q) => CommandHubSettings.setStop(q, null))
    return yield* readHub
  }),
})
