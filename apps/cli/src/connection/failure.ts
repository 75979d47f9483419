/** The failures of calls, of files and of the parser, as one sentence and an exit code each. */
import { type CommandFailed, ofCommandLine, refused, unavailable } from '@hub/command-line'
import {
  HubAuthenticationError,
  HubConnectionError,
  HubError,
  HubOptionError,
  HubRateLimitError,
  HubUnavailableError,
} from '@sms-delivery-hub/client'

/** Codes of TLS errors that a wrong clock causes. */
const CLOCK_CODES: ReadonlySet<string> = new Set(['CERT_NOT_YET_VALID', 'CERT_HAS_EXPIRED'])

/** The code of the innermost cause, such as `ECONNREFUSED`. */
const causeCode = (error: unknown): string | null => {
  let code: string | null = null
  for (let at = error; at instanceof Error; at = at.cause) {
    const own: unknown = Reflect.get(at, 'code')
    if (typeof own === 'string' && own !== 'connection_failed') code = own
    // The attempts at several addresses of a name.
    if (at instanceof AggregateError && code === null) code = causeCode(at.errors[0])
  }
  return code
}

const ofConnection = (error: HubConnectionError): CommandFailed => {
  const code = causeCode(error)
  if (code !== null && CLOCK_CODES.has(code)) {
    return unavailable(
      'certificate_dates',
      `The certificate of the hub is not valid at the time of this machine, ${new Date().toISOString()}: check the clock (${code}).`,
    )
  }
  return error.code === 'timeout'
    ? unavailable('hub_unreachable', 'The hub did not answer in time.')
    : unavailable(
        'hub_unreachable',
        `The hub cannot be reached${code === null ? '' : ` (${code})`}: check its address.`,
      )
}

export const ofHubError = (error: HubError): CommandFailed => {
  if (error instanceof HubOptionError)
    return refused('login_damaged', `${error.message} Log in again: hub login`)
  if (error instanceof HubConnectionError) return ofConnection(error)
  if (error instanceof HubAuthenticationError) {
    return refused(
      error.code,
      'The hub refuses the API key: it is wrong, has expired, or is not allowed from this address. Log in with a current key: hub login',
    )
  }
  const where = error.param === null ? '' : ` (${error.param})`
  const request = error.requestId === null ? '' : ` Request: ${error.requestId}.`
  const message = `${error.message}${where}${request}`
  if (error instanceof HubRateLimitError || error instanceof HubUnavailableError) {
    const after = error.retryAfter === null ? '' : ` Repeat after ${error.retryAfter} s.`
    return unavailable(error.code, `${message}${after}`)
  }
  return refused(error.code, message)
}

/** Errors of files: the code and the path, such as `ENOENT`. */
const ofFile = (error: unknown): CommandFailed | null => {
  if (!(error instanceof Error)) return null
  const { code, path } = error as NodeJS.ErrnoException
  return typeof path === 'string' ? refused('file_failed', `${path}: ${code ?? 'it cannot be used'}.`) : null
}

/** Converts any failure of a command. `null` if the command only printed the help of a group. */
export const toFailure = (error: unknown): CommandFailed | null => {
  const known = ofCommandLine(error)
  if (known !== undefined) return known
  if (error instanceof HubError) return ofHubError(error)
  return ofFile(error) ?? refused('internal_error', 'This program itself failed; nothing more is known.')
}
