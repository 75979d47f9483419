/** Flags that several commands use. */
import type { EventStart } from '../listen/state.ts'
import type { FollowOptions, HubEvent } from '@sms-delivery-hub/client'
import { Option } from 'effect'
import { Flag } from 'effect/cli'
import type { Connection } from '../connection/connection.ts'

export const choiceFlag = <const Choice extends string>(
  name: string,
  choices: ReadonlyArray<Choice>,
  about: string,
) => Flag.Literals(name, choices).pipe(Flag.withDescription(about), Flag.optional)

/** The maximum number of rows. */
export const limitFlag = Flag.Int('limit').pipe(
  Flag.withDescription('Show at most this number'),
  Flag.filter(
    (limit) => limit >= 1 && limit <= 10_000,
    () => 'from 1 to 10000',
  ),
  Flag.withDefault(50),
)

/** Only these types of events; a repeated flag. */
export const typeFlag = Flag.String('type').pipe(
  Flag.withDescription('Only events of this type, such as message.delivered. Repeat it for several types'),
  Flag.atLeast(0),
)

/** The first `limit` elements of a list. */
export const collect = async <A>(list: AsyncIterable<A>, limit: number): Promise<ReadonlyArray<A>> => {
  const found: Array<A> = []
  for await (const one of list) {
    found.push(one)
    if (found.length === limit) break
  }
  return found
}

export type EventType = NonNullable<FollowOptions['type']>[number]

/** `otherwise`: where the command begins without the flag. */
export const afterFlag = (otherwise: string) =>
  Flag.String('after').pipe(
    Flag.withDescription(
      `Begin after this event; "start": with the first event; "now": with new events. Default: ${otherwise}`,
    ),
    Flag.withMetavar('evt_…'),
    Flag.optional,
  )

/** Where to begin. New events are those after the present time of the hub, not of this machine. */
export const startOf = async (
  connection: Connection,
  after: Option.Option<string>,
  signal: AbortSignal,
): Promise<EventStart> => {
  const event = Option.getOrNull(after)
  if (event === 'start') return { cursor: null }
  if (event !== null && event !== 'now') return { cursor: event }
  await connection.client.account.get({ signal })
  // The hub tells its time in whole seconds.
  return { cursor: null, createdAfter: new Date(connection.hubTime() - 1000).toISOString() }
}

interface FollowedEvents {
  readonly start: EventStart
  /** Empty: all types. The hub refuses a type that it does not know. */
  readonly types: ReadonlyArray<string>
  readonly signal: AbortSignal
  /** Prints a sentence on standard error. */
  readonly say: (sentence: string) => void
}

const queryOf = ({ createdAfter }: EventStart, types: ReadonlyArray<string>) => ({
  type: types.length === 0 ? undefined : (types as Array<EventType>),
  ...(createdAfter === undefined ? {} : { createdAfter }),
})

/** Fails if the hub knows the event or a type not, before a command remembers them. */
export const checkStart = async (
  { client }: Connection,
  start: EventStart,
  types: ReadonlyArray<string>,
  signal: AbortSignal,
): Promise<void> => {
  const { createdAfter: created_after, type } = queryOf(start, types)
  const cursor = start.cursor === null ? { created_after } : { starting_after: start.cursor }
  await client.get('/v1/events', { query: { limit: 1, type, ...cursor }, signal })
}

/** Pages of events without an end. Says when the hub stops answering, because the command waits for it. */
export const followPages = (
  connection: Connection,
  { say, signal, start, types }: FollowedEvents,
): AsyncGenerator<ReadonlyArray<HubEvent>, void, undefined> => {
  connection.onAvailability((isAvailable) =>
    say(isAvailable ? 'The hub answers again.' : 'The hub does not answer. Waiting for it …'),
  )
  return connection.client.events.followPages(start.cursor, {
    ...queryOf(start, types),
    signal,
  })
}
