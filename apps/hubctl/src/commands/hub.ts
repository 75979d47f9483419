/** `hubctl hub`: the daily limit of the whole hub, and the stop switch. */
import { Counters, utcDay } from '@hub/counters'
import { CommandHubSettings } from '@hub/store'
import { Clock, Effect, Option } from 'effect'
import { Argument } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { durationFlag, takesEffect } from '../command-line/arguments.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database, databaseAndRedis, query } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { fields, show } from '../command-line/output.ts'

const readHub = Effect.map(query(CommandHubSettings.read), ({ daily_limit, stopped, stopped_until }) => ({
  object: 'hub',
  daily_limit,
  stopped,
  stopped_until: stopped ? (stopped_until?.toISOString() ?? null) : null,
}))

const hubText = (hub: Effect.Success<typeof readHub>): string =>
  fields({
    'daily limit': hub.daily_limit ?? 'none',
    accepts: hub.stopped ? `no new messages until ${hub.stopped_until ?? ''}` : 'messages',
  })

const showStoredSettings = Effect.flatMap(readHub, (hub) => show(hub, hubText))

const showHub = defineCommand(
  'show',
  {
    short: 'Show the daily limit, its use, and the stop switch',
    about:
      'Shows the daily limit over all accounts and modes, the number of messages accepted today (UTC), ' +
      'and whether the hub is stopped. Redis counts the messages. Without Redis the count is unknown, ' +
      'and the daily limit does not apply.',
    changes: NOTHING,
    examples: [{ command: 'hubctl hub show' }],
    needs: databaseAndRedis,
  },
  {},
  Effect.fnUntraced(function* () {
    const counters = yield* Counters
    const hub = yield* readHub
    const day = utcDay(yield* Clock.currentTimeMillis)
    // Counting zero messages returns the total.
    const today = Option.getOrNull(yield* Effect.option(counters.daily.count(day, 0)))
    yield* show({ ...hub, day, accepted_today: today }, () =>
      [hubText(hub), fields({ [`accepted ${day}`]: today ?? 'unknown: Redis does not answer' })].join('\n'),
    )
  }),
)

/** Fits into the column, and is more than a hub sends in a day. */
const MAX_DAILY_LIMIT = 2_000_000_000

/** Parses a daily limit. `none` becomes `null`. */
export const parseDailyLimit = (text: string): Option.Option<number | null> => {
  if (text === 'none') return Option.some(null)
  const limit = /^\d{1,10}$/u.test(text) ? Number(text) : MAX_DAILY_LIMIT + 1
  return limit <= MAX_DAILY_LIMIT ? Option.some(limit) : Option.none()
}

const limit = defineCommand(
  'limit',
  {
    short: 'Set the daily limit of the hub',
    about:
      'Sets the number of messages that the hub accepts in a day (UTC), over all accounts, modes and ' +
      'classes. Further sends get 429 hub_daily_limit_reached until midnight. Accepted messages are ' +
      'sent.',
    changes: `The daily limit. ${takesEffect('hubSettings')} Messages accepted earlier today count.`,
    examples: [
      { command: 'hubctl hub limit 2000000' },
      { command: 'hubctl hub limit none', description: 'No limit' },
    ],
    needs: database,
  },
  {
    messages: Argument.String('messages').pipe(
      Argument.withDescription('Messages per day, or none'),
      Argument.filterMap(parseDailyLimit, () => `a whole number up to ${MAX_DAILY_LIMIT}, or none`),
    ),
  },
  Effect.fnUntraced(function* ({ messages }) {
    if (messages === 0) yield* confirm('Accept no more messages today, from all accounts?')
    yield* audited(
      { command: 'hub limit', arguments: { daily_limit: messages } },
      query((q) => CommandHubSettings.setDailyLimit(q, messages)),
    )
    yield* showStoredSettings
  }),
)

/** Longer than any manual repair. A stop is not meant for taking a hub out of service. */
const MAX_STOP_MS = 7 * 86_400_000

const stop = defineCommand(
  'stop',
  {
    short: 'Stop accepting messages for some time',
    about:
      'Stops the hub: each new send, of all accounts, modes and classes, gets 429 ' +
      'hub_daily_limit_reached with a retry_after until the end of the stop. Reads, webhooks and ' +
      'repeats of accepted sends work as before. Accepted messages are sent.',
    changes: `Whether the hub accepts sends. ${takesEffect('hubSettings')} hubctl hub resume ends the stop early.`,
    examples: [{ command: 'hubctl hub stop --for 30m' }],
    needs: database,
  },
  { for: durationFlag('for', 'The duration of the stop, from now', MAX_STOP_MS) },
  Effect.fnUntraced(function* ({ for: ms }) {
    const seconds = ms / 1000
    yield* confirm(`Accept no new messages from all accounts for ${seconds / 60} minutes?`)
    yield* audited(
      { command: 'hub stop', arguments: { seconds } },
      query((q) => CommandHubSettings.setStop(q, seconds)),
    )
    yield* showStoredSettings
  }),
)

const resume = defineCommand(
  'resume',
  {
    short: 'End a stop',
    about: 'Ends a stop early. It does not change a reached daily limit: hubctl hub limit raises it.',
    changes: `Whether the hub accepts sends. ${takesEffect('hubSettings')}`,
    examples: [{ command: 'hubctl hub resume' }],
    needs: database,
  },
  {},
  Effect.fnUntraced(function* () {
    if (!(yield* readHub).stopped) {
      return yield* refused('not_stopped', 'The hub is not stopped. Nothing was changed.')
    }
    yield* audited(
      { command: 'hub resume', arguments: {} },
      query((q) => CommandHubSettings.setStop(q, null)),
    )
    yield* showStoredSettings
  }),
)

export const hub = defineGroup(
  'hub',
  {
    short: 'The daily limit and the stop switch of the hub',
    about: 'Limits of all accounts together: how many messages the hub accepts, and whether it does.',
  },
  [showHub, limit, stop, resume],
)
