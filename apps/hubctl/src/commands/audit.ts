/** `hubctl audit`: what was done with hubctl. */
import { Sql } from '@hub/store'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { database } from '../command-line/connections.ts'
import { show, table } from '../command-line/output.ts'
import { limitFlag } from '../command-line/arguments.ts'

interface Line {
  readonly at: Date
  readonly actor: string
  readonly command: string
  readonly arguments: Readonly<Record<string, unknown>>
  readonly outcome: string
  readonly detail: Readonly<Record<string, unknown>> | null
  readonly ended_at: Date | null
}

const words = (facts: Readonly<Record<string, unknown>> | null): string =>
  Object.entries(facts ?? {})
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')

const list = defineCommand(
  'list',
  {
    short: 'What was done, newest first',
    about:
      'Lists what was done with hubctl: when, by whom (HUBCTL_ACTOR, or the user of the operating system), with which arguments, and how it ended. ' +
      'A command that is begun and has no end is under way, or its process died. Recipients are named by their hash.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl audit list --limit 20', description: 'The last twenty commands' },
      {
        command: 'hubctl audit list --command "keys revoke" --json',
        description: 'Every key that was revoked',
      },
    ],
    needs: database,
  },
  {
    limit: limitFlag,
    actor: Flag.String('actor').pipe(Flag.withDescription('Only of this person or job'), Flag.optional),
    command: Flag.String('command').pipe(
      Flag.withDescription('Only of this command, such as "keys issue", or noun, such as "keys"'),
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ actor, command, limit }) {
    const sql = yield* Sql
    const who = Option.getOrNull(actor)
    const what = Option.getOrNull(command)
    const lines = yield* sql.run(
      (q) => q<Line[]>`
        SELECT b.at, b.actor, b.command, b.arguments, coalesce(e.outcome, 'begun') AS outcome, e.detail, e.at AS ended_at
          FROM command.audit b
          LEFT JOIN command.audit e ON e.run = b.run AND e.outcome <> 'begun'
         WHERE b.outcome = 'begun'
           AND (${who}::text IS NULL OR b.actor = ${who})
           AND (${what}::text IS NULL OR b.command = ${what} OR starts_with(b.command, ${what} || ' '))
         ORDER BY b.place DESC LIMIT ${limit}`,
    )
    yield* show(
      {
        object: 'list',
        data: lines.map(({ ended_at, ...line }) => ({ ...line, ended_at })),
      },
      () =>
        table(lines, {
          at: (line) => line.at.toISOString(),
          actor: (line) => line.actor,
          command: (line) => line.command,
          arguments: (line) => words(line.arguments),
          outcome: (line) => line.outcome,
          detail: (line) => words(line.detail),
        }),
    )
  }),
)

export const audit = defineGroup(
  'audit',
  {
    short: 'What was done with hubctl',
    about: 'The audit trail. Lines are only ever added: PostgreSQL itself refuses to change or remove one.',
  },
  [list],
)
