/** `hubctl certification`: the checklist before an account gets live keys. */
import {
  type CertificationCheck,
  certificationChecklist,
  type Confirmation,
  CONFIRMATION_NAMES,
  type ObservedActivity,
} from '@hub/domain'
import { Sql } from '@hub/store'
import { Effect } from 'effect'
import { Flag } from 'effect/cli'
import { actor, audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { fields, show, table } from '../command-line/output.ts'
import { accountArgument, type Id } from '../command-line/arguments.ts'
import { requireAccount } from './accounts.ts'

interface Certification {
  readonly granted_at: Date
  readonly granted_by: string
  readonly confirmed: ReadonlyArray<Confirmation>
}

const certificationOf = Effect.fnUntraced(function* (account: Id) {
  const sql = yield* Sql
  const [row] = yield* sql.run(
    (q) => q<Certification[]>`
      SELECT granted_at, granted_by, confirmed FROM command.certifications WHERE account = ${account.uuid}`,
  )
  return row ?? null
})

/** Whether an account may have live keys. */
export const isCertified = (account: Id) => Effect.map(certificationOf(account), (found) => found !== null)

const evidenceOf = Effect.fnUntraced(function* (account: Id) {
  const sql = yield* Sql
  const [row] = yield* sql.run(
    (q) => q<ObservedActivity[]>`
      SELECT (SELECT count(*) FROM command.api_keys WHERE account = a.id AND mode = 'test')::integer AS "testKeys",
             s.delivered, s.failed,
             (SELECT count(*) FROM (
                SELECT 1 FROM command.client_refs r WHERE r.account = a.id AND r.mode = 'test' LIMIT 1) AS r)::integer AS "references",
             (SELECT count(*) FROM webhooks.endpoints e
               WHERE e.account = a.id AND e.mode = 'test' AND e.status = 'enabled' AND e.deleted_at IS NULL
                 AND EXISTS (SELECT 1 FROM webhooks.attempts t
                              WHERE t.endpoint_id = e.id AND t.status = 'succeeded' AND NOT t.trial))::integer AS "webhooksReceived",
             (SELECT count(*) FROM command.senders WHERE account = a.id AND mode = 'live' AND status = 'registered')::integer AS "liveSenders",
             (SELECT count(*) FROM command.templates t
                JOIN command.senders s USING (account, mode)
               WHERE t.account = a.id AND t.mode = 'live' AND t.status = 'approved'
                 AND s.name = t.sender AND s.status = 'registered')::integer AS "liveTemplates"
        FROM command.accounts a
       CROSS JOIN LATERAL (
              SELECT coalesce(sum(delivered), 0)::integer AS delivered,
                     coalesce(sum(undelivered + rejected + expired), 0)::integer AS failed
                FROM read.daily_stats d WHERE d.account = a.id AND d.mode = 'test') AS s
       WHERE a.id = ${account.uuid}`,
  )
  return row ?? (yield* refused('account_not_found', `There is no account ${account.id}.`))
})

const pointsTable = (points: ReadonlyArray<CertificationCheck>): string =>
  table(points, {
    point: (point) => point.name,
    '': (point) => (point.fulfilled ? 'ok' : point.by === 'seen' ? 'MISSING' : 'to be confirmed'),
    'what is asked for': (point) => point.wanted,
  })

const check = defineCommand(
  'check',
  {
    short: 'What an account still lacks for live keys',
    about:
      'Goes through the checklist: what the hub has seen of the account in test mode, and what a person has to confirm because the hub cannot see it.',
    changes: NOTHING,
    examples: [{ command: 'hubctl certification check acc_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const name = yield* requireAccount(account)
    const certification = yield* certificationOf(account)
    const points = certificationChecklist(
      yield* evidenceOf(account),
      new Set<string>(certification?.confirmed ?? []),
    )
    yield* show(
      {
        account: account.id,
        object: 'certification',
        certified: certification !== null,
        granted_at: certification?.granted_at.toISOString() ?? null,
        granted_by: certification?.granted_by ?? null,
        points,
      },
      (value) =>
        [
          fields({
            account: `${account.id} (${name})`,
            certified: value.certified,
            granted: value.granted_at,
            by: value.granted_by,
          }),
          '',
          pointsTable(points),
        ].join('\n'),
    )
  }),
)

const grant = defineCommand(
  'grant',
  {
    short: 'Certify an account for live keys',
    about:
      'Certifies an account: all that the hub can see for itself must have been seen, and each of the other points be confirmed. Who confirms them is kept.',
    changes:
      'The account may be given live keys (hubctl keys issue --mode live). hubctl certification withdraw takes it back.',
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
      Flag.withDescription('I have made sure of this; to be given for each of them'),
      Flag.atLeast(0),
    ),
  },
  Effect.fnUntraced(function* ({ account, confirm: given }) {
    const sql = yield* Sql
    yield* requireAccount(account)
    const confirmed = CONFIRMATION_NAMES.filter((name) => given.includes(name))
    const points = certificationChecklist(yield* evidenceOf(account), new Set(confirmed))
    yield* audited(
      { command: 'certification grant', arguments: { account: account.id, confirmed } },
      Effect.gen(function* () {
        const open = points.filter((point) => !point.fulfilled)
        if (open.length > 0) {
          return yield* refused(
            'checklist_incomplete',
            `These points are open: ${open.map(({ name }) => name).join(', ')}. See: hubctl certification check ${account.id}`,
          )
        }
        const by = yield* actor
        yield* sql.run(
          (q) => q`
            INSERT INTO command.certifications (account, granted_by, confirmed)
            VALUES (${account.uuid}, ${by}, ${[...confirmed]}::text[])
            ON CONFLICT (account) DO UPDATE
              SET granted_at = now(), granted_by = excluded.granted_by, confirmed = excluded.confirmed`,
        )
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
    short: 'Take a certification back',
    about:
      'Takes the certification of an account back, for instance when its integration is to be written anew. Its live keys go on working: see hubctl keys revoke.',
    changes: 'The account can be given no further live keys.',
    examples: [{ command: 'hubctl certification withdraw acc_01m7yt89qhe54swwc8wkxj6n8e' }],
    needs: database,
  },
  { account: accountArgument },
  Effect.fnUntraced(function* ({ account }) {
    const sql = yield* Sql
    const name = yield* requireAccount(account)
    if (!(yield* isCertified(account))) {
      return yield* refused('not_certified', `${account.id} is not certified.`)
    }
    yield* confirm(`Take the certification of ${name} (${account.id}) back?`)
    yield* audited(
      { command: 'certification withdraw', arguments: { account: account.id } },
      sql.run((q) => q`DELETE FROM command.certifications WHERE account = ${account.uuid}`),
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
    about:
      'A live key is issued after an integration has been certified. The checklist says what it must have shown.',
  },
  [check, grant, withdraw],
)
