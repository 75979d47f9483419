/** Runs command lines in the process of the test, and returns their output and exit code. */
import * as NodeServices from '@effect/platform-node/NodeServices'
import { Console, Effect, Layer, Stdio, Stream } from 'effect'
import { hubctl } from '../cli.ts'
import { Environment } from '../config.ts'

export interface RunResult {
  readonly code: number
  /** Standard output. */
  readonly out: string
  /** Standard error. */
  readonly err: string
  /** Parses standard output of a command with `--json`. */
  readonly json: <A>() => A
}

/**
 * Runs a command line without a terminal. It sees only these environment variables. `input` is its
 * standard input.
 */
export const runHubctl = async (
  environment: Readonly<Record<string, string>>,
  args: ReadonlyArray<string>,
  input = '',
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
      Stdio.layerTest({ stdin: Stream.succeed(new TextEncoder().encode(input)) }),
    ),
    Layer.succeed(Console.Console, capture),
    Layer.succeed(Environment, environment),
  )
  const code = await Effect.runPromise(hubctl(args).pipe(Effect.provide(services)))
  const text = out.join('\n')
  return { code, out: text, err: err.join('\n'), json: <A>() => JSON.parse(text) as A }
}
