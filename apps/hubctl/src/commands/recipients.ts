/** `hubctl recipients`: the erasure of personal data at the request of a recipient. */
import { toTimestamp } from '@hub/domain'
import { eraseRecipient, type Erasure, readErasures } from '@hub/store'
import { Effect } from 'effect'
import { audited } from '../audit/audit-trail.ts'
import { hashRecipientArgument, recipientArgument } from '../command-line/arguments.ts'
import { defineCommand, defineGroup } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database } from '../command-line/connections.ts'
import { fields, optionalTimestamp, show, showList } from '../command-line/output.ts'

/** The receipt, without the phone number. */
const toJson = (erasure: Erasure) => ({
  id: erasure.id,
  object: 'erasure',
  recipient: erasure.recipient,
  status: erasure.finishedAt !== null ? 'finished' : erasure.clearedAt !== null ? 'cleared' : 'under_way',
  requested_at: toTimestamp(erasure.requestedAt),
  removed: {
    numbers_and_texts: erasure.personalData,
    ledger_rows: erasure.acceptances,
    keys_of_replies: erasure.sealingKeys,
  },
  cleared_at: optionalTimestamp(erasure.clearedAt),
  sealed_until: optionalTimestamp(erasure.sealedUntil),
  finished_at: optionalTimestamp(erasure.finishedAt),
  recorded_at: optionalTimestamp(erasure.publishedAt),
})

const receiptText = (receipt: ReturnType<typeof toJson>): string =>
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

const erase = defineCommand(
  'erase',
  {
    short: 'Erase the data of a recipient, and show the receipt',
    about:
      'Erases a number from all stores at the request of the recipient. Numbers and texts of messages ' +
      'are erased immediately. Encrypted copies of messages in progress become unreadable when their ' +
      'payload keys are destroyed, within 50 hours. The hash stays in de-identified records and in the ' +
      'opt-out. The projectors record the erasure in Kafka, so that it can be applied again after the ' +
      'restore of a backup (hubctl restore erasures). Repeating the command continues an unfinished erasure.',
    changes:
      'It cannot be undone: the number and the texts are unreadable. New messages to the number are ' +
      'ordinary messages.',
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
    needs: database,
  },
  { recipient: recipientArgument },
  Effect.fnUntraced(function* (named) {
    const recipient = yield* hashRecipientArgument(named.recipient)
    yield* confirm('Erase this recipient from all stores? It cannot be undone.')
    const erasure = yield* audited(
      { command: 'recipients erase', arguments: { recipient } },
      eraseRecipient(recipient),
      ({ id, personalData }) => ({ receipt: id, removed: personalData }),
    )
    yield* show(toJson(erasure), receiptText)
  }),
)

const receipts = defineCommand(
  'receipts',
  {
    short: 'List the erasure receipts of a recipient',
    about: 'Lists the erasures of a recipient, newest first, as proof that the requests were fulfilled.',
    changes: 'Only the audit trail, because the command reads data of a person.',
    examples: [{ command: 'hubctl recipients receipts +79001234567' }],
    needs: database,
  },
  { recipient: recipientArgument },
  Effect.fnUntraced(function* (named) {
    const recipient = yield* hashRecipientArgument(named.recipient)
    const erasures = yield* audited(
      { command: 'recipients receipts', arguments: { recipient } },
      readErasures(recipient),
      (found) => ({ receipts: found.length }),
    )
    yield* showList(
      erasures.map(toJson),
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
  [erase, receipts],
)
