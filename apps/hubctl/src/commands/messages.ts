/** `hubctl messages`: finds a message and what happened to it, for support. */
import { encodeId, messageEventIds, toTimestamp } from '@hub/domain'
import {
  CommandClientRefs,
  type Queries,
  ReadEvents,
  ReadMessages,
  ReadOperatorIds,
  uuidOf,
  WebhooksAttempts,
  WebhooksEndpoints,
} from '@hub/store'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import {
  accountFlag,
  choiceFlag,
  hashRecipientArgument,
  type Id,
  idArgument,
  limitFlag,
  modeFlag,
} from '../command-line/arguments.ts'
import { defineCommand, defineGroup } from '../command-line/command.ts'
import { database, query } from '../command-line/connections.ts'
import { refused, usageError } from '../command-line/failure.ts'
import { fields, show, showList, table } from '../command-line/output.ts'
import { raw } from './messages-raw.ts'

const ONLY_AUDIT = 'Only the audit trail, because the command reads data of a person.'

const messageArgument = idArgument('msg', 'message', 'An id from hubctl messages find, or of a client')

const notFound = ({ id }: Id) =>
  refused(
    'message_not_found',
    `There is no message ${id}, or the projectors have not recorded it yet. Records older than three years are not shown.`,
  )

const historyOf = ({ created_at, history }: ReadMessages.ProjectedMessage) =>
  [
    { status: 'accepted', reason: null, at: created_at.getTime() },
    ...(history ?? []).filter(({ status }) => status !== 'accepted'),
  ].toSorted((a, b) => a.at - b.at)

const toJson = (row: ReadMessages.ProjectedMessage) => ({
  id: encodeId('msg', row.id),
  object: 'message',
  account: encodeId('acc', row.account),
  mode: row.mode,
  class: row.class,
  recipient: row.recipient.toString('hex'),
  template: row.template,
  sender: row.sender,
  client_ref: row.client_ref,
  batch: row.batch_id === null ? null : encodeId('bat', row.batch_id),
  status: row.status,
  reason_code: row.reason_code,
  attempts: row.attempts,
  parts: row.parts,
  price: row.price,
  currency: row.currency,
  created_at: row.created_at.toISOString(),
  updated_at: row.updated_at.toISOString(),
})

const find = defineCommand(
  'find',
  {
    short: 'Find messages by recipient, client_ref or operator id',
    about:
      'Finds messages of all accounts, newest first: by recipient (of the last year, without erased ones), ' +
      'by client_ref (with --account), or by the id at an operator (with --operator). Give exactly one of ' +
      'the three. It shows the hash of the recipient, and neither number nor text.',
    changes: ONLY_AUDIT,
    examples: [
      { command: 'hubctl messages find --recipient -', description: 'Type the number, then Ctrl-D' },
      { command: 'hubctl messages find --client-ref order-7 --account acc_01m7yt89qhe54swwc8wkxj6n8e' },
      { command: 'hubctl messages find --operator-id 4711 --operator smpp' },
    ],
    needs: database,
  },
  {
    recipient: Flag.String('recipient').pipe(
      Flag.withDescription('The number, its hash or a receipt; "-": from standard input'),
      Flag.optional,
    ),
    clientRef: Flag.String('client-ref').pipe(
      Flag.withDescription('The client_ref of a send; needs --account'),
      Flag.optional,
    ),
    operatorId: Flag.String('operator-id').pipe(
      Flag.withDescription('The id of a part at the operator; needs --operator'),
      Flag.optional,
    ),
    operator: choiceFlag('operator', ['smpp', 'http', 'sandbox'], 'The operator of the id'),
    account: accountFlag,
    mode: modeFlag,
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ account, clientRef, limit, mode, operator, operatorId, recipient }) {
    if ([recipient, clientRef, operatorId].filter(Option.isSome).length !== 1) {
      return yield* usageError('Give exactly one of --recipient, --client-ref and --operator-id.')
    }
    const ref = Option.getOrNull(clientRef)
    if (ref !== null && account === null) return yield* usageError('--client-ref needs --account.')
    const partId = Option.getOrNull(operatorId)
    if (partId !== null && operator === null) return yield* usageError('--operator-id needs --operator.')
    const hash = Option.isNone(recipient) ? null : yield* hashRecipientArgument(recipient.value)
    const idsIn = async (q: Queries): Promise<ReadonlyArray<string>> => {
      if (hash !== null) return ReadMessages.findOfRecipient(q, hash, account, limit)
      if (ref !== null && account !== null) return CommandClientRefs.findMessages(q, account, mode, ref)
      const asked = { operator: operator ?? '', operatorId: partId ?? '', recipient: null }
      return (await ReadOperatorIds.findMessages(q, [asked])).map(({ message_id }) => message_id)
    }
    // A client_ref may contain personal data, against the documentation: the audit trail omits it.
    const by =
      hash !== null ? { recipient: hash } : ref !== null ? { by: 'client_ref' } : { by: 'operator_id' }
    const found = yield* audited(
      { command: 'messages find', arguments: by },
      query(async (q) => ReadMessages.readAll(q, await idsIn(q))),
      (rows) => ({ messages: rows.length }),
    )
    const rows = found
      .filter((row) => row.is_shown)
      .filter((row) => account === null || row.account === account)
      .filter((row) => mode === null || row.mode === mode)
      .toSorted((a, b) => b.created_at.getTime() - a.created_at.getTime())
      .slice(0, limit)
    yield* showList(
      rows.map(toJson),
      {
        message: (row) => row.id,
        account: (row) => row.account,
        mode: (row) => row.mode,
        class: (row) => row.class,
        template: (row) => row.template,
        status: (row) => row.status,
        reason: (row) => row.reason_code,
        created: (row) => row.created_at,
      },
      'There are none.',
    )
  }),
)

