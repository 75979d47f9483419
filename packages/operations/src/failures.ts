/** The failures of operations: a code for programs, and a sentence without personal data. */
import { connectionFault } from '@hub/config'
import { Config, Data } from 'effect'
import type { Role } from './actor.ts'
import type { Permission } from './permission.ts'

/** The hub refuses the operation. A repeat fails again. */
export class OperationRefused extends Data.TaggedError('OperationRefused')<{
  /** In the style of the API: `account_not_found`. */
  readonly code: string
  readonly message: string
  /** The wrong input. */
  readonly param?: string
  /** Facts for programs. */
  readonly details?: Readonly<Record<string, unknown>>
}> {}

/** A process or a server did not do its part in time. A repeat may succeed. */
export class OperationUnavailable extends Data.TaggedError('OperationUnavailable')<{
  /** In the style of the API: `not_delivered`. */
  readonly code: string
  readonly message: string
}> {}

/** The actor has looked up more persons in the last hour than the hub permits. A later repeat may succeed. */
export class LookupLimitReached extends Data.TaggedError('LookupLimitReached')<{
  /** Look-ups in an hour. */
  readonly limit: number
  readonly retryAfterSeconds: number
}> {}

/** No role of the actor has the permission. */
export class Forbidden extends Data.TaggedError('Forbidden')<{
  readonly permission: Permission
  /** Those that may do it. */
  readonly roles: ReadonlyArray<Role>
}> {}

export const refused = (code: string, message: string, param?: string): OperationRefused =>
  new OperationRefused({ code, message, ...(param === undefined ? {} : { param }) })

/** Code and message of what only another person may confirm. */
export const SAME_PERSON = [
  'same_person',
  'Another person must confirm it: you requested it yourself.',
] as const

/** Code and message of a request of an earlier version of the hub. */
export const UNIDENTIFIED = [
  'request_unidentified',
  'An earlier version of the hub recorded the request, without the identity of its person. Request it again.',
] as const

/** The input is wrong. */
export const INPUT_INVALID = 'input_invalid'

export const inputInvalid = (message: string, param?: string): OperationRefused =>
  refused(INPUT_INVALID, message, param)

/** `StorageUnavailable` becomes `storage_unavailable`. */
const snakeCase = (tag: string): string => tag.replace(/(?<=[a-z])(?=[A-Z])/gu, '_').toLowerCase()

/** Tags of errors of other packages after which a repeat may succeed. */
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

interface DescribedFailure {
  readonly code: string
  /** Without personal data. */
  readonly message: string
  /** Whether a repeat may succeed. */
  readonly retryable: boolean
}

/**
 * Describes a failure of an operation. Errors of other packages are known by their tag. Only their
 * fields without data (`reason`, `detail`, `code`, `constraint`) are shown. `null`: nothing is known.
 */
export const describeFailure = (error: unknown): DescribedFailure | null => {
  if (error instanceof OperationRefused || error instanceof OperationUnavailable) {
    const { code, message } = error
    return { code, message, retryable: error instanceof OperationUnavailable }
  }
  if (error instanceof Forbidden) {
    return {
      code: 'forbidden',
      message: `None of your roles has the permission ${error.permission}.`,
      retryable: false,
    }
  }
  if (error instanceof LookupLimitReached) {
    return {
      code: 'lookup_limit_reached',
      message: `You have looked up ${error.limit} persons within an hour.`,
      retryable: true,
    }
  }
  if (error instanceof Config.ConfigError) {
    // The quoted value may be a secret.
    return { code: 'settings_invalid', message: error.message.replace(/, got .*/gu, ''), retryable: true }
  }
  const tag = typeof error === 'object' && error !== null ? textField(error, '_tag') : null
  if (tag === null) return null
  const details = ['reason', 'detail', 'code', 'constraint'].flatMap(
    (name) => textField(error as object, name) ?? [],
  )
  const fault = connectionFault(error as { readonly _tag: string })
  const plain = details.length === 0 ? tag : `${tag}: ${details.join(', ')}`
  return {
    code: snakeCase(tag),
    message: fault === null ? plain : `${fault.sentence} (${plain})`,
    retryable: RETRYABLE.has(tag),
  }
}

/** The code of any failure. */
export const failureCode = (error: unknown): string => describeFailure(error)?.code ?? 'internal_error'
