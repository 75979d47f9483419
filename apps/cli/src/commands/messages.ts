/** `hub messages`: reads messages. */
import { defineCommand, defineGroup, fields, NOTHING, show, showList } from '@hub/command-line'
import { Effect } from 'effect'
import { Argument } from 'effect/cli'
import { attempt, connect } from '../connection/connection.ts'
import { exportMessages } from './export-messages.ts'
import { collect, limitFlag } from './flags.ts'
import { filterFlags, queryOf } from './message-filters.ts'

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
    ...filterFlags,
    limit: limitFlag,
  },
  Effect.fnUntraced(function* (flags) {
    const { limit } = flags
    const { client } = yield* connect
    const query = { ...queryOf(flags), limit: Math.min(limit, 100) }
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
  [get, list, exportMessages],
)
