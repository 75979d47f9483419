/** The command line: the tree of commands, the global flags, and the exit code of a run. */
import { readFileSync } from 'node:fs'
import { Cause, Console, Effect, Exit, Layer, Logger, References } from 'effect'
import { Argument, CliConfig, CliOutput, Command, Completions, GlobalFlag } from 'effect/cli'
import { defineCommand, NOTHING } from './command-line/command.ts'
import { completionScript, SHELLS } from './command-line/completion-script.ts'
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
import { messages } from './commands/messages.ts'
import { migrations } from './commands/migrations.ts'
import { inbound } from './commands/inbound.ts'
import { optOuts } from './commands/opt-outs.ts'
import { projections } from './commands/projections.ts'
import { recipients } from './commands/recipients.ts'
import { restore } from './commands/restore.ts'
import { senders } from './commands/senders.ts'
import { templates } from './commands/templates.ts'
import { topics } from './commands/topics.ts'
import { usage } from './commands/usage.ts'
import { webhooks } from './commands/webhooks.ts'
import { Api } from './api.ts'
import { Yes } from './command-line/confirm.ts'
import { EXIT, toCommandFailed } from './command-line/failure.ts'
import { Json, printFailure } from './command-line/output.ts'

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
    Effect.suspend(() => Console.log(completionScript(shell, Completions.fromCommand(hubctlCommand)))),
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
      commands: [accounts, certification, keys, templates, senders, webhooks, deliveries, usage],
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

/** Prints requested help. A usage error is printed like every other failure. */
const presenter: CliOutput.Presenter = {
  present: (event) =>
    event._tag === 'InvalidInvocation' ? Effect.void : CliOutput.defaultPresenter.present(event),
}

const services = Layer.mergeAll(
  CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version] }),
  CliOutput.layerPresenter(presenter),
  // Logs of the packages go to standard error, and never into the result.
  Logger.layer([Logger.withConsoleError(Logger.formatLogFmt)]),
  Layer.succeed(References.MinimumLogLevel, 'Warn'),
)

/** Runs a command line (without the program name), prints a failure, and returns the exit code. */
export const hubctl = (args: ReadonlyArray<string>): Effect.Effect<number, never, Command.Environment> =>
  Command.runWith(hubctlCommand, { version })(args).pipe(
    Effect.exit,
    Effect.flatMap((exit) => {
      if (Exit.isSuccess(exit)) return Effect.succeed(0)
      if (Cause.hasInterruptsOnly(exit.cause)) return Effect.interrupt
      const failure = toCommandFailed(Cause.squash(exit.cause))
      return failure === null
        ? Effect.succeed(EXIT.usage)
        : Effect.as(printFailure(failure, args.includes('--json')), failure.exit)
    }),
    Effect.provide(services),
  )
