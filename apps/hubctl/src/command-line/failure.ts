/** The failures of the use cases as those of commands. */
import { type CommandFailed, ofCommandLine, refused, unavailable, usageError } from '@hub/command-line'
import { describeFailure, INPUT_INVALID } from '@hub/operations'

/** Converts any failure of a command. Returns `null` if it only printed the help of a group. */
export const toCommandFailed = (error: unknown): CommandFailed | null => {
  const known = ofCommandLine(error)
  if (known !== undefined) return known
  const failure = describeFailure(error)
  if (failure === null) return refused('internal_error', 'hubctl itself failed; nothing more is known.')
  const { code, message, retryable } = failure
  if (code === INPUT_INVALID) return usageError(message)
  return retryable ? unavailable(code, message) : refused(code, message)
}
