/**
 * The syntax rules for the URL of a subscription. Pure: `address-policy.ts` resolves names. Source: SUB-11,
 * SUB-12.
 */
import { Data } from 'effect'
import { isIP } from 'node:net'

/** In UTF-16 code units of the given text. Source: SUB-12. */
const WEBHOOK_URL_MAX_LENGTH = 1024

/** The address rule that a URL violates. */
type UrlRule = 'too_long' | 'not_a_url' | 'not_https' | 'credentials' | 'not_public'

/**
 * Messages for clients. They must contain no information about our network, so an unresolvable name
 * and one with an address that is not public have the same message.
 */
const MESSAGES: Record<UrlRule, string> = {
  too_long: `The address is longer than ${WEBHOOK_URL_MAX_LENGTH} characters.`,
  not_a_url: 'The address is not a valid URL.',
  not_https: 'The address must begin with https://.',
  credentials: 'The address must not contain a user name or a password.',
  not_public: 'The host of the address must resolve, and to public internet addresses only.',
}

/** 422 `webhook_url_invalid`, `param` `url`. Clients may see `message`. Do not retry. */
export class UrlRefused extends Data.TaggedError('UrlRefused')<{
  readonly rule: UrlRule
  readonly message: string
}> {}

export const urlRefused = (rule: UrlRule): UrlRefused => new UrlRefused({ rule, message: MESSAGES[rule] })

/** A URL that complies with the syntax rules. */
export interface WebhookUrl {
  /** Scheme, host and port. */
  readonly origin: string
  /** Path and query. */
  readonly path: string
  /** Lower case, without brackets, without a trailing dot. */
  readonly host: string
}

/**
 * The canonical form of a host, for comparisons. `new URL()` turns all spellings of an IPv4 address
 * into dotted decimal, and names into lower-case ASCII. This function removes brackets, and the
 * trailing dot of a fully qualified name (`localhost.`).
 */
const canonicalHost = (hostname: string): string =>
  hostname.startsWith('[') ? hostname.slice(1, -1) : hostname.replace(/\.$/u, '')

/** Characters that `new URL()` would silently remove, and unpaired surrogates. */
const UNWANTED = /[\p{Cc}\p{Cs}\s]/u

/** User information: the text before the first `@` of the authority. */
const HAS_USERINFO = /^[a-z][a-z0-9+.-]*:[\\/]*[^\\/?#]*@/iu

/** Parses a URL, or returns the rule that it violates. Does not check the addresses of the host. */
export const readWebhookUrl = (text: string): WebhookUrl | UrlRefused => {
  if (text.length > WEBHOOK_URL_MAX_LENGTH) return urlRefused('too_long')
  const url = UNWANTED.test(text) ? null : URL.parse(text)
  if (url === null) return urlRefused('not_a_url')
  if (url.protocol !== 'https:') return urlRefused('not_https')
  // Parsing removes an empty user name (`https://@host/`), so the text is checked as well.
  if (url.username !== '' || url.password !== '' || HAS_USERINFO.test(text)) return urlRefused('credentials')
  const host = canonicalHost(url.hostname)
  if (host === '' || url.port === '0') return urlRefused('not_a_url')
  return { origin: url.origin, path: url.pathname + url.search, host }
}

/**
 * The canonical form of a host in `HUB_WEBHOOK_ALLOWED_HOSTS`; `null` if it is neither a name nor
 * an address. IPv6 addresses may be with or without brackets.
 */
export const readAllowedHost = (text: string): string | null => {
  const host = isIP(text) === 6 ? `[${text}]` : text
  if (UNWANTED.test(host) || /[/?#@\\]/u.test(host)) return null
  const url = URL.parse(`https://${host}/`)
  if (url === null || url.port !== '') return null
  const canonical = canonicalHost(url.hostname)
  // `new URL()` also accepts other characters. A pattern like `*` must not seem to work.
  return isIP(canonical) !== 0 || /^[a-z0-9._-]+$/u.test(canonical) ? canonical : null
}

/** Names of the local machine (RFC 6761), which a resolver may resolve to any address. */
export const isLocalhost = (host: string): boolean => host === 'localhost' || host.endsWith('.localhost')
