/** The command line: the tree of commands, the global flags, and the exit code of a run. */
import { readFileSync } from 'node:fs'
import { completionScript, Json, NOTHING, runProgram, SHELLS, Yes } from '@hub/command-line'
import { Console, Effect, Layer } from 'effect'
import { Argument, Command, Completions } from 'effect/cli'
import { defineCommand } from './command-line/command.ts'
import { accounts } from './commands/accounts.ts'
import { audit } from './commands/audit.ts'
import { deadLetters } from './commands/dead-letters.ts'
import { certification } from './commands/certification.ts'
import { config } from './commands/config.ts'
import { deliveries } from './commands/deliveries.ts'
import { doctor } from './commands/doctor.ts'
import { hash } from './commands/hash.ts'
import { hub } from './commands/hub.ts'
import { keys } from './commands/keys.ts'
import { members } from './commands/members.ts'
import { messages } from './commands/messages.ts'
import { migrations } from './commands/migrations.ts'
import { inbound } from './commands/inbound.ts'
import { optOuts } from './commands/opt-outs.ts'
import { projections } from './commands/projections.ts'
import { ranges } from './commands/ranges.ts'
import { recipients } from './commands/recipients.ts'
import { restore } from './commands/restore.ts'
import { senders } from './commands/senders.ts'
import { templates } from './commands/templates.ts'
import { topics } from './commands/topics.ts'
import { usage } from './commands/usage.ts'
import { webhooks } from './commands/webhooks.ts'
import { Api } from './api.ts'
import { toCommandFailed } from './command-line/failure.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  readonly version: string
}

/** Defined here, because the script contains the whole tree of commands. */
const completion = defineCommand(
  'completion',
  {
    short: 'Print a completion script',
    about: 'Prints a script that completes the commands and flags of hubctl. It needs no server.',
    changes: NOTHING,
    examples: [
      { command: 'source <(hubctl completion bash)', description: 'For this shell' },
      {
        command: 'hubctl completion fish > ~/.config/fish/completions/hubctl.fish',
        description: 'Permanently',
      },
    ],
    needs: Layer.empty,
  },
  { shell: Argument.Literals('shell', SHELLS).pipe(Argument.withDescription('bash, zsh or fish')) },
  ({ shell }): Effect.Effect<void> =>
    Effect.suspend(() =>
      Console.log(completionScript('hubctl', shell, Completions.fromCommand(hubctlCommand))),
    ),
)

/** All commands. `commands/` has one file for each group. */
export const hubctlCommand = Command.make('hubctl').pipe(
  Command.withDescription(
    'The command line of the hub staff. If HUB_DATABASE_URL is set, it uses the hub that the ' +
      'environment describes. Otherwise it uses the local hub that npm start runs. With --api or ' +
      'HUBCTL_API_URL, it uses the operations API, and needs only HUBCTL_API_TOKEN. It prints on ' +
      'standard error which hub it uses.',
  ),
  Command.withSubcommands([
    {
      group: 'Clients',
      commands: [
        accounts,
        certification,
        keys,
        members,
        templates,
        senders,
        webhooks,
        deliveries,
        usage,
        ranges,
      ],
    },
    { group: 'Messages and recipients', commands: [messages, optOuts, inbound, recipients, hash] },
    {
      group: 'The hub',
      commands: [
        hub,
        doctor,
        config,
        migrations,
        topics,
        projections,
        deadLetters,
        restore,
        audit,
        completion,
      ],
    },
  ]),
  Command.withGlobalFlags([Json, Yes, Api]),
)

/** Runs a command line (without the program name), prints a failure, and returns the exit code. */
export const hubctl = (args: ReadonlyArray<string>): Effect.Effect<number, never, Command.Environment> =>
  runProgram({ command: hubctlCommand, version, hasShortVersion: true, toFailure: toCommandFailed }, args)
