/** `hubctl inbound`: the messages that recipients wrote to the hub. */
import { defineGroup, showList } from '@hub/command-line'
import { Inbound } from '@hub/operations'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { limitFlag, recipientOf, revealReasonFlag } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { encryptedRecords } from '../command-line/connections.ts'
import { run } from '../operations.ts'

const list = defineCommand(
  'list',
  {
    short: 'List the newest inbound messages',
    about:
      'Lists what recipients wrote to the hub, newest first. Number and text are shown for 90 days, ' +
      'and masked afterwards. After a year, or an erasure, they are empty. The record is kept for ' +
      'three years.',
    changes: 'Only the audit trail, because the command reads data of people.',
    examples: [
      { command: 'hubctl inbound list --limit 20' },
      { command: 'hubctl inbound list --recipient -', description: 'Type the number, then Ctrl-D' },
    ],
    needs: encryptedRecords,
  },
  {
    recipient: Flag.String('recipient').pipe(
      Flag.withDescription('Only this recipient: a number, a hash, or - for standard input'),
      Flag.optional,
    ),
    reason: revealReasonFlag,
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ limit, reason, recipient }) {
    const named = Option.isNone(recipient) ? null : yield* recipientOf(recipient.value)
    const { data } = yield* run(Inbound.list, { recipient: named, reason: Option.getOrNull(reason), limit })
    yield* showList(
      data,
      {
        received: (row) => row.received_at,
        number: (row) => row.number,
        text: (row) => row.text ?? '',
        to: (row) => row.service_address,
        operator: (row) => row.operator,
      },
      'There are no inbound messages.',
    )
  }),
)

export const inbound = defineGroup(
  'inbound',
  {
    short: 'Inbound messages of recipients',
    about: 'What recipients wrote to the hub. hubctl opt-outs shows the effect of opt-out words.',
  },
  [list],
)
