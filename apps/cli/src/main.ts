/** Entry point of `hub`: runs the command line with the services of Node. */
import * as NodeRuntime from '@effect/platform-node/NodeRuntime'
import * as NodeServices from '@effect/platform-node/NodeServices'
import { Effect, Exit } from 'effect'
import { hub } from './cli.ts'

/** 128 + SIGINT, which a shell expects of a command that Ctrl-C has ended. */
const INTERRUPTED = 130

// The reader may close the pipe early: `hub events tail | head`.
process.stdout.on('error', () => process.exit(0))

hub(process.argv.slice(2)).pipe(
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) ? Number(exit.value) : INTERRUPTED),
  }),
)
