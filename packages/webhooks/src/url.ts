/**
 * What a subscription's URL may look like. Pure: no name is resolved here. Source: specification, Webhook
 * subscription endpoints (address rules); contract, Webhook subscription.
 */
import { Data } from 'effect'
import { isIP } from 'node:net'

/** Source: specification, Other limits. In UTF-16 code units of the text as it was given. */
export const WEBHOOK_URL_MAX_LENGTH = 1024

/** Which address rule a URL breaks. */
export type UrlRule = 'too_long' | 'not_a_url' | 'not_https' | 'credentials' | 'not_public' | 'not_resolvable'

/** What a customer is told. The rule and nothing about our network: no address, no resolver, no cause. */
const MESSAGES: Record<UrlRule, string> = {
  too_long: `The address is longer than ${WEBHOOK_URL_MAX_LENGTH} characters.`,
  not_a_url: 'The address is not a valid URL.',
  not_https: 'The address must begin with https://.',
  credentials: 'The address must not contain a user name or a password.',
  not_public: 'The address must lead to public internet addresses only.',
  not_resolvable: 'The host name of the address cannot be resolved.',
}

/** The URL is refused: 422 `webhook_url_invalid`, `param` `url`. `message` may be shown to the customer as it is. */
export class UrlRefused extends Data.TaggedError('UrlRefused')<{
  readonly rule: UrlRule
  readonly message: string
}> {}

export const urlRefused = (rule: UrlRule): UrlRefused => new UrlRefused({ rule, message: MESSAGES[rule] })

/** A URL that keeps the rules that can be judged without resolving its host. */
export interface WebhookUrl {
  /** Scheme, host and port, as a connection pool wants it. */
  readonly origin: string
  /** Path and query. */
  readonly path: string
  /** Lower case, without brackets, without a trailing dot. */
  readonly host: string
  /** 0 when `host` is a name. */
  readonly family: 0 | 4 | 6
}

/**
 * A host in the one form in which hosts are compared: what `new URL()` makes of it (decimal, octal, hexadecimal and
 * full-width spellings of an IPv4 address become dotted decimal, names become lower-case ASCII), without brackets
 * and without the dot of a fully qualified name, which `new URL()` leaves: `localhost.` is localhost.
 */
const canonicalHost = (hostname: string): string =>
  hostname.startsWith('[') ? hostname.slice(1, -1) : hostname.replace(/\.$/u, '')

/** Blanks and control characters, which `new URL()` would silently take out, and halves of surrogate pairs. */
const UNWANTED = /[\p{Cc}\p{Cs}\s]/u

/** Everything between the slashes and the first `@` before path, query or fragment. */
const HAS_USERINFO = /^[a-z][a-z0-9+.-]*:[\\/]*[^\\/?#]*@/iu

/** Reads a URL, or says which rule it breaks. The host's addresses are another matter. */
export const readWebhookUrl = (text: string): WebhookUrl | UrlRefused => {
  if (text.length > WEBHOOK_URL_MAX_LENGTH) return urlRefused('too_long')
  const url = UNWANTED.test(text) ? null : URL.parse(text)
  if (url === null) return urlRefused('not_a_url')
  if (url.protocol !== 'https:') return urlRefused('not_https')
  // An empty user name (`https://@host/`) is gone after parsing, yet nobody writes it in good faith.
  if (url.username !== '' || url.password !== '' || HAS_USERINFO.test(text)) return urlRefused('credentials')
  const host = canonicalHost(url.hostname)
  if (host === '' || url.port === '0') return urlRefused('not_a_url')
  return {
    origin: url.origin,
    path: url.pathname + url.search,
    host,
    family: isIP(host) as 0 | 4 | 6,
  }
}

/**
 * A host of `HUB_WEBHOOK_ALLOWED_HOSTS` in the same form, or `null` when it is neither a name nor an address. IPv6
 * addresses may be in brackets or not.
 */
export const readAllowedHost = (text: string): string | null => {
  const host = isIP(text) === 6 ? `[${text}]` : text
  if (UNWANTED.test(host) || /[/?#@\\]/u.test(host)) return null
  const url = URL.parse(`https://${host}/`)
  if (url === null || url.port !== '') return null
  const canonical = canonicalHost(url.hostname)
  // `new URL()` takes more than names are made of; a pattern like `*` must not look as if it meant something.
  return isIP(canonical) !== 0 || /^[a-z0-9._-]+$/u.test(canonical) ? canonical : null
}

/** Names of the machine itself (RFC 6761), which a resolver may answer in any way. */
export const isLocalhost = (host: string): boolean => host === 'localhost' || host.endsWith('.localhost')
