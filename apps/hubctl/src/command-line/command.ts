/** Defines commands of hubctl, which open connections when they start. */
import { defineCommand as defineProgramCommand } from '@hub/command-line'
import type { Effect, Layer } from 'effect'
import { Command } from 'effect/cli'
import { withoutApi } from '../api.ts'
import { database } from './connections.ts'

type Guide = Parameters<typeof defineProgramCommand>[1]
type Database = typeof database

interface GuideWithNeeds<LA, LE, LR> extends Guide {
  /** Why the operations API does not have the command; absent: it does. The end of a sentence. */
  readonly notOverApi?: string
  /** The connections of the command (`connections.ts`), opened when it starts. Default: the database. */
  readonly needs?: Layer.Layer<LA, LE, LR>
}

export const defineCommand = <
  const Name extends string,
  const Config extends Command.Command.Config,
  E,
  R,
  LA = Layer.Success<Database>,
  LE = Layer.Error<Database>,
  LR = Layer.Services<Database>,
>(
  name: Name,
  // Without `needs`, the types are those of the default.
  {
    needs = database as Layer.Layer<unknown> as Layer.Layer<LA, LE, LR>,
    notOverApi,
    ...guide
  }: GuideWithNeeds<LA, LE, LR>,
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
