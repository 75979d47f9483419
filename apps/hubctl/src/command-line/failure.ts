/**
 * The failures of commands: a code for programs, a sentence for people, an exit code for shells.
 */
import {
  failureCode,
  Forbidden,
  INPUT_INVALID,
  OperationRefused,
  OperationUnavailable,
} from '@hub/operations'
import { Config, Data } from 'effect'
import { CliError } from 'effect/cli'

export const EXIT = {
  /** The hub refuses the command: not found, not certified, not confirmed. A repeat fails again. */
  refused: 1,
  /** The command line is wrong. */
  usage: 2,
  /** A server does not answer, or settings are missing. A repeat may succeed. */
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

/** Tags of package errors after which a repeat may succeed. */
const RETRYABLE: ReadonlySet<string> = new Set([
  'KafkaUnavailable',
  'CountersUnavailable',
  'StorageUnavailable',
  'TopicsUnavailable',
])

const textField = (error: object, name: string): string | null => {
  const value: unknown = Reflect.get(error, name)
  return typeof value === 'string' && value !== '' ? value : null
}

/** The parser puts its suggestions on lines of their own. */
const onOneLine = (message: string): string =>
  message.replace(
    /\n\n {2}Did you mean this\?\n {4}(?<names>[\s\S]+)$/u,
    (_all, names: string) => `. Did you mean ${names.split(/\n\s*/u).join(' or ')}?`,
  )

/**
 * Converts any failure of a command. Errors of packages are known by their tag. Only their fields
 * without data (`reason`, `detail`, `code`, `constraint`) are shown. Returns `null` if the command
 * only printed the help of a group.
 */
export const toCommandFailed = (error: unknown): CommandFailed | null => {
  if (error instanceof CommandFailed) return error
  if (error instanceof OperationRefused) {
    return error.code === INPUT_INVALID ? usageError(error.message) : refused(error.code, error.message)
  }
  if (error instanceof OperationUnavailable) return unavailable(error.code, error.message)
  if (error instanceof Forbidden) return refused('forbidden', `You lack the permission ${error.permission}.`)
  if (error instanceof CliError.ShowHelp) {
    if (error.errors.length === 0) return null
    const messages = error.errors.map(({ message }) => onOneLine(message)).join(' ')
    return usageError(`${messages} See: ${error.commandPath.join(' ')} --help`)
  }
  if (CliError.isCliError(error)) return usageError(error.message)
  if (error instanceof Config.ConfigError) {
    // The quoted value may be a secret.
    return unavailable('settings_invalid', error.message.replace(/, got .*/gu, ''))
  }
  if (typeof error === 'object' && error !== null) {
    const tag = textField(error, '_tag')
    if (tag !== null) {
      const details = ['reason', 'detail', 'code', 'constraint'].flatMap(
        (name) => textField(error, name) ?? [],
      )
      const message = details.length === 0 ? tag : `${tag}: ${details.join(', ')}`
      const code = failureCode(error)
      return RETRYABLE.has(tag) ? unavailable(code, message) : refused(code, message)
    }
  }
  return refused('internal_error', 'hubctl itself failed; nothing more is known.')
}
