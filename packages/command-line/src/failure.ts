/**
 * The failures of commands: a code for programs, a sentence for people, an exit code for shells.
 */
import { Data } from 'effect'
import { CliError } from 'effect/cli'

export const EXIT = {
  /** The command is refused: not found, not valid, not confirmed. A repeat fails again. */
  refused: 1,
  /** The command line is wrong. */
  usage: 2,
  /** A server does not answer. A repeat may succeed. */
  unavailable: 3,
} as const

export class CommandFailed extends Data.TaggedError('CommandFailed')<{
  /** In the style of the API: `account_not_found`. */
  readonly code: string
  /** A sentence without personal data. */
  readonly message: string
  readonly exit: (typeof EXIT)[keyof typeof EXIT]
}> {}

export const refused = (code: string, message: string): CommandFailed =>
  new CommandFailed({ code, message, exit: EXIT.refused })

/** For mistakes that the parser of the command line does not find. */
export const usageError = (message: string): CommandFailed =>
  new CommandFailed({ code: 'usage', message, exit: EXIT.usage })

export const unavailable = (code: string, message: string): CommandFailed =>
  new CommandFailed({ code, message, exit: EXIT.unavailable })

/** The parser puts its suggestions on lines of their own. */
const onOneLine = (message: string): string =>
  message.replace(
    /\n\n {2}Did you mean this\?\n {4}(?<names>[\s\S]+)$/u,
    (_all, names: string) => `. Did you mean ${names.split(/\n\s*/u).join(' or ')}?`,
  )

/**
 * Converts the failures of the parser. `null` if the command only printed the help of a group;
 * `undefined` for errors of other origin.
 */
export const ofCommandLine = (error: unknown): CommandFailed | null | undefined => {
  if (error instanceof CommandFailed) return error
  if (error instanceof CliError.ShowHelp) {
    if (error.errors.length === 0) return null
    const messages = error.errors.map(({ message }) => onOneLine(message)).join(' ')
    return usageError(`${messages} See: ${error.commandPath.join(' ')} --help`)
  }
  return CliError.isCliError(error) ? usageError(error.message) : undefined
}
