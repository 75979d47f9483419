/**
 * The cookies of the operations API. With the prefix `__Host-`, browsers accept a cookie only from this
 * host, over a secure connection, and for all paths. They treat the loopback interface as secure.
 */

/** The token of the session. Sent only with requests from pages of the console. */
export const SESSION_COOKIE = '__Host-hub_operations'
/** The state of a sign-in that is in progress. It must survive the redirect from the identity provider. */
export const LOGIN_COOKIE = '__Host-hub_login'

const ATTRIBUTES = 'Path=/; HttpOnly; Secure'

export const sessionCookie = (token: string): string =>
  `${SESSION_COOKIE}=${token}; ${ATTRIBUTES}; SameSite=Strict`

export const loginCookie = (value: string, seconds: number): string =>
  `${LOGIN_COOKIE}=${value}; ${ATTRIBUTES}; SameSite=Lax; Max-Age=${seconds}`

export const expiredCookie = (name: string): string => `${name}=; ${ATTRIBUTES}; Max-Age=0`

/** The value of a cookie; `null` without one. */
export const cookieOf = (header: string | undefined, name: string): string | null => {
  for (const part of (header ?? '').split(';')) {
    const mark = part.indexOf('=')
    if (mark > 0 && part.slice(0, mark).trim() === name) return part.slice(mark + 1).trim()
  }
  return null
}
