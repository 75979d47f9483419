/** Runs a command line: the global flags, the printed failure and the exit code. */
import { printable } from '@hub/text'
import { Cause, Console, Effect, Exit, Layer, Logger, References } from 'effect'
import { CliConfig, CliOutput, Command, Flag, GlobalFlag } from 'effect/cli'
import { type CommandFailed, EXIT } from './failure.ts'
import { printFailure } from './output.ts'

/** `--version` without the short form `-v`, which programs use for other flags. */
const Version = GlobalFlag.Action({
  flag: Flag.Boolean('version').pipe(
    Flag.withDescription('Show version information'),
    Flag.withDefault(false),
  ),
  run: (_, { command, version }) =>
    Effect.flatMap(CliOutput.Presenter, (presenter) =>
      presenter.present({ _tag: 'Version', name: command.name, version }),
    ),
})

/** Results, notes, failures and logs contain text of other people. */
const forTerminal = (console: Console.Console): Console.Console =>
  Object.assign(Object.create(console) as Console.Console, {
    log: (...words: ReadonlyArray<unknown>) => console.log(...words.map((word) => printable(String(word)))),
    error: (...words: ReadonlyArray<unknown>) =>
      console.error(...words.map((word) => printable(String(word)))),
  })

/** Prints requested help with its colours. A usage error is printed like every other failure. */
const presenter = (console: Console.Console): CliOutput.Presenter => ({
  present: (event) =>
    event._tag === 'InvalidInvocation'
      ? Effect.void
      : Effect.provideService(CliOutput.defaultPresenter.present(event), Console.Console, console),
})

const services = (console: Console.Console) =>
  Layer.mergeAll(
    Layer.succeed(Console.Console, forTerminal(console)),
    CliOutput.layerPresenter(presenter(console)),
    // Logs go to standard error, and never into the result.
    Logger.layer([Logger.withConsoleError(Logger.formatLogFmt)]),
    Layer.succeed(References.MinimumLogLevel, 'Warn'),
  )

interface Program<Name extends string, Input, ContextInput, E, R> {
  readonly command: Command.Command<Name, Input, ContextInput, E, R>
  readonly version: string
  /** Whether `-v` shows the version too. */
  readonly hasShortVersion?: boolean
  /** `null`: the command only printed help. */
  readonly toFailure: (error: unknown) => CommandFailed | null
}

/**
 * Runs a command line (without the program name), prints a failure, and returns the exit code. An
 * interrupted run stays interrupted.
 */
export const runProgram = <Name extends string, Input, ContextInput, E, R>(
  { command, hasShortVersion = false, toFailure, version }: Program<Name, Input, ContextInput, E, R>,
  args: ReadonlyArray<string>,
) =>
  Effect.flatMap(Console.Console, (console) =>
    Command.runWith(command, { version })(args).pipe(
      Effect.exit,
      Effect.flatMap((exit): Effect.Effect<number> => {
        if (Exit.isSuccess(exit)) return Effect.succeed(0)
        if (Cause.hasInterruptsOnly(exit.cause)) return Effect.interrupt
        const failure = toFailure(Cause.squash(exit.cause))
        return failure === null
          ? Effect.succeed(EXIT.usage)
          : Effect.as(printFailure(command.name, failure, args.includes('--json')), failure.exit)
      }),
      Effect.provide(services(console)),
      Effect.provide(
        CliConfig.layer({ builtIns: [GlobalFlag.Help, hasShortVersion ? GlobalFlag.Version : Version] }),
      ),
    ),
  )
