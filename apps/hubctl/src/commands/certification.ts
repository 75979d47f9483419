/** `hubctl certification`: the checklist that an account fulfils before it gets live keys. */
import { certificationChecklist, type Confirmation, CONFIRMATION_NAMES } from '@hub/domain'
import { AccountActivity } from '@hub/store'
import { Effect } from 'effect'
import { Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { accountArgument, type Id } from '../command-line/arguments.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database, query } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { fields, show, table } from '../command-line/output.ts'
import { actor } from '../operations.ts'
import * as Certifications from '../tables/certifications.ts'
import { accountNotFound, requireAccount } from './accounts.ts'

const readCertification = Effect.fnUntraced(function* (account: Id) {
  const found = yield* query((q) => Certifications.read(q, [account.uuid]))
  return found.get(account.uuid) ?? null
})

/** Whether an account may have live keys. */
export const isCertified = (account: Id) => Effect.map(readCertification(account), (found) => found !== null)

const checklistOf = Effect.fnUntraced(function* (account: Id, confirmed: ReadonlyArray<Confirmation>) {
  const activity = yield* query((q) => AccountActivity.read(q, account.uuid))
  if (activity === null) return yield* accountNotFound(account)
  return certificationChecklist(activity, new Set(confirmed))
})

const check = defineCommand(
  'check',
  {
    short: 'Show the certification checklist of an account',
    about:
      'Shows the checklist of an account: what the hub has observed in test mode, and what a person ' +
      'must confirm because the hub cannot observe it.',
    changes: NOTHING,
    examples: [{ command: 'hubctl certification check acc_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const name = yield* requireAccount(account)
    const certification = yield* readCertification(account)
    const points = yield* checklistOf(account, certification?.confirmed ?? [])
    const result = {
      account: account.id,
      object: 'certification',
      certified: certification !== null,
      granted_at: certification?.granted_at.toISOString() ?? null,
      granted_by: certification?.granted_by ?? null,
      points,
    }
    yield* show(result, ({ certified, granted_at, granted_by }) =>
      [
        fields({ account: `${account.id} (${name})`, certified, granted: granted_at, by: granted_by }),
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
    needs: database,
  },
  {
    account: accountArgument,
    confirm: Flag.Literals('confirm', CONFIRMATION_NAMES as [Confirmation, ...Array<Confirmation>]).pipe(
      Flag.withDescription('Confirm this point. Repeat the flag for each point'),
      Flag.atLeast(0),
    ),
  },
  Effect.fnUntraced(function* ({ account, confirm: given }) {
    yield* requireAccount(account)
    const confirmed = CONFIRMATION_NAMES.filter((name) => given.includes(name))
    const points = yield* checklistOf(account, confirmed)
    yield* audited(
      { command: 'certification grant', arguments: { account: account.id, confirmed } },
      Effect.gen(function* () {
        const open = points.filter((point) => !point.fulfilled).map(({ name }) => name)
        if (open.length > 0) {
          return yield* refused(
            'checklist_incomplete',
            `These points are open: ${open.join(', ')}. See: hubctl certification check ${account.id}`,
          )
        }
        const { name: by } = yield* actor
        yield* query((q) => Certifications.upsert(q, account.uuid, by, confirmed))
      }),
    )
    yield* show({ account: account.id, object: 'certification', certified: true, points }, () =>
      fields({ account: account.id, certified: true, next: `hubctl keys issue ${account.id} --mode live` }),
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
    needs: database,
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const name = yield* requireAccount(account)
    if (!(yield* isCertified(account))) {
      return yield* refused('not_certified', `${account.id} is not certified.`)
    }
    yield* confirm(`Withdraw the certification of ${name} (${account.id})?`)
    yield* audited(
      { command: 'certification withdraw', arguments: { account: account.id } },
      query((q) => Certifications.remove(q, account.uuid)),
    )
    yield* show({ account: account.id, object: 'certification', certified: false }, () =>
      fields({ account: account.id, certified: false }),
    )
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
