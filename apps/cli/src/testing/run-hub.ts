/** Runs command lines in the process of the test, and returns their output and exit code. */
import * as NodeServices from '@effect/platform-node/NodeServices'
import { Console, Effect, Layer, Stdio, Stream } from 'effect'
import { hub } from '../cli.ts'
import { type Environment, Surroundings } from '../connection/environment.ts'

export interface RunResult {
  readonly code: number
  /** Standard output. */
  readonly out: string
  /** Standard error. */
  readonly err: string
  /** Parses standard output of a command with `--json`. */
  readonly json: <A>() => A
}

/** Runs a command line without a terminal. It sees only these variables, and `folder` as its folder. */
export const runHub = async (
  environment: Environment,
  args: ReadonlyArray<string>,
  options: { readonly input?: string; readonly folder?: string } = {},
): Promise<RunResult> => {
  const out: Array<string> = []
  const err: Array<string> = []
  const capture: Console.Console = Object.assign(Object.create(console) as Console.Console, {
    log: (...words: ReadonlyArray<unknown>) => void out.push(words.join(' ')),
    error: (...words: ReadonlyArray<unknown>) => void err.push(words.join(' ')),
  })
  const services = Layer.mergeAll(
    Layer.merge(
      NodeServices.layer,
      Stdio.layerTest({ stdin: Stream.succeed(new TextEncoder().encode(options.input ?? '')) }),
    ),
    Layer.succeed(Console.Console, capture),
    Layer.succeed(Surroundings, { environment, folder: options.folder ?? '/nonexistent' }),
  )
  const code = await Effect.runPromise(hub(args).pipe(Effect.provide(services)))
  const text = out.join('\n')
  return { code, out: text, err: err.join('\n'), json: <A>() => JSON.parse(text) as A }
}
