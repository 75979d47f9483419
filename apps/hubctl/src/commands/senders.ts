/** `hubctl senders`: the names that recipients see, and their registration with the SMS operator. */
import { encodeId, SENDER_STATUSES, type ModerationDecision } from '@hub/domain'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { database } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { decideSender, findSenders, type SenderRow } from './moderation.ts'
import { fields, show, table } from '../command-line/output.ts'
import {
  accountFlag,
  type Id,
  idArgument,
  takesEffect,
  limitFlag,
  modeFlag,
  reasonFlag,
} from '../command-line/arguments.ts'

const senderArgument = idArgument('snd', 'sender', 'The sender, as hubctl senders list shows it')

const senderObject = (row: SenderRow) => ({
  id: encodeId('snd', row.id),
  object: 'sender',
  account: encodeId('acc', row.account),
  mode: row.mode,
  name: row.name,
  registration: row.registration,
  status: row.status,
  reason: row.reason,
  created_at: row.created_at.toISOString(),
})

const rowsTable = (rows: ReadonlyArray<ReturnType<typeof senderObject>>, none: string): string =>
  table(
    rows,
    {
      sender: (row) => row.id,
      account: (row) => row.account,
      mode: (row) => row.mode,
      name: (row) => row.name,
      status: (row) => row.status,
      reason: (row) => row.reason,
      created: (row) => row.created_at,
    },
    none,
  )

const queue = defineCommand(
  'queue',
  {
    short: 'Senders that wait for their registration, oldest first',
    about:
      'Lists the senders of live mode that are to be registered with the SMS operator: those that have waited longest come first.',
    changes: NOTHING,
    examples: [{ command: 'hubctl senders queue' }],
    needs: database,
  },
  { account: accountFlag, limit: limitFlag },
  Effect.fnUntraced(function* ({ account, limit }) {
    const rows = yield* findSenders({
      account: Option.getOrNull(account)?.uuid ?? null,
      mode: 'live',
      status: 'pending',
      limit,
    })
    const data = rows.map(senderObject)
    yield* show({ object: 'list', data }, () => rowsTable(data, 'Nothing waits.'))
  }),
)

const list = defineCommand(
  'list',
  {
    short: 'Senders of all accounts',
    about: 'Lists senders of all accounts or of one, oldest first.',
    changes: NOTHING,
    examples: [{ command: 'hubctl senders list --account acc_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  {
    account: accountFlag,
    mode: modeFlag,
    status: Flag.Literals('status', SENDER_STATUSES).pipe(
      Flag.withDescription('Only of this status'),
      Flag.optional,
    ),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ account, limit, mode, status }) {
    const rows = yield* findSenders({
      account: Option.getOrNull(account)?.uuid ?? null,
      mode: Option.getOrNull(mode),
      status: Option.getOrNull(status),
      limit,
    })
    const data = rows.map(senderObject)
    yield* show({ object: 'list', data }, () => rowsTable(data, 'There are none.'))
  }),
)

const showOne = defineCommand(
  'show',
  {
    short: 'One sender, with what was given for its registration',
    about: 'Shows a sender with the registration object that the SMS operator asks for.',
    changes: NOTHING,
    examples: [{ command: 'hubctl senders show snd_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { sender: senderArgument },
  Effect.fnUntraced(function* ({ sender }) {
    const [row] = yield* findSenders({ account: null, mode: null, status: null, limit: 1 }, sender.uuid)
    if (row === undefined) return yield* refused('sender_not_found', `There is no sender ${sender.id}.`)
    yield* show(senderObject(row), ({ registration, ...value }) =>
      fields({ ...value, registration: registration === null ? null : JSON.stringify(registration) }),
    )
  }),
)

const decide = Effect.fnUntraced(function* (command: string, sender: Id, verdict: ModerationDecision) {
  const decided = yield* audited(
    { command, arguments: { sender: sender.id, ...(verdict.approved ? {} : { reason: verdict.reason }) } },
    decideSender(sender, verdict),
    (row) => ({ status: row.status }),
  )
  yield* show(senderObject(decided), (value) =>
    fields({ sender: value.id, name: value.name, status: value.status, reason: value.reason }),
  )
})

const approve = defineCommand(
  'approve',
  {
    short: 'The SMS operator has registered it',
    about:
      'Writes down that the SMS operator has registered a sender. What was declined before can be registered as well.',
    changes:
      'Approved templates of the sender can be sent with, at once. The account is told: sender.registered.',
    examples: [{ command: 'hubctl senders approve snd_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { sender: senderArgument },
  ({ sender }) => decide('senders approve', sender, { approved: true }),
)

const decline = defineCommand(
  'decline',
  {
    short: 'The SMS operator has declined it',
    about:
      'Writes down that the SMS operator has declined a sender, and why. Sends through its templates get 422 sender_not_registered.',
    changes: `No template of the sender can be sent with. ${takesEffect('settings')} The account is told, with the reason: sender.declined.`,
    examples: [
      { command: 'hubctl senders decline snd_01m7yt89qhe54swwc8wkxj6n8e --reason "The name is taken"' },
    ],
    needs: database,
  },
  { sender: senderArgument, reason: reasonFlag('Why; the account reads it') },
  ({ reason, sender }) => decide('senders decline', sender, { approved: false, reason }),
)

export const senders = defineGroup(
  'senders',
  {
    short: 'Senders: those that wait, approve, decline',
    about:
      'A sender is a name that recipients see. It is registered with the SMS operator, through the people who run the hub. In test mode that is not awaited.',
  },
  [queue, list, showOne, approve, decline],
)
