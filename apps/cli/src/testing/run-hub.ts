/** Runs command lines of `hub` in the process of a test. */
import { captureRun, type RunResult } from '@hub/command-line/testing'
import { Effect } from 'effect'
import { hub } from '../cli.ts'
import { type Environment, ProcessContext } from '../connection/environment.ts'

/** Runs a command line without a terminal. It sees only these variables, and `folder` as its folder. */
export const runHub = (
  environment: Environment,
  args: ReadonlyArray<string>,
  { folder = '/nonexistent', input }: { readonly input?: string; readonly folder?: string } = {},
): Promise<RunResult> =>
  captureRun(Effect.provideService(hub(args), ProcessContext, { environment, folder }), input)
