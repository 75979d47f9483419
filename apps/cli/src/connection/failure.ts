/** The failures of calls, of files and of the parser, as one sentence and an exit code each. */
import { type CommandFailed, ofCommandLine, refused, unavailable } from '@hub/command-line'
import {
  HubAuthenticationError,
  HubConnectionError,
  HubError,
  HubNotFoundError,
  HubOptionError,
  HubRateLimitError,
  HubUnavailableError,
} from '@sms-delivery-hub/client'

/** Codes of TLS errors that a wrong clock causes. */
const CLOCK_CODES: ReadonlySet<string> = new Set(['CERT_NOT_YET_VALID', 'CERT_HAS_EXPIRED'])

/** Codes of TLS errors of a server that speaks http. */
const PLAIN_HTTP_CODES: ReadonlySet<string> = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'EPROTO'])

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
  if (code !== null && PLAIN_HTTP_CODES.has(code)) {
    return refused(
      'no_https',
      `There is no https at the address of the hub: does it begin with http://? (${code})`,
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
  if (error instanceof HubOptionError) {
    const code = error.param === 'apiKey' ? 'invalid_api_key' : 'hub_address_invalid'
    return refused(code, `The selected hub cannot be used: ${error.message}`)
  }
  if (error instanceof HubConnectionError) return ofConnection(error)
  if (error instanceof HubAuthenticationError) {
    return refused(
      error.code,
      'The hub refuses the API key: it is wrong, has expired, or is not allowed from this address. Log in with a current key: hub login',
    )
  }
  if (error.code === 'unknown' && error.status !== null && error.status < 500) {
    return refused(
      'no_hub_there',
      `The server at this address is not a hub (${error.status}): check the address.`,
    )
  }
  if (error instanceof HubNotFoundError && error.param === 'starting_after') {
    return refused(
      'event_not_found',
      'There is no event with the id after which the command begins. Give --after an id from hub events tail, "start" or "now".',
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

/** The usual reasons why a file cannot be used. */
const FILE_REASONS: Readonly<Record<string, string>> = {
  EACCES: 'you have no permission for it',
  EISDIR: 'it is a folder',
  ENOENT: 'there is no such file or folder',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'a part of its path is no folder',
  EPERM: 'you have no permission for it',
  EROFS: 'the disk cannot be written',
}

/** Errors of files: the path and the reason. */
const ofFile = (error: unknown): CommandFailed | null => {
  if (!(error instanceof Error)) return null
  const { code = '', path } = error as NodeJS.ErrnoException
  if (typeof path !== 'string') return null
  return refused('file_failed', `${path}: ${FILE_REASONS[code] ?? `it cannot be used (${code})`}.`)
}

/** Converts any failure of a command. `null` if the command only printed the help of a group. */
export const toFailure = (error: unknown): CommandFailed | null => {
  const known = ofCommandLine(error)
  if (known !== undefined) return known
  if (error instanceof HubError) return ofHubError(error)
  return ofFile(error) ?? refused('internal_error', 'This program itself failed; nothing more is known.')
}
