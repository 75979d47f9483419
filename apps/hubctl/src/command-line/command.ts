/** Defines commands of hubctl, which open connections when they start. */
import { defineCommand as defineProgramCommand } from '@hub/command-line'
import type { Effect, Layer } from 'effect'
import { Command } from 'effect/cli'
import { withoutApi } from '../api.ts'

type Guide = Parameters<typeof defineProgramCommand>[1]

interface GuideWithNeeds<LA, LE, LR> extends Guide {
  /** Why the operations API does not have the command; absent: it does. The end of a sentence. */
  readonly notOverApi?: string
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
  { needs, notOverApi, ...guide }: GuideWithNeeds<LA, LE, LR>,
  config: Config,
  run: (input: Command.Command.Config.Infer<Config>) => Effect.Effect<void, E, R>,
) => {
  if (notOverApi === undefined) {
    return defineProgramCommand(name, guide, config, run).pipe(Command.provide(needs))
  }
  const about = `${guide.about} It does not work with --api: ${notOverApi}.`
  const command = defineProgramCommand(name, { ...guide, about }, config, run)
  return command.pipe(Command.provide(withoutApi(notOverApi, needs)))
}
