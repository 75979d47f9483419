import { Cause, Exit, type Runtime } from 'effect'

/**
 * How an app's process ends: with 0 when it was asked to (SIGTERM, SIGINT) and has finished its work, so that no supervisor takes an
 * orderly end for a crash; with 1 when it could not go on.
 */
export const teardown: Runtime.Teardown = (exit, onExit) =>
  onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
