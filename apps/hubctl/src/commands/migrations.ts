/** `hubctl migrations`: the schema of PostgreSQL. */
import { settings as catalogue } from '@hub/config'
import { migrate, migrationStatus } from '@hub/store'
import { Effect, Redacted, Schedule } from 'effect'
import { Flag } from 'effect/cli'
import { auditedAfterwards } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { database } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { show, table } from '../command-line/output.ts'

interface Row {
  readonly name: string
  readonly state: 'applied' | 'pending'
  readonly at: string | null
}

const status = defineCommand(
  'status',
  {
    short: 'What is applied, and what is pending',
    about:
      'Lists the migrations of this version of the hub, and when each of them was applied. The exit code is 1 where one is pending, or where the ' +
      'database does not belong to this version: it has a migration of a newer one, or one that was edited afterwards.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl migrations status', description: 'One line for each migration' },
      { command: 'hubctl migrations status --json', description: 'For a job that waits for them' },
    ],
    needs: database,
  },
  {},
  Effect.fnUntraced(function* () {
    const { applied, pending, problems } = yield* migrationStatus
    const rows: ReadonlyArray<Row> = [
      ...applied.map(({ at, name }): Row => ({ name, state: 'applied', at: new Date(at).toISOString() })),
      ...pending.map((name): Row => ({ name, state: 'pending', at: null })),
    ]
    yield* show({ object: 'migrations', data: rows, problems }, () =>
      [
        table(rows, { migration: ({ name }) => name, state: ({ state }) => state, at: ({ at }) => at }),
        ...problems,
      ].join('\n'),
    )
    const [problem] = problems
    if (problem !== undefined) return yield* refused('migrations_mismatch', `${problem}.`)
    if (pending.length > 0) {
      return yield* refused('migrations_pending', `${pending.length} pending: run hubctl migrations apply.`)
    }
  }),
)

/** Between two looks. */
const LOOK_EVERY = '1 second'

/** Longer than any migration so far, on a large table; an orchestrator begins anew after it. */
const WITHIN_SECONDS = 300

const wait = defineCommand(
  'wait',
  {
    short: 'Wait until nothing is pending',
    about:
      'Ends well as soon as every migration of this version is applied, whoever does that; until then it looks again, also where the database does ' +
      'not answer yet. A newer schema is no obstacle, since a version works with the schema of the next one. The exit code is not 0 where the ' +
      'time is over.',
    changes: NOTHING,
    examples: [{ command: 'hubctl migrations wait', description: 'Before an app of this version starts' }],
    needs: database,
  },
  {
    within: Flag.Int('within').pipe(
      Flag.withDescription('Seconds to wait'),
      Flag.withMetavar('seconds'),
      Flag.withDefault(WITHIN_SECONDS),
    ),
  },
  Effect.fnUntraced(function* ({ within }) {
    yield* Effect.retry(
      Effect.flatMap(migrationStatus, ({ pending }) =>
        pending.length === 0
          ? Effect.void
          : refused('migrations_pending', `${pending.length} are still pending.`),
      ),
      Schedule.spaced(LOOK_EVERY).pipe(Schedule.upTo({ duration: `${within} seconds` })),
    )
    yield* show({ object: 'migrations_applied' }, () => 'Nothing is pending.')
  }),
)

const apply = defineCommand(
  'apply',
  {
    short: 'Apply what is pending',
    about:
      'Applies the pending migrations in their order, each in a transaction of its own, one process at a time. Safe to repeat, and safe while the ' +
      'version before still runs: migrations only add.',
    changes:
      'The schema of PostgreSQL, at once. There is no way back; a version of the hub works with the schema of the next one.',
    examples: [{ command: 'hubctl migrations apply', description: 'In a job, before a new version starts' }],
    needs: database,
  },
  {},
  Effect.fnUntraced(function* () {
    const url = Redacted.value(yield* catalogue.databaseUrl.config)
    const applied = yield* migrate(url)
    if (applied.length > 0) {
      yield* auditedAfterwards({ command: 'migrations apply', arguments: {} }, { applied })
    }
    yield* show({ object: 'migration_changes', applied }, () =>
      applied.length === 0 ? 'Nothing was pending.' : `Applied:\n${applied.join('\n')}`,
    )
  }),
)

export const migrations = defineGroup(
  'migrations',
  {
    short: 'The schema of PostgreSQL',
    about: 'Migrations: what the database has of the schema of this version.',
  },
  [status, wait, apply],
)
