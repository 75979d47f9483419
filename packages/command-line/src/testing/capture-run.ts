/** Runs command lines in the process of a test, and returns their output and exit code. */
import * as NodeServices from '@effect/platform-node/NodeServices'
import { Console, Effect, Layer, Stdio, Stream } from 'effect'
import type { Command } from 'effect/cli'

export interface RunResult {
  readonly code: number
  /** Standard output. */
  readonly out: string
  /** Standard error. */
  readonly err: string
  /** Parses standard output of a command with `--json`. */
  readonly json: <A>() => A
}

/** Runs a program without a terminal. `input` is its standard input. */
export const captureRun = async (
  program: Effect.Effect<number, never, Command.Environment>,
  input = '',
): Promise<RunResult> => {
  const out: Array<string> = []
  const err: Array<string> = []
  const capture: Console.Console = Object.assign(Object.create(console) as Console.Console, {
    log: (...words: ReadonlyArray<unknown>) => void out.push(words.join(' ')),
    error: (...words: ReadonlyArray<unknown>) => void err.push(words.join(' ')),
  })
  const services = Layer.mergeAll(
    NodeServices.layer,
    Stdio.layerTest({ stdin: Stream.succeed(new TextEncoder().encode(input)) }),
    Layer.succeed(Console.Console, capture),
  )
  const code = await Effect.runPromise(Effect.provide(program, services))
  const text = out.join('\n')
  return { code, out: text, err: err.join('\n'), json: <A>() => JSON.parse(text) as A }
}
