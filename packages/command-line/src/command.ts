/** Defines commands and groups, so that each command documents its effect and its use. */
import { Context, type Effect } from 'effect'
import { Command } from 'effect/cli'

/** What a command changes. An annotation for the reference page. */
export const Changes = Context.Reference<string>('@hub/command-line/Changes', { defaultValue: () => '' })

/** For commands that only read. */
export const NOTHING = 'Nothing.'

interface Guide {
  /** A few words, for the list of commands. */
  readonly short: string
  /** What the command does, in sentences. */
  readonly about: string
  /** What changes, when it takes effect, and how to undo it. `NOTHING` for reads. */
  readonly changes: string
  /** Complete command lines. */
  readonly examples: readonly [Command.Command.Example, ...ReadonlyArray<Command.Command.Example>]
}

export const defineCommand = <const Name extends string, const Config extends Command.Command.Config, E, R>(
  name: Name,
  guide: Guide,
  config: Config,
  run: (input: Command.Command.Config.Infer<Config>) => Effect.Effect<void, E, R>,
) =>
  Command.make(name, config, run).pipe(
    Command.withDescription(`${guide.about}\n\nChanges: ${guide.changes}`),
    Command.withShortDescription(guide.short),
    Command.withExamples(guide.examples),
    Command.annotate(Changes, guide.changes),
  )

/** A group of commands about one subject: `hub messages …`. */
export const defineGroup = <
  const Name extends string,
  const Commands extends readonly [
    Command.Command.SubcommandEntry,
    ...Array<Command.Command.SubcommandEntry>,
  ],
>(
  name: Name,
  guide: { readonly short: string; readonly about: string },
  commands: Commands,
) =>
  Command.make(name).pipe(
    Command.withDescription(guide.about),
    Command.withShortDescription(guide.short),
    Command.withSubcommands(commands),
  )
