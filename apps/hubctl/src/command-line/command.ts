/** Defines commands of hubctl, which open connections when they start. */
import { defineCommand as defineProgramCommand } from '@hub/command-line'
import type { Effect, Layer } from 'effect'
import { Command } from 'effect/cli'

type Guide = Parameters<typeof defineProgramCommand>[1]

interface GuideWithNeeds<LA, LE, LR> extends Guide {
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
  guide: GuideWithNeeds<LA, LE, LR>,
  config: Config,
  run: (input: Command.Command.Config.Infer<Config>) => Effect.Effect<void, E, R>,
) => defineProgramCommand(name, guide, config, run).pipe(Command.provide(guide.needs))
