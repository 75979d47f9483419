/** `hubctl migrations`: the schema of PostgreSQL. */
import { defineGroup, NOTHING, printNote, refused, show, table } from '@hub/command-line'
import { connectionFault, settings } from '@hub/config'
import { auditedAfterwards } from '@hub/operations'
import { migrate, migrationStatus } from '@hub/store'
import { Effect, Redacted, Schedule } from 'effect'
import { Flag } from 'effect/cli'
import { defineCommand } from '../command-line/command.ts'
import { unprovenDatabase } from '../command-line/connections.ts'
import { toCommandFailed } from '../command-line/failure.ts'
import { actor } from '../operations.ts'

interface Row {
  readonly name: string
  readonly state: 'applied' | 'pending'
  readonly at: string | null
}

/** Why the operations API has no command of this group. */
const NOT_OVER_API = 'the API itself needs the schema that it is about'

const status = defineCommand(
  'status',
  {
    short: 'List applied and pending migrations',
    about:
      'Lists the migrations of this version of the hub with the time of their application. The exit ' +
      'code is 1 if a migration is pending, or if the database has migrations of a newer version or ' +
      'edited ones.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl migrations status', description: 'One line for each migration' },
      { command: 'hubctl migrations status --json', description: 'For a program' },
    ],
    notOverApi: NOT_OVER_API,
  },
  {},
  Effect.fnUntraced(function* () {
    const { applied, pending, problems } = yield* migrationStatus
    const rows: ReadonlyArray<Row> = [
      ...applied.map(({ at, name }): Row => ({ name, state: 'applied', at: new Date(at).toISOString() })),
      ...pending.map((name): Row => ({ name, state: 'pending', at: null })),
    ]
    const columns = {
      migration: (row: Row) => row.name,
      state: (row: Row) => row.state,
      at: (row: Row) => row.at,
    }
    yield* show({ object: 'migrations', data: rows, problems }, () =>
      [table(rows, columns), ...problems].join('\n'),
    )
    const [problem] = problems
    if (problem !== undefined) return yield* refused('migrations_mismatch', `${problem}.`)
    if (pending.length > 0) {
      return yield* refused('migrations_pending', `${pending.length} pending: run hubctl migrations apply.`)
    }
  }),
)

/** Whether the same settings would be refused again. */
const isRefusal = (error: { readonly _tag: string }): boolean => connectionFault(error)?.isRefusal === true

/** Longer than any migration so far on a large table. An orchestrator restarts the job after it. */
const WITHIN_SECONDS = 300

const wait = defineCommand(
  'wait',
  {
    short: 'Wait until no migration is pending',
    about:
      'Waits until all migrations of this version are applied, also while the database does not answer ' +
      'yet. It accepts a newer schema, because a version works with the schema of the next one. It says on ' +
      'standard error why it waits. The exit code is not 0 after the timeout, or at once if the database refuses ' +
      'the user, the password or the name of HUB_DATABASE_URL.',
    changes: NOTHING,
    examples: [{ command: 'hubctl migrations wait', description: 'Before an app of this version starts' }],
    needs: unprovenDatabase,
    notOverApi: NOT_OVER_API,
  },
  {
    within: Flag.Int('within').pipe(
      Flag.withDescription('The timeout in seconds'),
      Flag.withMetavar('seconds'),
      Flag.withDefault(WITHIN_SECONDS),
    ),
  },
  Effect.fnUntraced(function* ({ within }) {
    const said = new Set<string>()
    const sayOnce = (error: unknown) =>
      Effect.suspend(() => {
        const reason = toCommandFailed(error)?.message ?? ''
        if (said.has(reason)) return Effect.void
        said.add(reason)
        return printNote(`hubctl: it waits. ${reason}`)
      })
    const attempt = Effect.flatMap(migrationStatus, ({ pending }) =>
      pending.length === 0
        ? Effect.void
        : refused(
            'migrations_pending',
            `${pending.length} migrations are pending. hubctl migrations apply applies them.`,
          ),
    )
    yield* attempt.pipe(
      Effect.tapError((error) => (isRefusal(error) ? Effect.void : sayOnce(error))),
      Effect.retry({
        while: (error) => !isRefusal(error),
        schedule: Schedule.spaced('1 second').pipe(Schedule.upTo({ duration: `${within} seconds` })),
      }),
    )
    yield* show({ object: 'migrations_applied' }, () => 'No migration is pending.')
  }),
)

const apply = defineCommand(
  'apply',
  {
    short: 'Apply pending migrations',
    about:
      'Applies the pending migrations in order, each in a transaction, one process at a time. It is ' +
      'safe to repeat, and safe while the previous version runs: migrations only add. It leaves the schema ' +
      'of a newer version as it is.',
    changes:
      'The schema of PostgreSQL. It cannot be undone; a version of the hub works with the schema of ' +
      'the next one.',
    examples: [{ command: 'hubctl migrations apply', description: 'In a job, before a new version starts' }],
    notOverApi: NOT_OVER_API,
  },
  {},
  Effect.fnUntraced(function* () {
    const applied = yield* migrate(Redacted.value(yield* settings.databaseUrl.config))
    if (applied.length > 0) {
      // Not a use case: the table of the audit trail may not exist before.
      const operation = { actor: yield* actor, command: 'migrations apply', arguments: {}, reason: null }
      yield* auditedAfterwards({ ...operation, role: 'admin' }, { applied })
    }
    yield* show({ object: 'migration_changes', applied }, () =>
      applied.length === 0 ? 'Nothing was pending.' : `Applied:\n${applied.join('\n')}`,
    )
  }),
)

export const migrations = defineGroup(
  'migrations',
  { short: 'The schema of PostgreSQL', about: 'Migrations: the changes of the PostgreSQL schema.' },
  [status, wait, apply],
)
