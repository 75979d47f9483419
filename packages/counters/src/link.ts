/** The connection of the counters and shared texts to Redis, in each of its forms. */
import { type RedisServers, redisServers } from '@hub/config'
import { Effect, Redacted, type Scope } from 'effect'
import { CONNECT_STEP_MS } from './client.ts'
import { makeClusterLink } from './cluster.ts'
import type { Command } from './command.ts'
import type { CallKind } from './connection.ts'
import { type CounterName, unavailable } from './metrics.ts'
import type { CountersUnavailable } from './port.ts'
import { agreedPrimary, findPrimary } from './sentinels.ts'
import { makeServerLink, type ServerLink, type ServerLinkOptions } from './server-link.ts'

export interface LinkOptions extends Pick<ServerLinkOptions, 'onAvailable' | 'deadlineMs'> {
  /** As `HUB_REDIS_URL`. */
  readonly url: Redacted.Redacted<string>
  /** The connection name in `CLIENT LIST`. */
  readonly name: string
}

export interface Link {
  /** Sends commands at once, for a counter and under one deadline. The answers are in their order. */
  readonly callAll: (
    counter: CounterName,
    kind: CallKind,
    commands: ReadonlyArray<Command>,
  ) => Effect.Effect<ReadonlyArray<unknown>, CountersUnavailable>
  /** Sends one command. */
  readonly call: (
    counter: CounterName,
    kind: CallKind,
    command: Command,
  ) => Effect.Effect<unknown, CountersUnavailable>
}

const linkOf = (
  servers: RedisServers,
  { deadlineMs, name, onAvailable }: Omit<LinkOptions, 'url'>,
): Effect.Effect<ServerLink, never, Scope.Scope> => {
  const tlsName = servers.form === 'single' ? null : servers.tlsName
  const client = { name, stepMs: CONNECT_STEP_MS, tlsName }
  const common = { client, onAvailable, deadlineMs }
  switch (servers.form) {
    case 'single':
      return makeServerLink({ ...common, kind: 'single', find: Effect.succeed(servers.url) })
    case 'sentinel':
      return makeServerLink({
        ...common,
        kind: 'single',
        find: findPrimary(servers, client),
        agreed: agreedPrimary(servers, client),
      })
    case 'cluster':
      return makeClusterLink(servers, common)
  }
}

/** Connects until the scope closes. Returns after the first attempt. */
export const makeLink = (options: LinkOptions): Effect.Effect<Link, never, Scope.Scope> =>
  Effect.map(linkOf(redisServers(Redacted.value(options.url)), options), (link) => {
    const callAll: Link['callAll'] = (counter, kind, commands) =>
      link
        .call(kind, commands)
        .pipe(Effect.tapError(({ reason }) => Effect.sync(() => unavailable.add({ counter, reason }))))
    return {
      callAll,
      call: (counter, kind, command) => Effect.map(callAll(counter, kind, [command]), ([answer]) => answer),
    }
  })
