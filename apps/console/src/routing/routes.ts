/** The addresses of the console. Pure: see `location.ts` for the browser's history. */
import { containsWrittenNumber, withoutSeparators } from '@hub/domain/written-number'

export const ROUTES = [
  { screen: 'start', pattern: '/' },
  { screen: 'insights', pattern: '/insights' },
  { screen: 'search', pattern: '/search' },
  { screen: 'messages', pattern: '/messages' },
  { screen: 'message', pattern: '/messages/:id' },
  { screen: 'moderation', pattern: '/moderation/:kind' },
  { screen: 'moderationItem', pattern: '/moderation/:kind/:id' },
  { screen: 'webhooks', pattern: '/webhooks' },
  { screen: 'subscription', pattern: '/webhooks/:id' },
  { screen: 'attempt', pattern: '/attempts/:id' },
  { screen: 'stuck', pattern: '/stuck' },
  { screen: 'deadLetters', pattern: '/dead-letters' },
  { screen: 'accounts', pattern: '/accounts' },
  { screen: 'account', pattern: '/accounts/:id' },
  { screen: 'usage', pattern: '/usage' },
  { screen: 'optOuts', pattern: '/opt-outs' },
  { screen: 'erasures', pattern: '/erasures' },
  { screen: 'audit', pattern: '/audit' },
  { screen: 'views', pattern: '/views' },
  { screen: 'view', pattern: '/views/:id' },
] as const

export type Screen = (typeof ROUTES)[number]['screen']

export interface Match {
  readonly screen: Screen
  readonly params: Readonly<Record<string, string>>
}

const matchPattern = (pattern: string, path: string): Record<string, string> | null => {
  const expected = pattern.split('/')
  const actual = path.split('/')
  if (expected.length !== actual.length) return null
  const params: Record<string, string> = {}
  for (const [i, part] of expected.entries()) {
    const value = actual[i] ?? ''
    if (!part.startsWith(':')) {
      if (part !== value) return null
      continue
    }
    if (value === '') return null
    try {
      params[part.slice(1)] = decodeURIComponent(value)
    } catch {
      // Not the encoding of any text, so it names nothing.
      return null
    }
  }
  return params
}

/** Returns the screen of a path, or `null`. */
export const matchRoute = (pathname: string): Match | null => {
  const path = pathname.length > 1 && pathname.endsWith('/') ? pathname.slice(0, -1) : pathname
  for (const { pattern, screen } of ROUTES) {
    const params = matchPattern(pattern, path)
    if (params !== null) return { screen, params }
  }
  return null
}

export type Filters = Readonly<Record<string, string>>

/** The filters of a list in its address. Unknown and empty ones are left out. */
export const filtersOf = (search: string, known: ReadonlyArray<string>): Filters => {
  const given = new URLSearchParams(search)
  return Object.fromEntries(
    known.flatMap((name) => {
      const value = given.get(name)
      return value === null || value === '' ? [] : [[name, value]]
    }),
  )
}

/** The address of a list with filters: always in the same order, without empty ones. */
export const withFilters = (
  path: string,
  filters: Readonly<Record<string, string | null | undefined>>,
): string => {
  const query = new URLSearchParams()
  for (const name of Object.keys(filters).toSorted()) {
    const value = filters[name]
    if (value !== undefined && value !== null && value !== '') query.set(name, value)
  }
  const text = query.toString()
  return text === '' ? path : `${path}?${text}`
}

/** The address of a list of the API as CSV: with its filters, and all of its pages. */
export const exportPath = (path: string): string => {
  const [pathname = '', query = ''] = path.split('?')
  const { limit: _, ...filters } = Object.fromEntries(new URLSearchParams(query))
  return withFilters(`${pathname}.csv`, filters)
}

/** The page that shows what an id identifies. The search finds the others, such as events. */
const PAGE_OF_PREFIX: Readonly<Record<string, (id: string) => string>> = {
  msg: (id) => `/messages/${id}`,
  bat: (id) => withFilters('/messages', { batch: id }),
  acc: (id) => `/accounts/${id}`,
  tpl: (id) => `/moderation/templates/${id}`,
  snd: (id) => `/moderation/senders/${id}`,
  we: (id) => `/webhooks/${id}`,
  whd: (id) => `/attempts/${id}`,
}

const ID = /^([a-z]{2,3})_[0-9a-z]{26}$/u

/** Returns the page of an id, the search for an id without a page of its own, or `null` for other text. */
export const pageOfId = (id: string): string | null => {
  const prefix = ID.exec(id)?.[1]
  if (prefix === undefined) return null
  return PAGE_OF_PREFIX[prefix]?.(id) ?? withFilters('/search', { q: id })
}

/**
 * A phone number is personal data, so it must not become part of an address. A number of another country is
 * one, too: the hub does not know it, but the history of the browser would keep it.
 */
export const isPhoneNumber = (text: string): boolean => {
  const digits = withoutSeparators(text)
  return /^\+?\d{6,15}$/u.test(digits) || containsWrittenNumber(text)
}

/**
 * Where to return after a login. Only an address of the console itself: anything else would let a link
 * send people to a foreign site.
 */
export const returnAddress = (pathname: string, search: string): string =>
  matchRoute(pathname) === null ? '/' : `${pathname}${search}`
