/** `hubctl recipients`: requests of people about their own data. */
import { eraseRecipient, type Erasure, readErasures } from '@hub/store'
import { toTimestamp } from '@hub/domain'
import { Effect } from 'effect'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database } from '../command-line/connections.ts'
import { fields, show, table } from '../command-line/output.ts'
import { hashOfNumber, numberArgument } from '../command-line/arguments.ts'

const momentOf = (ms: number | null): string | null => (ms === null ? null : toTimestamp(ms))

/** The receipt, without the number. */
const receipt = (erasure: Erasure) => ({
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
  cleared_at: momentOf(erasure.clearedAt),
  sealed_until: momentOf(erasure.sealedUntil),
  finished_at: momentOf(erasure.finishedAt),
})
type Receipt = ReturnType<typeof receipt>

const receiptText = (value: Receipt): string =>
  [
    fields({
      receipt: value.id,
      recipient: value.recipient,
      status: value.status,
      requested: value.requested_at,
      'numbers and texts removed': value.removed.numbers_and_texts,
      'rows of the ledger cleared': value.removed.ledger_rows,
      'keys of replies destroyed': value.removed.keys_of_replies,
      'nothing stored since': value.cleared_at,
      'sealed copies end': value.sealed_until,
      finished: value.finished_at,
    }),
    '',
    value.status === 'finished'
      ? 'Finished: nothing of theirs can be read any more.'
      : 'What was stored is gone. Sealed copies of messages that were under way become unreadable when their keys are destroyed; the hub sees to that by itself.',
  ].join('\n')

const erase = defineCommand(
  'erase',
  {
    short: 'Forget a person, and show the receipt',
    about:
      'Removes a number from all stores, on the request of the person whose it is: numbers and texts of their messages at once, sealed copies of what is under way when ' +
      'their keys are destroyed, two days later at most. The hash stays in de-identified records and in their opt-out. Asking again before it is finished goes on with the same request.',
    changes:
      'Irreversible: no number and no text of theirs can be read any more, by anybody. Messages to them that are sent later are ordinary messages.',
    examples: [
      { command: 'hubctl recipients erase -', description: 'Type the number, then Ctrl-D' },
      {
        command: 'hubctl recipients erase +79001234567 --yes --json',
        description: 'The receipt as a document',
      },
    ],
    needs: database,
  },
  { number: numberArgument },
  Effect.fnUntraced(function* ({ number }) {
    const recipient = yield* hashOfNumber(number)
    yield* confirm('Remove this number from all stores? There is no way back.')
    const erasure = yield* audited(
      { command: 'recipients erase', arguments: { recipient } },
      eraseRecipient(recipient),
      (done) => ({ receipt: done.id, removed: done.personalData }),
    )
    yield* show(receipt(erasure), receiptText)
  }),
)

const receipts = defineCommand(
  'receipts',
  {
    short: 'The receipts of a person’s erasures',
    about: 'Shows what was removed for a person and when, newest first: proof that their request was met.',
    changes: 'Nothing but the audit trail, since it is about a person.',
    examples: [{ command: 'hubctl recipients receipts +79001234567' }],
    needs: database,
  },
  { number: numberArgument },
  Effect.fnUntraced(function* ({ number }) {
    const recipient = yield* hashOfNumber(number)
    const erasures = yield* audited(
      { command: 'recipients receipts', arguments: { recipient } },
      readErasures(recipient),
      (found) => ({ receipts: found.length }),
    )
    const data = erasures.map(receipt)
    yield* show({ object: 'list', data }, () =>
      table(
        data,
        {
          receipt: (row) => row.id,
          status: (row) => row.status,
          requested: (row) => row.requested_at,
          'numbers and texts': (row) => row.removed.numbers_and_texts,
          'ledger rows': (row) => row.removed.ledger_rows,
          finished: (row) => row.finished_at,
        },
        'Nobody has asked for this number to be erased.',
      ),
    )
  }),
)

export const recipients = defineGroup(
  'recipients',
  {
    short: 'Erasure of a person, with receipt',
    about:
      'What people may ask of the hub about their own data. Their numbers are read from the command line or standard input, and kept nowhere.',
  },
  [erase, receipts],
)
