/** The addresses of saved views. Pure. */
import { type Filters, withFilters } from '../routing/routes.ts'

/** The lists that have views, by their names in the API. */
const PATHS = {
  messages: '/messages',
  webhooks: '/webhooks',
  templates: '/moderation/templates',
  senders: '/moderation/senders',
  dead_letters: '/dead-letters',
  usage: '/usage',
  opt_outs: '/opt-outs',
  audit: '/audit',
} as const

/** A list that can be saved. The attempts belong to a subscription, which is a part of their path. */
export type ViewList = keyof typeof PATHS | 'attempts'

const hasPath = (list: string): list is keyof typeof PATHS => Object.hasOwn(PATHS, list)

/** The address of the list of a view with its filters; `null`: this version of the console does not know the list. */
export const viewAddress = (list: string, filters: Filters): string | null => {
  if (hasPath(list)) return withFilters(PATHS[list], filters)
  const { webhook_endpoint: subscription, ...others } = filters
  if (list !== 'attempts' || subscription === undefined) return null
  return withFilters(`/webhooks/${encodeURIComponent(subscription)}`, others)
}

/** The filters of a view without one of them. */
export const withoutFilter = (filters: Filters, name: string): Filters =>
  Object.fromEntries(Object.entries(filters).filter(([filter]) => filter !== name))
