/**
 * The connections to a Redis Cluster: one to each primary, each with its own deadlines and circuit breaker
 * (`server-link.ts`). So a node that is slow or away affects only the keys that it has.
 *
 * The map of slots is read again when a call tells that it is out of date: a node is not reached, or does not have the
 * key any more. Such a call fails, as while Redis is unavailable; nothing is sent twice.
 */
import type { RedisServers } from '@hub/config'
import { Effect, Exit, Latch, Scope } from 'effect'
import { ask, type ClientOptions } from './client.ts'
import type { Command } from './command.ts'
import { STARTING, toUnavailable, unreachable } from './failures.ts'
import { firstAnswer } from './first-answer.ts'
import { makeOutageLog } from './outage-log.ts'
import type { CountersUnavailable } from './port.ts'
import { makeServerLink, RETRY_EVERY_MS, type ServerLink, type ServerLinkOptions } from './server-link.ts'
import { readSlotRanges, SLOTS, slotOf } from './slots.ts'

type Cluster = Extract<RedisServers, { readonly form: 'cluster' }>

/** Answers of a node that does not have the key, or not all keys of a script while it moves to another node. */
const MOVED_CODES: ReadonlySet<string> = new Set(['MOVED', 'ASK', 'TRYAGAIN'])

/** The URLs of the primaries, by slot. */
type Owners = ReadonlyArray<string | undefined>

/** The owners of all slots, according to one node. */
const askOwners = ({ urlOf }: Cluster, url: string, options: ClientOptions) =>
  ask(url, options, (redis) => redis.call('CLUSTER', 'SLOTS')).pipe(
    // A server without a cluster refuses the command.
    Effect.mapError((failure) => (failure.detail === 'ERR' ? unreachable('NO_CLUSTER') : failure)),
    Effect.flatMap((answer): Effect.Effect<Owners, CountersUnavailable> => {
      const ranges = readSlotRanges(answer)
      // No node has slots yet, or the answer is of something else.
      if (ranges === null || ranges.length === 0) return Effect.fail(unreachable('CLUSTERDOWN'))
      const asked = new URL(url).hostname
      const owners = Array.from({ length: SLOTS }, (): string | undefined => undefined)
      for (const { first, host, last, port } of ranges)
        owners.fill(urlOf(host ?? asked, port), first, last + 1)
      return Effect.succeed(owners)
    }),
  )

/** The owners of all slots, according to the first node that answers. `urls`: of nodes. */
export const findOwners = (
  cluster: Cluster,
  urls: ReadonlyArray<string>,
  options: ClientOptions,
): Effect.Effect<Owners, CountersUnavailable> =>
  firstAnswer(
    urls,
    (url) => askOwners(cluster, url, options),
    (failures) => failures[0] ?? STARTING,
  )

/** The primaries of a cluster. */
export const primariesOf = (owners: Owners): ReadonlySet<string> =>
  new Set(owners.filter((url) => url !== undefined))

interface Node {
  readonly link: ServerLink
  readonly scope: Scope.Closeable
}

/** Connects until the scope closes. Returns after the first attempt. */
export const makeClusterLink = (
  cluster: Cluster,
  options: Pick<ServerLinkOptions, 'client' | 'onAvailable' | 'deadlineMs'>,
): Effect.Effect<ServerLink, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    let owners: Owners = []
    let nodes: ReadonlyMap<string, Node> = new Map()
    /** Why the owners are not known. */
    let down: CountersUnavailable = STARTING
    const outdated = Latch.makeUnsafe(false)
    const log = makeOutageLog('No node of the Redis Cluster says which nodes have the keys.')

    const openNode = Effect.fnUntraced(function* (url: string) {
      const own = yield* Scope.fork(scope)
      const link = yield* Scope.provide(
        makeServerLink({ ...options, kind: 'node', find: Effect.succeed(url) }),
        own,
      )
      return [url, { link, scope: own }] as const
    })

    /**
     * Reads the map of slots again, opens connections to new primaries, and closes those to others. Returns whether there
     * are new ones.
     */
    const refresh = Effect.gen(function* () {
      const known = [...new Set([...nodes.keys(), ...cluster.nodes])]
      const found = yield* findOwners(cluster, known, options.client)
      // At once: a new node that does not answer must not delay the use of the others.
      owners = found
      log.end()
      const primaries = primariesOf(found)
      const opened = yield* Effect.forEach(
        [...primaries].filter((url) => !nodes.has(url)),
        openNode,
        { concurrency: 'unbounded' },
      )
      const gone = [...nodes].filter(([url]) => !primaries.has(url))
      nodes = new Map([...nodes, ...opened].filter(([url]) => primaries.has(url)))
      yield* Effect.forEach(gone, ([, node]) => Scope.close(node.scope, Exit.void), { discard: true })
      return opened.length > 0
    }).pipe(
      Effect.catch((cause) => {
        down = cause
        outdated.openUnsafe()
        return Effect.as(log.warn(cause), false)
      }),
    )

    yield* refresh
    yield* outdated.await.pipe(
      Effect.andThen(Effect.sync(() => outdated.closeUnsafe())),
      Effect.andThen(refresh),
      Effect.flatMap((hasNew) => (hasNew ? options.onAvailable : Effect.void)),
      // A failover takes seconds, so the map stays out of date for some time.
      Effect.andThen(Effect.sleep(RETRY_EVERY_MS)),
      Effect.forever,
      Effect.forkScoped,
    )

    const nodeOf = ({ key }: Command): Node | undefined => {
      const url = owners[slotOf(key)]
      return url === undefined ? undefined : nodes.get(url)
    }

    const callNode = (
      node: Node | undefined,
      ...[kind, commands]: Parameters<ServerLink['call']>
    ): ReturnType<ServerLink['call']> => {
      if (node === undefined) {
        outdated.openUnsafe()
        return Effect.fail(owners.length === 0 ? down : unreachable('CLUSTERDOWN'))
      }
      return node.link.call(kind, commands).pipe(
        Effect.mapError((failure) => {
          const hasMoved = MOVED_CODES.has(failure.detail)
          if (hasMoved || failure.reason === 'unreachable' || failure.detail === 'silent')
            outdated.openUnsafe()
          return hasMoved ? unreachable(failure.detail) : failure
        }),
      )
    }

    const call: ServerLink['call'] = (kind, commands) =>
      Effect.suspend(() => {
        const byNode = new Map<Node | undefined, Array<number>>()
        commands.forEach((command, index) => {
          const node = nodeOf(command)
          const own = byNode.get(node)
          if (own === undefined) byNode.set(node, [index])
          else own.push(index)
        })
        const parts = [...byNode]
        const [only] = parts
        if (only !== undefined && parts.length === 1) return callNode(only[0], kind, commands)
        const answers = Array.from({ length: commands.length }, (): unknown => undefined)
        // Also when one of them fails: the others need not be repeated then.
        return Effect.forEach(
          parts,
          ([node, indices]) =>
            callNode(
              node,
              kind,
              indices.map((index) => commands[index]!),
            ).pipe(
              Effect.map((found) => indices.forEach((index, i) => (answers[index] = found[i]))),
              Effect.exit,
            ),
          { concurrency: 'unbounded' },
        ).pipe(
          Effect.flatMap((exits) => {
            const failed = exits.find(Exit.isFailure)
            return failed === undefined ? Effect.succeed(answers) : Effect.failCause(failed.cause)
          }),
        )
      })

    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        owners = []
        nodes = new Map()
        down = toUnavailable(null)
      }),
    )
    return { call }
  })
