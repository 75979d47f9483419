/** `hubctl hub`: what holds for the whole hub, its daily limit and its stop. */
import { Counters, utcDay } from '@hub/counters'
import { type Queries, Sql } from '@hub/store'
import { Clock, Effect, Option } from 'effect'
import { Argument } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database, stores } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { fields, show } from '../command-line/output.ts'
import { takesEffect, durationFlag } from '../command-line/arguments.ts'

interface Row {
  readonly daily_limit: number | null
  readonly stopped_until: Date | null
  /** PostgreSQL's clock decides. */
  readonly stopped: boolean
}

const read = async (q: Queries): Promise<Row> => {
  const [row] = await q<Row[]>`
    SELECT daily_limit, stopped_until, coalesce(stopped_until > now(), false) AS stopped FROM command.hub_settings`
  return row ?? { daily_limit: null, stopped_until: null, stopped: false }
}

const hubObject = (row: Row) => ({
  object: 'hub',
  daily_limit: row.daily_limit,
  stopped: row.stopped,
  stopped_until: row.stopped ? (row.stopped_until?.toISOString() ?? null) : null,
})

const hubFields = (value: ReturnType<typeof hubObject>): string =>
  fields({
    'daily limit': value.daily_limit ?? 'none',
    accepts: value.stopped ? `nothing new before ${value.stopped_until ?? ''}` : 'messages',
  })

const showHub = defineCommand(
  'show',
  {
    short: 'The daily limit, what of it is used, and whether the hub is stopped',
    about:
      'Shows the daily limit over all accounts and modes, how many messages were accepted today (UTC), and whether somebody has stopped the hub. The count is ' +
      'kept in Redis; where that is away it is not shown, and does not limit either.',
    changes: NOTHING,
    examples: [{ command: 'hubctl hub show' }],
    needs: stores,
  },
  {},
  Effect.fnUntraced(function* () {
    const sql = yield* Sql
    const counters = yield* Counters
    const hub = hubObject(yield* sql.run(read))
    const day = utcDay(yield* Clock.currentTimeMillis)
    // Nothing more is counted: the answer is the total.
    const today = Option.getOrNull(yield* Effect.option(counters.daily.count(day, 0)))
    yield* show({ ...hub, day, accepted_today: today }, (value) =>
      [
        hubFields(value),
        fields({ [`accepted ${day}`]: value.accepted_today ?? 'unknown: Redis is away' }),
      ].join('\n'),
    )
  }),
)

/** More than a hub sends in a day, and what the column holds. */
const DAILY_MOST = 2_000_000_000

/** `none` is `null`, anything that is no limit is none. */
export const parseDailyLimit = (text: string): Option.Option<number | null> => {
  if (text === 'none') return Option.some(null)
  const limit = /^\d{1,10}$/u.test(text) ? Number(text) : DAILY_MOST + 1
  return limit <= DAILY_MOST ? Option.some(limit) : Option.none()
}

const limit = defineCommand(
  'limit',
  {
    short: 'How many messages the hub accepts in a day',
    about:
      'Sets the daily limit of the whole hub: messages in a day (UTC), of all accounts, in both modes, codes as well. Beyond it sends get 429 ' +
      'hub_daily_limit_reached until midnight. What is accepted already is sent.',
    changes: `The daily limit. ${takesEffect('hubSettings')} What was accepted today counts.`,
    examples: [
      { command: 'hubctl hub limit 2000000' },
      { command: 'hubctl hub limit none', description: 'No limit' },
    ],
    needs: database,
  },
  {
    messages: Argument.String('messages').pipe(
      Argument.withDescription('Messages a day, or none'),
      Argument.filterMap(parseDailyLimit, () => `a whole number up to ${DAILY_MOST}, or none`),
    ),
  },
  Effect.fnUntraced(function* ({ messages }) {
    const sql = yield* Sql
    if (messages === 0) yield* confirm('Accept nothing more today, of anybody?')
    yield* audited(
      { command: 'hub limit', arguments: { daily_limit: messages } },
      sql.run((q) => q`UPDATE command.hub_settings SET daily_limit = ${messages}`),
    )
    yield* show(hubObject(yield* sql.run(read)), hubFields)
  }),
)

/** Longer than anything that is mended by hand; a stop is not a way to take a hub out of service. */
const STOP_MOST_MS = 7 * 86_400_000

const stop = defineCommand(
  'stop',
  {
    short: 'Accept nothing new, for a while',
    about:
      'Stops the whole hub by hand: every new send, of all accounts, in both modes, codes as well, gets 429 hub_daily_limit_reached, whose retry_after lasts until the stop ' +
      'ends. Reads, webhooks and repeats of what was accepted are answered as ever, and what is accepted already is sent.',
    changes: `Whether anything new is accepted. ${takesEffect('hubSettings')} It ends by itself, or with hubctl hub resume.`,
    examples: [{ command: 'hubctl hub stop --for 30m' }],
    needs: database,
  },
  { for: durationFlag('for', 'For how long, from now', STOP_MOST_MS) },
  Effect.fnUntraced(function* ({ for: ms }) {
    const sql = yield* Sql
    yield* confirm(`Accept nothing new, of anybody, for ${ms / 60_000} minutes?`)
    yield* audited(
      { command: 'hub stop', arguments: { seconds: ms / 1000 } },
      sql.run(
        (q) => q`UPDATE command.hub_settings SET stopped_until = now() + make_interval(secs => ${ms / 1000})`,
      ),
    )
    yield* show(hubObject(yield* sql.run(read)), hubFields)
  }),
)

const resume = defineCommand(
  'resume',
  {
    short: 'End a stop',
    about:
      'Ends a stop before its time. A daily limit that was reached is another thing: hubctl hub limit raises it.',
    changes: `Whether anything new is accepted. ${takesEffect('hubSettings')}`,
    examples: [{ command: 'hubctl hub resume' }],
    needs: database,
  },
  {},
  Effect.fnUntraced(function* () {
    const sql = yield* Sql
    if (!(yield* sql.run(read)).stopped) {
      return yield* refused('not_stopped', 'The hub is not stopped. Nothing was changed.')
    }
    yield* audited(
      { command: 'hub resume', arguments: {} },
      sql.run((q) => q`UPDATE command.hub_settings SET stopped_until = NULL`),
    )
    yield* show(hubObject(yield* sql.run(read)), hubFields)
  }),
)

export const hub = defineGroup(
  'hub',
  {
    short: 'The daily limit of the whole hub, and its stop',
    about:
      'What holds for all accounts together: how much the hub accepts in a day, and whether it accepts anything.',
  },
  [showHub, limit, stop, resume],
)
