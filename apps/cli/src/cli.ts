/** The command line `hub`: the tree of commands. `commands/` has one file for each group. */
import { completionScript, defineCommand, Json, NOTHING, runProgram, SHELLS, Yes } from '@hub/command-line'
import { Console, Effect } from 'effect'
import { Argument, Command, Completions } from 'effect/cli'
import manifest from '../package.json' with { type: 'json' }
import { doctor } from './commands/doctor.ts'
import { events } from './commands/events.ts'
import { listen } from './commands/listen.ts'
import { login } from './commands/login.ts'
import { messages } from './commands/messages.ts'
import { send } from './commands/send.ts'
import { stats } from './commands/stats.ts'
import { templates } from './commands/templates.ts'
import { trigger } from './commands/trigger.ts'
import { Live } from './connection/connection.ts'
import { toFailure } from './connection/failure.ts'

/** Defined here, because the script contains the whole tree of commands. */
const completion = defineCommand(
  'completion',
  {
    short: 'Print a completion script',
    about: 'Prints a script that completes the commands and flags of hub. It needs no hub.',
    changes: NOTHING,
    examples: [
      { command: 'source <(hub completion bash)', description: 'For this shell' },
      { command: 'hub completion fish > ~/.config/fish/completions/hub.fish', description: 'Permanently' },
    ],
  },
  { shell: Argument.Literals('shell', SHELLS).pipe(Argument.withDescription('bash, zsh or fish')) },
  ({ shell }): Effect.Effect<void> =>
    Effect.suspend(() => Console.log(completionScript('hub', shell, Completions.fromCommand(hubCommand)))),
)

export const hubCommand = Command.make('hub').pipe(
  Command.withDescription(
    'The command line of the SMS Delivery Hub for services that send messages. It uses HUB_URL and HUB_KEY if ' +
      'they are set, else the hub of "hub login", else the local hub that npm start runs. It prints on standard ' +
      'error which hub it uses. Without --live it uses the test key, which reaches no phone.',
  ),
  Command.withSubcommands([
    { group: 'Send', commands: [send, messages, templates, stats] },
    { group: 'Events and webhooks', commands: [listen, events, trigger] },
    { group: 'This program', commands: [login, doctor, completion] },
  ]),
  Command.withGlobalFlags([Json, Yes, Live]),
)

/** Runs a command line (without the program name), prints a failure, and returns the exit code. */
export const hub = (args: ReadonlyArray<string>): Effect.Effect<number, never, Command.Environment> =>
  runProgram({ command: hubCommand, version: manifest.version, toFailure }, args)
