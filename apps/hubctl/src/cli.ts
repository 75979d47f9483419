/** The command line as a whole: its nouns, what all commands share, and how a run ends. */
import { readFileSync } from 'node:fs'
import { Cause, Console, Effect, Exit, Layer, Logger, References } from 'effect'
import { Argument, CliConfig, CliOutput, Command, Completions, GlobalFlag } from 'effect/cli'
import { defineCommand, NOTHING } from './command-line/command.ts'
import { accounts } from './commands/accounts.ts'
import { audit } from './commands/audit.ts'
import { deadLetters } from './commands/dead-letters.ts'
import { certification } from './commands/certification.ts'
import { config } from './commands/config.ts'
import { doctor } from './commands/doctor.ts'
import { hub } from './commands/hub.ts'
import { keys } from './commands/keys.ts'
import { migrations } from './commands/migrations.ts'
import { optOuts } from './commands/opt-outs.ts'
import { projections } from './commands/projections.ts'
import { recipients } from './commands/recipients.ts'
import { restore } from './commands/restore.ts'
import { senders } from './commands/senders.ts'
import { templates } from './commands/templates.ts'
import { topics } from './commands/topics.ts'
import { webhooks } from './commands/webhooks.ts'
import { Yes } from './command-line/confirm.ts'
import { EXIT, toCommandFailed } from './command-line/failure.ts'
import { Json, printFailure } from './command-line/output.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  readonly version: string
}

const SHELLS = ['bash', 'zsh', 'fish'] as const

/** Knows the whole tree, which is why it lives here. */
const completion = defineCommand(
  'completion',
  {
    short: 'A completion script for your shell',
    about:
      'Prints a script that completes commands and flags of hubctl in bash, zsh or fish. Needs no server.',
    changes: NOTHING,
    examples: [
      { command: 'source <(hubctl completion bash)', description: 'In this shell' },
      { command: 'hubctl completion fish > ~/.config/fish/completions/hubctl.fish', description: 'For good' },
    ],
    needs: Layer.empty,
  },
  { shell: Argument.Literals('shell', SHELLS).pipe(Argument.withDescription('bash, zsh or fish')) },
  ({ shell }): Effect.Effect<void> =>
    Effect.suspend(() =>
      Console.log(Completions.generate('hubctl', shell, Completions.fromCommand(hubctlCommand))),
    ),
)

/** Every command of hubctl. A noun lives in `commands/<noun>.ts`. */
export const hubctlCommand = Command.make('hubctl').pipe(
  Command.withDescription(
    'The one command line of the people who run the hub. It talks to the hub that the environment describes (HUB_DATABASE_URL and the other ' +
      'variables of the apps), or else to the local one that npm start runs, and says on standard error which one that is.',
  ),
  Command.withSubcommands([
    {
      group: 'Clients',
      commands: [accounts, certification, keys, templates, senders, webhooks],
    },
    { group: 'People', commands: [optOuts, recipients] },
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
  Command.withGlobalFlags([Json, Yes]),
)

/** Help that was asked for is a result; a wrong command line is told as every other failure is. */
const presenter: CliOutput.Presenter = {
  present: (event) =>
    event._tag === 'InvalidInvocation' ? Effect.void : CliOutput.defaultPresenter.present(event),
}

const surroundings = Layer.mergeAll(
  CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version] }),
  CliOutput.layerPresenter(presenter),
  // What the packages log is a remark beside the result.
  Logger.layer([Logger.withConsoleError(Logger.formatLogFmt)]),
  Layer.succeed(References.MinimumLogLevel, 'Warn'),
)

/** Runs one command line, without the program's name. Succeeds with the exit code, whatever happens; failures have been told. */
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
    Effect.provide(surroundings),
  )