/** The message with this id. */
const readOne = Effect.fnUntraced(function* (message: Id) {
  const [row] = yield* query((q) => ReadMessages.readAll(q, [message.uuid]))
  return row === undefined || !row.is_shown ? yield* notFound(message) : row
})

const showMessage = defineCommand(
  'show',
  {
    short: 'Show a message of any account',
    about:
      'Shows the record of a message: account, template, status, attempts, price, and its ids at the ' +
      'operator. It shows the hash of the recipient, and neither number nor text.',
    changes: ONLY_AUDIT,
    examples: [{ command: 'hubctl messages show msg_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { message: messageArgument },
  Effect.fnUntraced(function* ({ message }) {
    const { ids, row } = yield* audited(
      { command: 'messages show', arguments: { message: message.id } },
      Effect.gen(function* () {
        const found = yield* readOne(message)
        const [at] = yield* query((q) => ReadMessages.readWithOperatorIds(q, [message.uuid]))
        return { row: found, ids: { operator: at?.operator ?? null, operator_ids: at?.operator_ids ?? [] } }
      }),
    )
    const data = { ...toJson(row), ...ids }
    yield* show(data, () => fields({ ...data, operator_ids: data.operator_ids.join(' ') }))
  }),
)

interface Happening {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly what: string
  readonly detail: string
}

interface EventBody {
  readonly id: string
  readonly type: string
  readonly created_at: string
}

/** The most attempts to show for one event of one subscription. */
const MOST_ATTEMPTS = 50
/** An account has few subscriptions. */
const MOST_SUBSCRIPTIONS = 100

/** The events of a message, and the attempts to deliver them, also to disabled subscriptions. */
const deliveriesOf = async (
  q: Queries,
  { account, id, mode }: ReadMessages.ProjectedMessage,
): Promise<ReadonlyArray<Happening>> => {
  const ids = messageEventIds(encodeId('msg', id), []).map((event) => uuidOf('evt', event))
  const events = (await ReadEvents.readBodies(q, { account, mode }, ids)).map(
    (body) => JSON.parse(body) as EventBody,
  )
  const filter = { account, mode, status: null, limit: MOST_SUBSCRIPTIONS }
  const endpoints = events.length === 0 ? [] : await WebhooksEndpoints.readNewest(q, filter)
  const happened: Array<Happening> = events.map((event) => ({
    at: Date.parse(event.created_at),
    what: 'event',
    detail: `${event.type} ${event.id}`,
  }))
  for (const event of events) {
    for (const endpoint of endpoints) {
      const attempts = await WebhooksAttempts.readPage(
        q,
        endpoint.id,
        { ...WebhooksAttempts.ALL_ATTEMPTS, event: uuidOf('evt', event.id) },
        null,
        MOST_ATTEMPTS,
      )
      for (const one of attempts ?? []) {
        const answer = one.response_code === null ? (one.reason ?? '') : `HTTP ${one.response_code}`
        happened.push({
          at: one.created_at.getTime(),
          what: `webhook ${one.status}`,
          detail: `${event.type} to ${encodeId('we', endpoint.id)}: ${encodeId('whd', one.id)}, attempt ${one.attempt}, ${answer}`,
        })
      }
    }
  }
  return happened
}

const timeline = defineCommand(
  'timeline',
  {
    short: 'Show what happened to a message, in order',
    about:
      'Shows in the order of time: the acceptance and each status of the message, its events, and the ' +
      'attempts to deliver these events to the webhook subscriptions of the account.',
    changes: ONLY_AUDIT,
    examples: [{ command: 'hubctl messages timeline msg_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { message: messageArgument },
  Effect.fnUntraced(function* ({ message }) {
    const happened = yield* audited(
      { command: 'messages timeline', arguments: { message: message.id } },
      Effect.gen(function* () {
        const row = yield* readOne(message)
        const statuses = historyOf(row).map(({ at, reason, status }): Happening => ({
          at,
          what: status,
          detail: reason ?? '',
        }))
        return [...statuses, ...(yield* query((q) => deliveriesOf(q, row)))]
      }),
    )
    const data = happened
      .toSorted((a, b) => a.at - b.at)
      .map(({ at, detail, what }) => ({ at: toTimestamp(at), what, detail: detail === '' ? null : detail }))
    yield* show({ object: 'list', message: message.id, data }, () =>
      table(data, { at: (row) => row.at, what: (row) => row.what, detail: (row) => row.detail }),
    )
  }),
)

export const messages = defineGroup(
  'messages',
  {
    short: 'Messages of all accounts: find, show, timeline, raw',
    about:
      'What happened to a message, for support. hubctl reads phone numbers from the command line or from ' +
      'standard input, and never stores them. Only messages raw can show one.',
  },
  [find, showMessage, timeline, raw],
)
