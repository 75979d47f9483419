/** Command lines as a test types them: run in process, with what they print and their exit code. */
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
  /** Standard output of a command with `--json`, as what the test expects it to be. */
  readonly json: <A>() => A
}

/**
 * Runs a command line in `environment`, which is all it knows of its surroundings. `input` is its standard input. Nobody is at a terminal.
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
  const surroundings = Layer.mergeAll(
    Layer.merge(
      NodeServices.layer,
      Stdio.layerTest({ stdin: Stream.succeed(new TextEncoder().encode(input)) }),
    ),
    Layer.succeed(Console.Console, capture),
    Layer.succeed(Environment, environment),
  )
  const code = await Effect.runPromise(hubctl(args).pipe(Effect.provide(surroundings)))
  const text = out.join('\n')
  return { code, out: text, err: err.join('\n'), json: <A>() => JSON.parse(text) as A }
}
