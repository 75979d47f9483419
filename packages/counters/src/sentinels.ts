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

/** The URL of the primary, according to one Sentinel. */
const askSentinel = (
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

interface Vote {
  /** The server that most Sentinels name; `null`: none of them names one. */
  readonly url: string | null
  /** How many Sentinels name it. */
  readonly votes: number
  /** Of the Sentinels that name no server. */
  readonly failures: ReadonlyArray<CountersUnavailable>
}

/** Asks all Sentinels. One of them alone may not know of a failover yet. */
export const askAllSentinels = (servers: Sentinels, options: ClientOptions): Effect.Effect<Vote> =>
  Effect.map(
    Effect.partition(servers.sentinels, (url) => askSentinel(servers, url, options), {
      concurrency: 'unbounded',
    }),
    ([named, failures]) => {
      const votesFor = (url: string) => named.filter((one) => one === url).length
      const votes = Math.max(0, ...named.map(votesFor))
      return { url: named.find((url) => votesFor(url) === votes) ?? null, votes, failures }
    },
  )

/** The URL of the primary that more than half of the Sentinels name; `null`: there is none. */
export const agreedPrimary = (servers: Sentinels, options: ClientOptions): Effect.Effect<string | null> =>
  Effect.map(askAllSentinels(servers, options), ({ url, votes }) =>
    votes > servers.sentinels.length / 2 ? url : null,
  )
