/** Runs command lines of hubctl in the process of a test. */
import { captureRun, type RunResult } from '@hub/command-line/testing'
import { Effect } from 'effect'
import { hubctl } from '../cli.ts'
import { Environment } from '../config.ts'

/**
 * Runs a command line without a terminal. It sees only these environment variables. `input` is its
 * standard input.
 */
export const runHubctl = (
  environment: Readonly<Record<string, string>>,
  args: ReadonlyArray<string>,
  input?: string,
): Promise<RunResult> => captureRun(Effect.provideService(hubctl(args), Environment, environment), input)
