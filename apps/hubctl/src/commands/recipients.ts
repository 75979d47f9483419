/** `hubctl recipients`: the erasure of personal data at the request of a recipient. */
import { confirm as confirmed, defineGroup, fields, NOTHING, show, showList } from '@hub/command-line'
import { Erasures } from '@hub/operations'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import {
  limitFlag,
  recipientArgument,
  recipientOf,
  reasonFlag,
  switchFlag,
  uuidArgument,
} from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

type Receipt = typeof Erasures.ErasureReceipt.Type
type Request = typeof Erasures.ErasureRequestValue.Type

const receiptText = (receipt: Receipt): string =>
  [
    fields({
      receipt: receipt.id,
      recipient: receipt.recipient,
      status: receipt.status,
      requested: receipt.requested_at,
      'numbers and texts removed': receipt.removed.numbers_and_texts,
      'ledger rows cleared': receipt.removed.ledger_rows,
      'payload keys of replies destroyed': receipt.removed.keys_of_replies,
      'stored data cleared': receipt.cleared_at,
      'encrypted copies end': receipt.sealed_until,
      finished: receipt.finished_at,
      'recorded for restores': receipt.recorded_at,
    }),
    '',
    receipt.status === 'finished'
      ? 'Finished: no data of the recipient can be read.'
      : 'Stored data is erased. The hub will destroy the payload keys of messages that were in progress; then their encrypted copies are unreadable.',
  ].join('\n')

const requestText = (request: Request): string =>
  [
    fields({
      request: request.id,
      recipient: request.recipient,
      status: request.status,
      'requested by': request.requested_by,
      expires: request.expires_at,
    }),
    '',
    `Nothing is erased yet. Another person confirms it: hubctl recipients confirm ${request.id}`,
  ].join('\n')

const erase = defineCommand(
  'erase',
  {
    short: 'Erase the data of a recipient, and show the receipt',
    about:
      'Erases a number from all stores at the request of the recipient. Numbers and texts of messages ' +
      'are erased immediately. Encrypted copies of messages in progress become unreadable when their ' +
      'payload keys are destroyed, within 50 hours. The hash stays in de-identified records and in the ' +
      'opt-out. The projectors record the erasure in Kafka, so that it can be applied again after the ' +
      'restore of a backup (hubctl restore erasures). Repeating the command continues an unfinished ' +
      'erasure. With HUB_ERASURE_PERSONS=2 the command only requests the erasure, and another person ' +
      'confirms it with hubctl recipients confirm.',
    changes:
      'It cannot be undone: the number and the texts are unreadable. New messages to the number are ' +
      'ordinary messages. With HUB_ERASURE_PERSONS=2 nothing changes before the confirmation.',
    examples: [
      { command: 'hubctl recipients erase -', description: 'Type the number, then Ctrl-D' },
      {
        command: 'hubctl recipients erase - < receipt.json',
        description: 'Again, with the receipt of an earlier erasure',
      },
      {
        command: 'hubctl recipients erase +79001234567 --yes --json',
        description: 'The receipt as a JSON document',
      },
    ],
  },
  {
    recipient: recipientArgument,
    reason: reasonFlag('Why, for the audit trail and for who confirms it').pipe(Flag.optional),
  },
  Effect.fnUntraced(function* ({ reason, recipient: named }) {
    const recipient = yield* recipientOf(named)
    yield* confirmed('Erase this recipient from all stores? It cannot be undone.')
    const { receipt, request } = yield* run(Erasures.request, {
      recipient,
      reason: Option.getOrNull(reason),
    })
    if (receipt !== null) yield* show(receipt, receiptText)
    if (request !== null) yield* show(request, requestText)
  }),
)

const confirm = defineCommand(
  'confirm',
  {
    short: 'Confirm an erasure that another person requested',
    about:
      'Confirms an erasure that another person requested within the last week, and erases the recipient. ' +
      'Only a hub with HUB_ERASURE_PERSONS=2 has such requests.',
    changes: 'It cannot be undone: the number and the texts are unreadable.',
    examples: [{ command: 'hubctl recipients confirm 0199c4de-6f0a-4d1e-9a65-3f1f5f7a2b11' }],
  },
  {
    id: uuidArgument('request', 'An id from hubctl recipients requests'),
  },
  Effect.fnUntraced(function* ({ id }) {
    yield* confirmed('Erase this recipient from all stores? It cannot be undone.')
    const { receipt } = yield* run(Erasures.confirm, { id })
    if (receipt !== null) yield* show(receipt, receiptText)
  }),
)

const requests = defineCommand(
  'requests',
  {
    short: 'List the erasures that wait for another person',
    about: 'Lists the requested erasures, newest first: those that can be confirmed, or all.',
    changes: NOTHING,
    examples: [{ command: 'hubctl recipients requests' }],
  },
  { all: switchFlag('all', 'Include confirmed and expired ones'), limit: limitFlag },
  Effect.fnUntraced(function* ({ all, limit }) {
    const { data } = yield* run(Erasures.requests, { open: !all, limit, cursor: null })
    yield* showList(
      data,
      {
        request: (row) => row.id,
        status: (row) => row.status,
        by: (row) => row.requested_by,
        requested: (row) => row.requested_at,
        expires: (row) => row.expires_at,
        'confirmed by': (row) => row.confirmed_by,
      },
      'No erasure waits.',
    )
  }),
)

const receipts = defineCommand(
  'receipts',
  {
    short: 'List the erasure receipts of a recipient',
    about: 'Lists the erasures of a recipient, newest first, as proof that the requests were fulfilled.',
    changes: 'Only the audit trail, because the command reads data of a person.',
    examples: [{ command: 'hubctl recipients receipts +79001234567' }],
  },
  { recipient: recipientArgument },
  Effect.fnUntraced(function* (named) {
    const recipient = yield* recipientOf(named.recipient)
    const { data } = yield* run(Erasures.receipts, { recipient })
    yield* showList(
      data,
      {
        receipt: (row) => row.id,
        status: (row) => row.status,
        requested: (row) => row.requested_at,
        'numbers and texts': (row) => row.removed.numbers_and_texts,
        'ledger rows': (row) => row.removed.ledger_rows,
        finished: (row) => row.finished_at,
      },
      'No erasure was requested for this recipient.',
    )
  }),
)

export const recipients = defineGroup(
  'recipients',
  {
    short: 'Erasure of a recipient, with a receipt',
    about:
      'Requests of recipients about their own data. hubctl reads phone numbers from the command line or ' +
      'from standard input, and never stores them.',
  },
  [erase, requests, confirm, receipts],
)
