/** `hub listen`: passes events on to a receiver on this machine, as signed webhooks. */
import { CommandFailed, defineCommand, isLoopbackAddress, Json, printNote } from '@hub/command-line'
import type { HubEvent } from '@sms-delivery-hub/client'
import { Console, Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { attempt, clockProblem, connect } from '../connection/connection.ts'
import { ProcessContext } from '../connection/environment.ts'
import { forward } from '../listen/forward.ts'
import { addressesOf, byAddress, identityOf, readTargets } from '../listen/targets.ts'
import { readState, stateFile, writeState } from '../listen/state.ts'
import { afterFlag, checkStart, followPages, startOf, typeFlag } from './flags.ts'

/** `message.sent, 2 message.delivered` */
const typesOf = (events: ReadonlyArray<HubEvent>): string => {
  const counts = new Map<string, number>()
  for (const { type } of events) counts.set(type, (counts.get(type) ?? 0) + 1)
  return [...counts].map(([type, count]) => (count === 1 ? type : `${count} ${type}`)).join(', ')
}

/** Answers with which receivers refuse a signature. */
const SIGNATURE_STATUSES: ReadonlySet<number> = new Set([400, 401, 403])

/** What a person can do about an answer that is not 2xx. `before`: the value of --after for these events, if known. */
const adviceFor = (status: number, first: string, before: string | null): string =>
  [
    `The receiver answered ${status}, and not 2xx.`,
    ...(SIGNATURE_STATUSES.has(status)
      ? ['If it refuses the signature: does it have the secret above, and verify the raw body?']
      : []),
    'The hub would repeat these events; this command goes on.',
    before === null
      ? `To get them again, start it with --after and the event before ${first}.`
      : `To get them again, start it with --after ${before}.`,
  ].join(' ')

export const listen = defineCommand(
  'listen',
  {
    short: 'Pass events on to a receiver on your machine',
    about:
      'Follows the events of the account, and posts them to an address as the hub would: the same batches, ' +
      'headers and signature. The address may be http and on this machine. The command warns before it sends ' +
      'events to another machine. It prints the secret for ' +
      'the verification; it stays the same for the address. It prints the status and the duration of each ' +
      'post. While the receiver cannot be reached, it waits and repeats. An answer that is not 2xx is printed, ' +
      'and the next events follow. After a restart, the command continues where it stopped. With --route, the ' +
      'events of a type go to an address of their own, with the same secret; a type without a route goes to ' +
      '--forward-to, or nowhere without it. Events that the hub recorded together are posted to one address ' +
      'after the other.',
    changes: 'A file in ~/.config/sms-delivery-hub/listen with the secret and the position.',
    examples: [
      { command: 'hub listen --forward-to http://localhost:3000/hooks/sms' },
      {
        command: 'hub listen --forward-to http://localhost:3000/hooks/sms --type message.delivered',
        description: 'Only some types',
      },
      {
        command:
          'hub listen --forward-to http://localhost:3000/hooks/sms --route message.delivered=http://localhost:3000/delivered',
        description: 'An address for one type',
      },
    ],
  },
  {
    forwardTo: Flag.String('forward-to').pipe(
      Flag.withDescription('The address of the receiver, http or https'),
      Flag.optional,
    ),
    route: Flag.KeyValuePair('route').pipe(
      Flag.withDescription('The address for the events of a type, type=address. Repeat it for several types'),
      Flag.withDefault({}),
    ),
    type: typeFlag,
    after: afterFlag('where it stopped, and with new events at the first start'),
  },
  Effect.fnUntraced(function* ({ after, forwardTo, route, type }) {
    const targets = readTargets({ forwardTo: Option.getOrNull(forwardTo), route, type })
    if (targets instanceof CommandFailed) return yield* targets
    const { types } = targets
    const addresses = addressesOf(targets)
    const connection = yield* connect
    for (const url of addresses) {
      if (isLoopbackAddress(url)) continue
      const { host, protocol } = new URL(url)
      const isReadable = protocol === 'http:' ? ' without encryption, so others can read them' : ''
      yield* printNote(
        `Warning: the events, with the numbers of recipients, go to another machine, ${host}${isReadable}.`,
      )
    }
    const { environment } = yield* ProcessContext
    const json = yield* Json
    const console = yield* Console.Console
    const account = yield* attempt((signal) => connection.client.account.get({ signal }))
    const problem = clockProblem(connection)
    if (problem instanceof CommandFailed) return yield* problem
    const file = stateFile(environment, [
      connection.baseUrl,
      account.id,
      connection.mode,
      ...identityOf(targets),
    ])
    const state = yield* attempt(async () => readState(file))
    const resumed = Option.isNone(after) ? state.next : null
    const start = resumed ?? (yield* attempt((signal) => startOf(connection, after, signal)))
    yield* attempt((signal) => checkStart(connection, start, types, signal))
    // Also before the first event: a command that is killed until then must not skip what follows.
    yield* attempt(async () => writeState(file, { secret: state.secret, next: start }))
    yield* Console.log(
      json
        ? JSON.stringify({
            object: 'listening',
            forward_to: targets.general,
            routes: targets.routes,
            secret: state.secret,
          })
        : `Secret: ${state.secret}\nPassing ${resumed === null ? 'new events' : `the events after ${resumed.cursor ?? resumed.createdAfter ?? 'the beginning'}`} on to ${addresses.join(', ')}. Ctrl-C ends it.`,
    )
    yield* attempt(async (signal) => {
      const say = (sentence: string): void => console.error(sentence)
      let before = start.cursor ?? (start.createdAfter === undefined ? 'start' : null)
      // The advice is for the first of several answers of a receiver that are not 2xx.
      const refusing = new Set<string>()
      for await (const page of followPages(connection, { start, types, signal, say })) {
        for (const [url, events] of byAddress(targets, page)) {
          const { ms, status } = await forward(events, {
            url,
            secret: state.secret,
            signal,
            onUnreachable: (reason) => say(`${url} cannot be reached (${reason}). Waiting for it …`),
          })
          const to = addresses.length === 1 ? '' : `  to ${url}`
          console.log(
            json
              ? JSON.stringify({
                  object: 'forwarded',
                  url,
                  status,
                  ms,
                  event_ids: events.map(({ id }) => id),
                })
              : `${new Date().toISOString()}  ${status} in ${ms} ms  ${typesOf(events)}${to}`,
          )
          if (status >= 200 && status < 300) refusing.delete(url)
          else if (!refusing.has(url)) {
            refusing.add(url)
            say(adviceFor(status, events[0]?.id ?? '', before))
          }
        }
        const last = page.at(-1)?.id ?? null
        writeState(file, { secret: state.secret, next: { cursor: last } })
        before = last
      }
    }).pipe(
      Effect.onInterrupt(() =>
        printNote('Stopped. The next start continues after the last event that was passed on.'),
      ),
    )
  }),
)
