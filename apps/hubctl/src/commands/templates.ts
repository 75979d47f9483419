/** `hubctl templates`: the moderation queue, and what was decided. */
import { encodeId, TEMPLATE_STATUSES, type ModerationDecision } from '@hub/domain'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { database } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { decideTemplate, findTemplates, type TemplateRow } from './moderation.ts'
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

const templateArgument = idArgument('tpl', 'template', 'The template, as hubctl templates list shows it')

const templateObject = (row: TemplateRow) => ({
  id: encodeId('tpl', row.id),
  object: 'template',
  account: encodeId('acc', row.account),
  mode: row.mode,
  name: row.name,
  class: row.class,
  sender: row.sender,
  body: row.body,
  language: row.language,
  status: row.status,
  reason: row.reason,
  created_at: row.created_at.toISOString(),
})

const rowsTable = (rows: ReadonlyArray<ReturnType<typeof templateObject>>, none: string): string =>
  table(
    rows,
    {
      template: (row) => row.id,
      account: (row) => row.account,
      mode: (row) => row.mode,
      name: (row) => row.name,
      class: (row) => row.class,
      sender: (row) => row.sender,
      status: (row) => row.status,
      created: (row) => row.created_at,
      text: (row) => row.body,
    },
    none,
  )

const queue = defineCommand(
  'queue',
  {
    short: 'Templates that wait for moderation, oldest first',
    about:
      'Lists the templates of live mode that the SMS operator has to look at: those that have waited longest come first.',
    changes: NOTHING,
    examples: [{ command: 'hubctl templates queue' }],
    needs: database,
  },
  { account: accountFlag, limit: limitFlag },
  Effect.fnUntraced(function* ({ account, limit }) {
    const rows = yield* findTemplates({
      account: Option.getOrNull(account)?.uuid ?? null,
      mode: 'live',
      status: 'pending_moderation',
      limit,
    })
    const data = rows.map(templateObject)
    yield* show({ object: 'list', data }, () => rowsTable(data, 'Nothing waits.'))
  }),
)

const list = defineCommand(
  'list',
  {
    short: 'Templates of all accounts',
    about: 'Lists templates of all accounts or of one, oldest first.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl templates list --account acc_01m7yt89qhe54swwc8wkxj6n8e' },
      { command: 'hubctl templates list --status declined --json' },
    ],
    needs: database,
  },
  {
    account: accountFlag,
    mode: modeFlag,
    status: Flag.Literals('status', TEMPLATE_STATUSES).pipe(
      Flag.withDescription('Only of this status'),
      Flag.optional,
    ),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ account, limit, mode, status }) {
    const rows = yield* findTemplates({
      account: Option.getOrNull(account)?.uuid ?? null,
      mode: Option.getOrNull(mode),
      status: Option.getOrNull(status),
      limit,
    })
    const data = rows.map(templateObject)
    yield* show({ object: 'list', data }, () => rowsTable(data, 'There are none.'))
  }),
)

const showOne = defineCommand(
  'show',
  {
    short: 'One template',
    about: 'Shows a template with its text, what was decided about it, and whether its sender can be used.',
    changes: NOTHING,
    examples: [{ command: 'hubctl templates show tpl_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { template: templateArgument },
  Effect.fnUntraced(function* ({ template }) {
    const [row] = yield* findTemplates({ account: null, mode: null, status: null, limit: 1 }, template.uuid)
    if (row === undefined) {
      return yield* refused('template_not_found', `There is no template ${template.id}.`)
    }
    yield* show({ ...templateObject(row), sender_status: row.sender_status }, (value) => fields(value))
  }),
)

const decide = Effect.fnUntraced(function* (command: string, template: Id, verdict: ModerationDecision) {
  const decided = yield* audited(
    {
      command,
      arguments: { template: template.id, ...(verdict.approved ? {} : { reason: verdict.reason }) },
    },
    decideTemplate(template, verdict),
    (row) => ({ status: row.status }),
  )
  yield* show(templateObject(decided), (value) =>
    fields({ template: value.id, name: value.name, status: value.status, reason: value.reason }),
  )
})

const approve = defineCommand(
  'approve',
  {
    short: 'The SMS operator has approved it',
    about:
      'Writes down that the SMS operator has approved a template. What was declined before can be approved as well.',
    changes:
      'The template can be sent with, at once, where its sender is registered. The account is told: template.approved.',
    examples: [{ command: 'hubctl templates approve tpl_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { template: templateArgument },
  ({ template }) => decide('templates approve', template, { approved: true }),
)

const decline = defineCommand(
  'decline',
  {
    short: 'The SMS operator has declined it',
    about:
      'Writes down that the SMS operator has declined a template, and why. Sends with it get 422 template_declined. What was approved before can be declined as well.',
    changes: `The template cannot be sent with, in either mode. ${takesEffect('settings')} The account is told, with the reason: template.declined.`,
    examples: [
      {
        command: 'hubctl templates decline tpl_01m7yt89qhe54swwc8wkxj6n8e --reason "It names no sender"',
      },
    ],
    needs: database,
  },
  { template: templateArgument, reason: reasonFlag('Why; the account reads it') },
  ({ reason, template }) => decide('templates decline', template, { approved: false, reason }),
)

export const templates = defineGroup(
  'templates',
  {
    short: 'Templates: the moderation queue, approve, decline',
    about:
      'Templates are moderated by the SMS operator, by hand. What it decides is written down here. In test mode moderation is not awaited.',
  },
  [queue, list, showOne, approve, decline],
)
