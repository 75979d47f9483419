/**
 * The cookies of the operations API. With the prefix `__Host-`, browsers accept a cookie only from this
 * host, over a secure connection, and for all paths.
 *
 * A local hub has no TLS, and Safari stores no `Secure` cookie of `http://127.0.0.1`. So its cookies have
 * neither the prefix nor `Secure` (docs/decisions/operations.md#cookies-of-local-hubs). They never leave the
 * machine. Cookies do not distinguish ports (RFC 6265, section 8.5), so their names do: hubs side by side
 * keep their sessions.
 */
import { isLoopback } from '@hub/config'

interface CookieNames {
  /** The token of the session. Sent only with requests from pages of the console. */
  readonly session: string
  /** The state of a sign-in that is in progress. It must survive the redirect from the identity provider. */
  readonly login: string
}

const SECURE: CookieNames = { session: '__Host-hub_operations', login: '__Host-hub_login' }
const localNames = (port: string): CookieNames => ({
  session: `hub_operations_${port}`,
  login: `hub_login_${port}`,
})

interface CookieOptions {
  /** The address of the console. */
  readonly operationsUrl: string
  /** Whether there are login links. Production refuses them. */
  readonly hasLoginLinks: boolean
}

export const makeCookies = ({ hasLoginLinks, operationsUrl }: CookieOptions) => {
  const { hostname, port, protocol } = new URL(operationsUrl)
  const isLocal = hasLoginLinks && protocol === 'http:' && isLoopback(hostname)
  const names = isLocal ? localNames(port === '' ? '80' : port) : SECURE
  const attributes = `Path=/; HttpOnly${isLocal ? '' : '; Secure'}`
  return {
    names,
    session: (token: string): string => `${names.session}=${token}; ${attributes}; SameSite=Strict`,
    login: (value: string, seconds: number): string =>
      `${names.login}=${value}; ${attributes}; SameSite=Lax; Max-Age=${seconds}`,
    expired: (cookie: keyof CookieNames): string => `${names[cookie]}=; ${attributes}; Max-Age=0`,
    /** The value of a cookie of a request; `null` without one. */
    read: (header: string | undefined, cookie: keyof CookieNames): string | null => {
      for (const part of (header ?? '').split(';')) {
        const mark = part.indexOf('=')
        if (mark > 0 && part.slice(0, mark).trim() === names[cookie]) return part.slice(mark + 1).trim()
      }
      return null
    },
  }
}
export type Cookies = ReturnType<typeof makeCookies>
