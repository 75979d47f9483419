/** How a command ends that could not do what it was asked to: a code for programs, a sentence for people, an exit code for the shell. */
import { Config, Data } from 'effect'
import { CliError } from 'effect/cli'

/** What the shell is told. */
export const EXIT = {
  /** The hub, or a rule of it, says no: nothing of the name, not certified, not confirmed. Doing the same again changes nothing. */
  refused: 1,
  /** The command line itself is wrong. */
  usage: 2,
  /** A server did not answer, or settings are missing: the same command may work later, or elsewhere. */
  unavailable: 3,
} as const

/** The one error that commands fail with themselves. */
export class CommandFailed extends Data.TaggedError('CommandFailed')<{
  /** In the manner of the API: `account_not_found`. */
  readonly code: string
  /** A sentence for people, without personal data. */
  readonly message: string
  readonly exit: (typeof EXIT)[keyof typeof EXIT]
}> {}

/** The hub says no. */
export const refused = (code: string, message: string): CommandFailed =>
  new CommandFailed({ code, message, exit: EXIT.refused })

/** The command line is wrong in a way that the parser does not see. */
export const usageError = (message: string): CommandFailed =>
  new CommandFailed({ code: 'usage', message, exit: EXIT.usage })

/** What it needs is not there. */
export const unavailable = (code: string, message: string): CommandFailed =>
  new CommandFailed({ code, message, exit: EXIT.unavailable })

/** `StorageUnavailable` is `storage_unavailable`. */
const snakeCase = (tag: string): string => tag.replace(/(?<=[a-z])(?=[A-Z])/gu, '_').toLowerCase()

/** Tags of the packages' errors that say "not now" rather than "no". */
const PASSING: ReadonlySet<string> = new Set([
  'KafkaUnavailable',
  'CountersUnavailable',
  'StorageUnavailable',
  'TopicsUnavailable',
])

const textIn = (error: object, name: string): string | null => {
  const value: unknown = Reflect.get(error, name)
  return typeof value === 'string' && value !== '' ? value : null
}

/**
 * Any failure of a command as it is told. Errors of the packages are known by their tag; of what they carry, only what holds no data
 * (`reason`, `detail`, `code`, `constraint`) is shown. Answers `null` for what is none: help that was shown because a noun stood alone.
 */
export const toCommandFailed = (error: unknown): CommandFailed | null => {
  if (error instanceof CommandFailed) return error
  if (error instanceof CliError.ShowHelp) {
    return error.errors.length === 0
      ? null
      : usageError(
          `${error.errors.map(({ message }) => message).join(' ')} See: ${error.commandPath.join(' ')} --help`,
        )
  }
  if (CliError.isCliError(error)) return usageError(error.message)
  if (error instanceof Config.ConfigError) {
    // A value that it quotes may be a secret.
    return unavailable('settings_invalid', error.message.replace(/, got .*/gu, ''))
  }
  if (typeof error === 'object' && error !== null) {
    const tag = textIn(error, '_tag')
    if (textIn(error, 'constraint') === 'audit_holds_no_number') {
      return refused(
        'number_in_audit',
        'An argument holds a number, which must not stand in the audit trail. Nothing was done.',
      )
    }
    if (tag !== null) {
      const more = ['reason', 'detail', 'code', 'constraint'].flatMap((name) => textIn(error, name) ?? [])
      const message = more.length === 0 ? tag : `${tag}: ${more.join(', ')}`
      return PASSING.has(tag) ? unavailable(snakeCase(tag), message) : refused(snakeCase(tag), message)
    }
  }
  return refused('internal_error', 'hubctl itself failed; nothing more is known.')
}
