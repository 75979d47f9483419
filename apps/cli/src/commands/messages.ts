/** `hub messages`: reads messages. */
import { defineCommand, defineGroup, fields, NOTHING, show, showList } from '@hub/command-line'
import type { operations } from '@sms-delivery-hub/client'
import { Effect, Option } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { attempt, connect } from '../connection/connection.ts'
import { choiceFlag, collect, limitFlag } from './flags.ts'

const get = defineCommand(
  'get',
  {
    short: 'Show a message and its history',
    about: 'Shows a message, with the times of all its statuses. The number is masked.',
    changes: NOTHING,
    examples: [{ command: 'hub messages get msg_01m7yt89qhe54swwc8wkxj6n8e' }],
  },
  {
    id: Argument.String('message').pipe(
      Argument.withDescription('An id from hub send or hub messages list'),
      Argument.withMetavar('msg_…'),
    ),
  },
  Effect.fnUntraced(function* ({ id }) {
    const { client } = yield* connect
    const message = yield* attempt((signal) => client.messages.get(id, { signal }))
    yield* show(message, (one) =>
      fields({
        id: one.id,
        status: one.status,
        reason: one.reason_code,
        final: one.final,
        to: one.to,
        template: one.template,
        'client ref': one.client_ref,
        batch: one.batch,
        parts: one.parts,
        price: `${one.price.amount} ${one.price.currency}`,
        ...Object.fromEntries(one.history.map(({ at, status }) => [`  ${status}`, at])),
      }),
    )
  }),
)

const STATUSES = ['accepted', 'sent', 'delivered', 'undelivered', 'rejected', 'expired'] as const

type Query = NonNullable<operations['messages.list']['parameters']['query']>
/** Every parameter of the operation, except for the cursor: a list continues by itself. */
type ListQuery = { readonly [Name in keyof Omit<Query, 'starting_after'>]-?: Query[Name] | undefined }

const list = defineCommand(
  'list',
  {
    short: 'List messages, newest first',
    about: 'Lists messages, newest first. With --batch, in the order of acceptance.',
    changes: NOTHING,
    examples: [
      { command: 'hub messages list --status undelivered --limit 20' },
      { command: 'hub messages list --client-ref order-4711' },
    ],
  },
  {
    status: choiceFlag('status', STATUSES, 'Only this status'),
    class: choiceFlag('class', ['otp', 'service'], 'Only this class'),
    template: Flag.String('template').pipe(Flag.withDescription('Only this template'), Flag.optional),
    createdAfter: Flag.String('created-after').pipe(
      Flag.withDescription('Only messages accepted after this moment, such as 2026-11-21T09:30:00.000Z'),
      Flag.optional,
    ),
    createdBefore: Flag.String('created-before').pipe(
      Flag.withDescription('Only messages accepted before this moment'),
      Flag.optional,
    ),
    clientRef: Flag.String('client-ref').pipe(
      Flag.withDescription('The message with this id of yours'),
      Flag.optional,
    ),
    batch: Flag.String('batch').pipe(
      Flag.withDescription('Only this batch'),
      Flag.withMetavar('bat_…'),
      Flag.optional,
    ),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* (flags) {
    const { limit } = flags
    const { client } = yield* connect
    const query: ListQuery = {
      batch: Option.getOrUndefined(flags.batch),
      client_ref: Option.getOrUndefined(flags.clientRef),
      status: Option.getOrUndefined(flags.status),
      class: Option.getOrUndefined(flags.class),
      template: Option.getOrUndefined(flags.template),
      created_after: Option.getOrUndefined(flags.createdAfter),
      created_before: Option.getOrUndefined(flags.createdBefore),
      limit: Math.min(limit, 100),
    }
    const rows = yield* attempt((signal) => collect(client.messages.list(query, { signal }), limit))
    yield* showList(rows, {
      id: (row) => row.id,
      status: (row) => row.status,
      reason: (row) => row.reason_code,
      to: (row) => row.to,
      template: (row) => row.template,
      'client ref': (row) => row.client_ref,
      created: (row) => row.created_at,
    })
  }),
)

export const messages = defineGroup(
  'messages',
  { short: 'Read messages', about: 'Reads single messages and lists of messages.' },
  [get, list],
)
