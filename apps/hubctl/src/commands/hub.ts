/** `hubctl hub`: the daily limit of the whole hub, and the stop switch. */
import { confirm, defineGroup, fields, NOTHING, show } from '@hub/command-line'
import { Hub } from '@hub/operations'
import { Effect, Option } from 'effect'
import { Argument } from 'effect/cli'
import { durationFlag, takesEffect } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { databaseAndRedis } from '../command-line/connections.ts'
import { run } from '../operations.ts'

const hubText = (hub: Hub.HubSettings): string =>
  fields({
    'daily limit': hub.daily_limit ?? 'none',
    accepts: hub.stopped ? `no new messages until ${hub.stopped_until ?? ''}` : 'messages',
  })

const showSettings = (hub: Hub.HubSettings) => show(hub, hubText)

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
    yield* show(yield* run(Hub.get, {}), (hub) => {
      const above = hub.above_limit === 0 ? '' : `, ${hub.above_limit} above the limit`
      const today =
        hub.accepted_today === null ? 'unknown: Redis does not answer' : `${hub.accepted_today}${above}`
      return [hubText(hub), fields({ [`accepted ${hub.day}`]: today })].join('\n')
    })
  }),
)

/** Parses a daily limit. `none` becomes `null`. */
export const parseDailyLimit = (text: string): Option.Option<number | null> => {
  if (text === 'none') return Option.some(null)
  const limit = /^\d{1,10}$/u.test(text) ? Number(text) : Hub.MAX_DAILY_LIMIT + 1
  return limit <= Hub.MAX_DAILY_LIMIT ? Option.some(limit) : Option.none()
}

const limit = defineCommand(
  'limit',
  {
    short: 'Set the daily limit of the hub',
    about:
      'Sets the number of messages that the hub accepts in a day (UTC), over all accounts, modes and ' +
      'classes. Further sends get 429 hub_daily_limit_reached until midnight. Accepted messages are ' +
      'sent. A batch is checked once, before anything of it is accepted: one that begins below the limit is ' +
      'accepted in whole, and the day may end above the limit by the size of such batches.',
    changes: `The daily limit. ${takesEffect('hubSettings')} Messages accepted earlier today count.`,
    examples: [
      { command: 'hubctl hub limit 2000000' },
      { command: 'hubctl hub limit none', description: 'No limit' },
    ],
  },
  {
    messages: Argument.String('messages').pipe(
      Argument.withDescription('Messages per day, or none'),
      Argument.filterMap(parseDailyLimit, () => `a whole number up to ${Hub.MAX_DAILY_LIMIT}, or none`),
    ),
  },
  Effect.fnUntraced(function* ({ messages }) {
    if (messages === 0) yield* confirm('Accept no more messages today, from all accounts?')
    yield* showSettings(yield* run(Hub.setLimit, { daily_limit: messages }))
  }),
)

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
  },
  { for: durationFlag('for', 'The duration of the stop, from now', Hub.MAX_STOP_SECONDS * 1000) },
  Effect.fnUntraced(function* ({ for: ms }) {
    const seconds = ms / 1000
    yield* confirm(`Accept no new messages from all accounts for ${seconds / 60} minutes?`)
    yield* showSettings(yield* run(Hub.stop, { seconds }))
  }),
)

const resume = defineCommand(
  'resume',
  {
    short: 'End a stop',
    about: 'Ends a stop early. It does not change a reached daily limit: hubctl hub limit raises it.',
    changes: `Whether the hub accepts sends. ${takesEffect('hubSettings')}`,
    examples: [{ command: 'hubctl hub resume' }],
  },
  {},
  () => Effect.flatMap(run(Hub.resume, {}), showSettings),
)

export const hub = defineGroup(
  'hub',
  {
    short: 'The daily limit and the stop switch of the hub',
    about: 'Limits of all accounts together: how many messages the hub accepts, and whether it does.',
  },
  [showHub, limit, stop, resume],
)
