/** `hubctl audit`: the audit trail of hubctl. */
import { defineGroup, NOTHING, showList } from '@hub/command-line'
import { Audit } from '@hub/operations'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { limitFlag } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

const factsText = (facts: Readonly<Record<string, unknown>> | null): string =>
  Object.entries(facts ?? {})
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')

const list = defineCommand(
  'list',
  {
    short: 'List commands, newest first',
    about:
      'Lists the recorded commands: time, actor (HUBCTL_ACTOR, or the user of the operating system), ' +
      'arguments and outcome. A command with the outcome "begun" is in progress, or its process died. ' +
      'Recipients are identified by their hash.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl audit list --limit 20', description: 'The last twenty commands' },
      { command: 'hubctl audit list --command "keys revoke" --json', description: 'All revoked keys' },
    ],
  },
  {
    limit: limitFlag,
    actor: Flag.String('actor').pipe(Flag.withDescription('Only this person or job'), Flag.optional),
    command: Flag.String('command').pipe(
      Flag.withDescription('Only this command ("keys issue") or group of commands ("keys")'),
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ actor, command, limit }) {
    const { data } = yield* run(Audit.list, {
      actor: Option.getOrNull(actor),
      command: Option.getOrNull(command),
      limit,
      cursor: null,
    })
    yield* showList(data, {
      at: (row) => row.at,
      actor: (row) => row.actor,
      command: (row) => row.command,
      arguments: (row) => factsText(row.arguments),
      outcome: (row) => row.outcome,
      detail: (row) => factsText(row.detail),
    })
  }),
)

export const audit = defineGroup(
  'audit',
  {
    short: 'The audit trail of hubctl',
    about: 'The audit trail. PostgreSQL refuses to change or delete its rows.',
  },
  [list],
)
