/** Where `hub listen` posts the events of each type. */
import { type CommandFailed, usageError } from '@hub/command-line'
import type { HubEvent } from '@sms-delivery-hub/client'

export interface Targets {
  /** The types to follow; empty: all. */
  readonly types: ReadonlyArray<string>
  /** The address of types without a route; `null`: they are not followed. */
  readonly general: string | null
  /** The addresses of types, by type. */
  readonly routes: Readonly<Record<string, string>>
}

const hrefOf = (text: string): string | null => {
  const url = URL.canParse(text) ? new URL(text) : null
  return url !== null && ['http:', 'https:'].includes(url.protocol) ? url.href : null
}

/** `given`: the values of the flags `--forward-to`, `--route` and `--type`. */
export const readTargets = (given: {
  readonly forwardTo: string | null
  readonly route: Readonly<Record<string, string>>
  readonly type: ReadonlyArray<string>
}): Targets | CommandFailed => {
  const general = given.forwardTo === null ? null : hrefOf(given.forwardTo)
  if (given.forwardTo !== null && general === null) {
    return usageError('--forward-to must be a URL, such as http://localhost:3000/hooks/sms.')
  }
  const routes: Record<string, string> = {}
  for (const [type, text] of Object.entries(given.route)) {
    const href = hrefOf(text)
    if (href === null) {
      return usageError('--route must be a type and a URL, such as message.sent=http://localhost:3000/sent.')
    }
    routes[type] = href
  }
  const routed = Object.keys(routes)
  if (general === null) {
    if (routed.length === 0) return usageError('Give --forward-to, --route, or both.')
    if (given.type.length > 0) return usageError('--type selects the events for --forward-to: give it too.')
    return { types: routed, general, routes }
  }
  return { types: given.type.length === 0 ? [] : [...new Set([...given.type, ...routed])], general, routes }
}

/** All addresses, each once. */
export const addressesOf = ({ general, routes }: Targets): ReadonlyArray<string> => [
  ...new Set([...(general === null ? [] : [general]), ...Object.values(routes)]),
]

/** What the secret and the position belong to. */
export const identityOf = ({ general, routes }: Targets): ReadonlyArray<string> => [
  general ?? '',
  // Without routes, the files of earlier versions continue.
  ...Object.entries(routes)
    .map(([type, url]) => `${type}=${url}`)
    .sort(),
]

/** The events for each address, in their order. */
export const byAddress = (
  { general, routes }: Targets,
  events: ReadonlyArray<HubEvent>,
): ReadonlyMap<string, ReadonlyArray<HubEvent>> => {
  const addressOf = ({ type }: HubEvent): string =>
    (Object.hasOwn(routes, type) ? routes[type] : general) ?? ''
  return Map.groupBy(events, addressOf)
}
