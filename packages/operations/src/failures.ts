/** The failures of operations: a code for programs, and a sentence without personal data. */
import { Config, Data } from 'effect'
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

/** No role of the actor has the permission. */
export class Forbidden extends Data.TaggedError('Forbidden')<{ readonly permission: Permission }> {}

export const refused = (code: string, message: string, param?: string): OperationRefused =>
  new OperationRefused({ code, message, ...(param === undefined ? {} : { param }) })

/** The input is wrong. */
export const INPUT_INVALID = 'input_invalid'

export const inputInvalid = (message: string, param?: string): OperationRefused =>
  refused(INPUT_INVALID, message, param)

/** `StorageUnavailable` becomes `storage_unavailable`. */
const snakeCase = (tag: string): string => tag.replace(/(?<=[a-z])(?=[A-Z])/gu, '_').toLowerCase()

/** The code of any failure. Errors of other packages are known by their tag. */
export const failureCode = (error: unknown): string => {
  if (error instanceof OperationRefused || error instanceof OperationUnavailable) return error.code
  if (error instanceof Config.ConfigError) return 'settings_invalid'
  const tag: unknown = typeof error === 'object' && error !== null ? Reflect.get(error, '_tag') : null
  return typeof tag === 'string' && tag !== '' ? snakeCase(tag) : 'internal_error'
}
