/** What the errors of Redis and of its client mean for a call. */
import { CountersUnavailable } from './port.ts'

/** Errors of a server that cannot serve now. A new connection may reach another one. */
const UNUSABLE_CODES = new Set([
  'READONLY',
  'NOREPLICAS',
  'LOADING',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'NOSCRIPT',
  'NOAUTH',
  'WRONGPASS',
])

/** Redis has answered, with an error. */
export const isReply = (error: unknown): error is Error =>
  error instanceof Error && error.name === 'ReplyError'

/**
 * Before version 7, Redis reports an error inside of a script as another one, such as `ERR Error running script
 * (call to f_…): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.`
 */
const IN_SCRIPT = /^ERR Error running script \(call to \w+\): .*? -(?<code>[A-Z]+) /u

/** The code of an error, never its message: messages of Redis quote commands, with addresses. */
export const codeOf = (error: unknown): string => {
  if (isReply(error)) {
    const { message } = error
    return IN_SCRIPT.exec(message)?.groups?.['code'] ?? /^-?([A-Z]+)\b/u.exec(message)?.[1] ?? 'ERR'
  }
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'closed'
}

export const toUnavailable = (error: unknown): CountersUnavailable => {
  const detail = codeOf(error)
  const isRejected = isReply(error) && !UNUSABLE_CODES.has(detail)
  return new CountersUnavailable({ reason: isRejected ? 'failed' : 'unreachable', detail })
}

export const timedOut = new CountersUnavailable({ reason: 'timeout', detail: 'deadline' })

/** `detail`: a code, see `codeOf` and the refusals of `@hub/config`. */
export const unreachable = (detail: string): CountersUnavailable =>
  new CountersUnavailable({ reason: 'unreachable', detail })

/** No attempt to connect has ended yet. */
export const STARTING = unreachable('starting')
