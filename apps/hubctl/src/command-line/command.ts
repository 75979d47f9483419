/** Defines commands and groups, so that each command documents its effect and its use. */
import { Context, type Effect, type Layer } from 'effect'
import { Command } from 'effect/cli'

/** What a command changes. An annotation for the reference in docs/hubctl.md. */
export const Changes = Context.Reference<string>('@hub/hubctl/Changes', { defaultValue: () => '' })

/** For commands that only read. */
export const NOTHING = 'Nothing.'

interface Guide<LA, LE, LR> {
  /** A few words, for the list of commands. */
  readonly short: string
  /** What the command does, in sentences. */
  readonly about: string
  /** What changes, when running processes see it, and how to undo it. `NOTHING` for reads. */
  readonly changes: string
  /** Complete command lines. */
  readonly examples: readonly [Command.Command.Example, ...ReadonlyArray<Command.Command.Example>]
  /** The connections of the command (`connections.ts`), opened when it starts. */
  readonly needs: Layer.Layer<LA, LE, LR>
}

export const defineCommand = <
  const Name extends string,
  const Config extends Command.Command.Config,
  E,
  R,
  LA,
  LE,
  LR,
>(
  name: Name,
  guide: Guide<LA, LE, LR>,
  config: Config,
  run: (input: Command.Command.Config.Infer<Config>) => Effect.Effect<void, E, R>,
) =>
  Command.make(name, config, run).pipe(
    Command.withDescription(`${guide.about}\n\nChanges: ${guide.changes}`),
    Command.withShortDescription(guide.short),
    Command.withExamples(guide.examples),
    Command.annotate(Changes, guide.changes),
    Command.provide(guide.needs),
  )

/** A group of commands about one subject: `hubctl keys …`. */
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
