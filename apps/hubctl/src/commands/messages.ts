/** `hubctl messages`: finds a message and what happened to it, for support. */
import { defineGroup, fields, show, showList, table, usageError } from '@hub/command-line'
import { Messages } from '@hub/operations'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import {
  accountFlag,
  choiceFlag,
  idArgument,
  limitFlag,
  modeFlag,
  recipientOf,
  revealReasonFlag,
} from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { encryptedRecords } from '../command-line/connections.ts'
import { run } from '../operations.ts'

const ONLY_AUDIT = 'Only the audit trail, because the command reads data of a person.'

const messageArgument = idArgument('msg', 'message', 'An id from hubctl messages find, or of a client')

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
    operator: choiceFlag('operator', Messages.OPERATORS, 'The operator of the id'),
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
    const by = Option.isSome(recipient)
      ? { recipient: yield* recipientOf(recipient.value) }
      : ref !== null && account !== null
        ? { client_ref: ref, account }
        : { operator_id: partId ?? '', operator: operator ?? 'sandbox' }
    const { data } = yield* run(Messages.findBy, { by, account, mode, limit })
    yield* showList(
      data,
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

const showMessage = defineCommand(
  'show',
  {
    short: 'Show a message of any account',
    about:
      'Shows the record of a message: account, template, status, attempts, price, and its ids at the ' +
      'operator. It shows the hash of the recipient, and neither number nor text.',
    changes: ONLY_AUDIT,
    examples: [{ command: 'hubctl messages show msg_01m7yt89qhe54swwc8wkxj6n8e' }],
  },
  { message: messageArgument },
  Effect.fnUntraced(function* ({ message }) {
    yield* show(yield* run(Messages.get, { id: message }), (shown) =>
      fields({ ...shown, operator_ids: shown.operator_ids.join(' ') }),
    )
  }),
)

const timeline = defineCommand(
  'timeline',
  {
    short: 'Show what happened to a message, in order',
    about:
      'Shows in the order of time: the acceptance and each status of the message, its events, and the ' +
      'attempts to deliver these events to the webhook subscriptions of the account.',
    changes: ONLY_AUDIT,
    examples: [{ command: 'hubctl messages timeline msg_01m7yt89qhe54swwc8wkxj6n8e' }],
  },
  { message: messageArgument },
  Effect.fnUntraced(function* ({ message }) {
    yield* show(yield* run(Messages.briefTimeline, { id: message }), ({ data }) =>
      table(data, { at: (row) => row.at, what: (row) => row.what, detail: (row) => row.detail }),
    )
  }),
)

const raw = defineCommand(
  'raw',
  {
    short: 'Show what the operator sent about a message',
    about:
      'Shows the answers to the submits of a message and its delivery reports, as the operator sent ' +
      'them. Octets that are no text, such as in SMPP, are shown as `\\x00`. The hub keeps them ' +
      'encrypted for 90 days. They can contain the number and the text. Reports later than an hour ' +
      'after the last change are left out.',
    changes: 'Only the audit trail, because the command reads data of a person.',
    examples: [{ command: 'hubctl messages raw msg_06fs37r7c5yb6k1v9b2h8zq4mt' }],
    needs: encryptedRecords,
  },
  { message: idArgument('msg', 'message', 'The id of the message'), reason: revealReasonFlag },
  Effect.fnUntraced(function* ({ message, reason }) {
    const { data } = yield* run(Messages.raw, { id: message, reason: Option.getOrNull(reason) })
    yield* showList(
      data,
      {
        received: (row) => row.received_at,
        kind: (row) => row.kind,
        operator: (row) => row.operator,
        'operator id': (row) => row.operator_id,
        outcome: (row) => row.outcome,
        raw: (row) => row.raw,
      },
      'The hub has nothing of an operator about this message.',
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
