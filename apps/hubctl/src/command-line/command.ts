/** How commands are made, so that each of them explains itself: what it does, what it changes, how it is used. */
import { Context, type Effect, type Layer } from 'effect'
import { Command } from 'effect/cli'

/** What a command changes, in a sentence. In its annotations, for the reference in docs/hubctl.md. */
export const Changes = Context.Reference<string>('@hub/hubctl/Changes', { defaultValue: () => '' })

/** For commands that only look. */
export const NOTHING = 'Nothing.'

interface Guide<LA, LE, LR> {
  /** For the list of commands: a few words. */
  readonly short: string
  /** What it does, in sentences. */
  readonly about: string
  /** What is different afterwards, when running processes see it, and whether there is a way back. `NOTHING` for commands that only look. */
  readonly changes: string
  /** At least one, as it is typed. */
  readonly examples: readonly [Command.Command.Example, ...ReadonlyArray<Command.Command.Example>]
  /** What it works with (`connect.ts`); made when it begins. */
  readonly needs: Layer.Layer<LA, LE, LR>
}

/** A command that does something. */
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

/** A noun: what its commands are about. */
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
