import { Cause, Exit, type Runtime } from 'effect'

/**
 * The exit code of an app: 0 after an orderly end (SIGTERM, SIGINT), so that a supervisor does not
 * take it for a crash, and 1 after a failure.
 */
export const teardown: Runtime.Teardown = (exit, onExit) =>
  onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
