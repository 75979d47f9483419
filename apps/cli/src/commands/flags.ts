/** Flags that several commands use. */
import type { EventStart } from '../listen/state.ts'
import type { FollowOptions } from '@sms-delivery-hub/client'
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

type EventType = NonNullable<FollowOptions['type']>[number]

/** `undefined`: all types. The hub refuses a type that it does not know. */
export const eventTypes = (types: ReadonlyArray<string>): Array<EventType> | undefined =>
  types.length === 0 ? undefined : (types as Array<EventType>)

export const afterFlag = Flag.String('after').pipe(
  Flag.withDescription('Begin after this event; "start": with the first event. Default: with new events'),
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
  if (event !== null) return { cursor: event }
  await connection.client.account.get({ signal })
  // The hub tells its time in whole seconds.
  return { cursor: null, createdAfter: new Date(connection.hubTime() - 1000).toISOString() }
}
