/** `hub trigger`: makes an event of a type happen, in the sandbox. */
import { defineCommand, fields, printNote, refused, show, unavailable } from '@hub/command-line'
import type { BatchMessage, components, HubEvent } from '@sms-delivery-hub/client'
import { Duration, Effect, Option } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { attempt, connect, type Connection } from '../connection/connection.ts'
import type { EventType } from './flags.ts'

/** The sandbox number for each type of event: docs/sandbox.md. `null`: no single message causes it. */
const NUMBERS = {
  'message.accepted': '+79000000001',
  'message.sent': '+79000000001',
  'message.delivered': '+79000000001',
  'message.undelivered': '+79000000002',
  'message.rejected': '+79000000005',
  'message.expired': '+79000000007',
  'message.seen': '+79000000010',
  'batch.completed': '+79000000001',
  'template.approved': null,
  'template.declined': null,
  'sender.registered': null,
  'sender.declined': null,
  'account.spend_threshold': null,
  'recipient.opted_out': null,
  'recipient.opted_in': null,
  'webhook.endpoint_disabled': null,
  'webhook.endpoint_enabled': null,
  'webhook.test': null,
} as const satisfies Readonly<Record<EventType, string | null>>
type Triggered = { [T in EventType]: (typeof NUMBERS)[T] extends null ? never : T }[EventType]
const isTriggered = (type: EventType): type is Triggered => NUMBERS[type] !== null
const TYPES = (Object.keys(NUMBERS) as ReadonlyArray<EventType>).filter(isTriggered)

/** The sandbox reports within a second. The rest is for a busy machine. */
const SEEN_WITHIN = Duration.minutes(2)

type Template = components['schemas']['Template']

const usableTemplate = async (
  { client }: Connection,
  name: string | null,
  signal: AbortSignal,
): Promise<Template> => {
  for await (const template of client.templates.list({ status: 'approved' }, { signal })) {
    if (name === null || template.name === name) return template
  }
  throw refused(
    'template_not_found',
    name === null
      ? 'The account has no approved template in test mode. Create one: hub templates push'
      : `There is no approved template "${name}" in test mode.`,
  )
}

/** Sends what causes the event. Returns the id of the object of the event. */
const cause = async (
  { client }: Connection,
  type: Triggered,
  template: Template,
  signal: AbortSignal,
): Promise<string> => {
  const message = {
    to: NUMBERS[type],
    class: template.class as BatchMessage['class'],
    template: template.name,
    variables: Object.fromEntries(template.placeholders.map((name) => [name, '1234'])),
  }
  if (type !== 'batch.completed') return (await client.messages.send(message, { signal })).id
  const reference = `trigger-${crypto.randomUUID()}`
  const batch = await client.messages.sendBatch([{ ...message, client_ref: reference }], { signal })
  const [result] = batch.results
  if (result?.result === 'rejected') throw refused(result.error.code, result.error.message)
  return batch.id ?? ''
}

export const trigger = defineCommand(
  'trigger',
  {
    short: 'Make an event happen in the sandbox',
    about:
      'Sends a message to the sandbox number that leads to an event of this type, and waits for the event. ' +
      'Subscriptions of test mode and hub listen get it too.',
    changes: 'Sends a message with the test key. It reaches no phone and costs nothing.',
    examples: [
      { command: 'hub trigger message.delivered' },
      { command: 'hub trigger message.undelivered --template order_ready' },
    ],
  },
  {
    type: Argument.Literals('type', TYPES).pipe(Argument.withDescription('The type of the event')),
    template: Flag.String('template').pipe(
      Flag.withDescription('The template of the message. Default: the first approved one'),
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ template, type }) {
    const connection = yield* connect
    if (connection.mode === 'live') {
      return yield* refused(
        'live_key',
        'Events can be triggered only in test mode, where no phone is reached.',
      )
    }
    const event = yield* attempt(async (signal): Promise<HubEvent> => {
      const { client } = connection
      const used = await usableTemplate(connection, Option.getOrNull(template), signal)
      // The hub tells its time in whole seconds.
      const createdAfter = new Date(connection.hubTime() - 1000).toISOString()
      const id = await cause(connection, type, used, signal)
      for await (const seen of client.events.follow(null, {
        type: [type],
        createdAfter,
        pollMs: 200,
        signal,
      })) {
        if (Reflect.get(seen.data.object, 'id') === id) return seen
      }
      throw refused('interrupted', 'The command was interrupted.')
    }).pipe(
      Effect.timeoutOrElse({
        duration: SEEN_WITHIN,
        orElse: () =>
          Effect.fail(
            unavailable(
              'event_not_seen',
              'The message was sent, but the event did not come within two minutes.',
            ),
          ),
      }),
    )
    yield* show(event, ({ created_at, data, id, type: seen }) =>
      fields({
        event: id,
        type: seen,
        object: String(Reflect.get(data.object, 'id') ?? ''),
        status: String(Reflect.get(data.object, 'status') ?? ''),
        at: created_at,
      }),
    )
    yield* printNote('See all its events: hub events tail --after start')
  }),
)
