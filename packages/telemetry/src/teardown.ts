import { Cause, Exit, type Runtime } from 'effect'

/** The exit code of an app: 0 after SIGTERM or SIGINT, which is no crash, and 1 after a failure. */
export const teardown: Runtime.Teardown = (exit, onExit) =>
  onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
