/** Asks Sentinels which server is the primary. */
import type { RedisServers } from '@hub/config'
import { Effect } from 'effect'
import { ask, type ClientOptions } from './client.ts'
import { unreachable } from './failures.ts'
import { firstAnswer } from './first-answer.ts'
import type { CountersUnavailable } from './port.ts'

type Sentinels = Extract<RedisServers, { readonly form: 'sentinel' }>

/** What the codes of a Sentinel mean: its settings are others than those of the primary. */
const DETAILS: Readonly<Record<string, string>> = {
  WRONGPASS: 'SENTINEL_WRONGPASS',
  NOAUTH: 'SENTINEL_NOAUTH',
  NOPERM: 'SENTINEL_NOPERM',
  // Another server does not know the command.
  ERR: 'NO_SENTINEL',
}

/** The URL of the primary, according to one Sentinel. `stepMs`: the deadline of each step. */
export const askSentinel = (
  { primary, urlOf }: Sentinels,
  url: string,
  options: ClientOptions,
): Effect.Effect<string, CountersUnavailable> =>
  ask(url, options, (redis) => redis.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', primary)).pipe(
    Effect.mapError((failure) => {
      const detail = DETAILS[failure.detail]
      return detail === undefined ? failure : unreachable(detail)
    }),
    Effect.flatMap((answer) => {
      const [host, port] = Array.isArray(answer) ? answer : []
      return typeof host === 'string' && typeof port === 'string'
        ? Effect.succeed(urlOf(host, Number(port)))
        : Effect.fail(unreachable('SENTINEL_NAME'))
    }),
  )

/** The URL of the primary, according to the first Sentinel that answers. */
export const findPrimary = (
  servers: Sentinels,
  options: ClientOptions,
): Effect.Effect<string, CountersUnavailable> =>
  firstAnswer(
    servers.sentinels,
    (url) => askSentinel(servers, url, options),
    () => unreachable('SENTINELS_AWAY'),
  )

/** Asks all Sentinels. Returns the URLs that they name, and the failures of the others. */
export const askAllSentinels = (servers: Sentinels, options: ClientOptions) =>
  Effect.partition(servers.sentinels, (url) => askSentinel(servers, url, options), {
    concurrency: 'unbounded',
  })

/**
 * The URL of the primary that more than half of the Sentinels name; `null`: there is none. One of them alone may not
 * know of a failover yet.
 */
export const agreedPrimary = (servers: Sentinels, options: ClientOptions): Effect.Effect<string | null> =>
  Effect.map(askAllSentinels(servers, options), ([named]) => {
    const votes = (url: string) => named.filter((one) => one === url).length
    return named.find((url) => votes(url) > servers.sentinels.length / 2) ?? null
  })
