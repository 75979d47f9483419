/** `hubctl migrations`: the schema of PostgreSQL. */
import { settings as catalogue } from '@hub/config'
import { migrate, migrationStatus } from '@hub/store'
import { Effect, Redacted } from 'effect'
import { auditedAfterwards } from '../audit.ts'
import { leaf, noun, NOTHING } from '../command.ts'
import { database } from '../connect.ts'
import { refused } from '../failure.ts'
import { show, table } from '../output.ts'

interface Row {
  readonly name: string
  readonly state: 'applied' | 'pending'
  readonly at: string | null
}

const status = leaf(
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

const apply = leaf(
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

export const migrations = noun(
  'migrations',
  {
    short: 'The schema of PostgreSQL',
    about: 'Migrations: what the database has of the schema of this version.',
  },
  [status, apply],
)
