/** `hubctl certification`: the checklist that an account fulfils before it gets live keys. */
import { confirm, defineGroup, fields, NOTHING, show, table } from '@hub/command-line'
import { type Confirmation, CONFIRMATION_NAMES } from '@hub/domain'
import { Accounts, Certification } from '@hub/operations'
import { Effect } from 'effect'
import { Flag } from 'effect/cli'
import { accountArgument } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run, withHint } from '../operations.ts'

const check = defineCommand(
  'check',
  {
    short: 'Show the certification checklist of an account',
    about:
      'Shows the checklist of an account: what the hub has observed in test mode, and what a person ' +
      'must confirm because the hub cannot observe it.',
    changes: NOTHING,
    examples: [{ command: 'hubctl certification check acc_01m7yt89qhe54swwc8wkxj6n8e' }],
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const { name } = yield* run(Accounts.get, { account: account })
    const result = yield* run(Certification.check, { account: account })
    yield* show(result, ({ certified, granted_at, granted_by, points }) =>
      [
        fields({ account: `${account} (${name})`, certified, granted: granted_at, by: granted_by }),
        '',
        table(points, {
          point: (point) => point.name,
          '': (point) => (point.fulfilled ? 'ok' : point.by === 'seen' ? 'MISSING' : 'to be confirmed'),
          requirement: (point) => point.wanted,
        }),
      ].join('\n'),
    )
  }),
)

const grant = defineCommand(
  'grant',
  {
    short: 'Certify an account for live keys',
    about:
      'Certifies an account. The hub must have observed its part of the checklist, and each other ' +
      'point must be confirmed. hubctl records who confirms.',
    changes:
      'The account may have live keys (hubctl keys issue --mode live). hubctl certification withdraw ' +
      'undoes it.',
    examples: [
      {
        command:
          'hubctl certification grant acc_01m7yt89qhe54swwc8wkxj6n8e --confirm signature --confirm deduplication --confirm retries --confirm catch_up --confirm key_storage',
      },
    ],
  },
  {
    account: accountArgument,
    confirm: Flag.Literals('confirm', CONFIRMATION_NAMES as [Confirmation, ...Array<Confirmation>]).pipe(
      Flag.withDescription('Confirm this point. Repeat the flag for each point'),
      Flag.atLeast(0),
    ),
  },
  Effect.fnUntraced(function* ({ account, confirm: given }) {
    const confirmed = CONFIRMATION_NAMES.filter((name) => given.includes(name))
    const granted = yield* run(Certification.grant, { account: account, confirmed }).pipe(
      withHint('checklist_incomplete', `See: hubctl certification check ${account}`),
    )
    yield* show(granted, () =>
      fields({ account: account, certified: true, next: `hubctl keys issue ${account} --mode live` }),
    )
  }),
)

const withdraw = defineCommand(
  'withdraw',
  {
    short: 'Withdraw a certification',
    about:
      'Withdraws the certification of an account, for example before a new integration. Existing live ' +
      'keys continue to work; hubctl keys revoke revokes them.',
    changes: 'The account cannot get more live keys.',
    examples: [{ command: 'hubctl certification withdraw acc_01m7yt89qhe54swwc8wkxj6n8e' }],
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const { name } = yield* run(Accounts.get, { account: account })
    const { certified } = yield* run(Certification.check, { account: account })
    if (certified) yield* confirm(`Withdraw the certification of ${name} (${account})?`)
    const withdrawn = yield* run(Certification.withdraw, { account: account })
    yield* show(withdrawn, () => fields({ account: account, certified: false }))
  }),
)

export const certification = defineGroup(
  'certification',
  {
    short: 'The checklist before live keys',
    about: 'An account gets live keys after the certification of its integration.',
  },
  [check, grant, withdraw],
)
