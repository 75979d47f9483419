/**
 * Single reads that come together go in one statement. A statement costs the driver and PostgreSQL several times what one row more in it
 * costs; so a busy hub asks for all that wait, and a quiet one at once for the one there is.
 */
import { Deferred, Effect, Exit, type Scope } from 'effect'

export interface Gathering<A, E> {
  /** What there is of some keys, by key. It has a deadline of its own. */
  readonly load: (keys: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, A>, E>
  /** Loads under way at a time; who comes meanwhile waits for the next. */
  readonly atOnce: number
  /** Most keys of a load. */
  readonly most: number
}

/** Reads one key, `null` for none, in as few loads as possible. A load that fails fails for each of its readers. Runs until the scope closes. */
export const gather = Effect.fnUntraced(function* <A, E>({
  atOnce,
  load,
  most,
}: Gathering<A, E>): Effect.fn.Return<(key: string) => Effect.Effect<A | null, E>, never, Scope.Scope> {
  const scope = yield* Effect.scope
  /** Those that no load has taken yet; the same key is asked for once. */
  const waiting = new Map<string, Deferred.Deferred<A | null, E>>()
  let underWay = 0
  /** Keys of the loads under way. */
  let loading = 0
  /**
   * A load beside others begins only when it is not a small one: whoever waits goes when one of them ends, at the latest. Where nothing is loaded
   * although something is under way, that is about to begin and takes all.
   */
  const isWorthIt = (): boolean =>
    underWay === 0 || (underWay < atOnce && loading > 0 && 2 * waiting.size >= loading)

  const take = (): ReadonlyMap<string, Deferred.Deferred<A | null, E>> => {
    const taken = new Map([...waiting].slice(0, most))
    for (const key of taken.keys()) waiting.delete(key)
    return taken
  }

  const next = Effect.suspend(() => {
    const taken = take()
    if (taken.size === 0) return Effect.void
    loading += taken.size
    return load([...taken.keys()]).pipe(
      Effect.onExit((exit) =>
        Effect.sync(() => {
          loading -= taken.size
          for (const [key, answer] of taken) {
            Deferred.doneUnsafe(
              answer,
              Exit.map(exit, (found) => found.get(key) ?? null),
            )
          }
        }),
      ),
      Effect.exit,
    )
  })

  /** Loads until nobody waits. It begins a turn later, so that all who came in this one are in it. */
  const run = Effect.whileLoop({
    while: () => waiting.size > 0,
    body: () => next,
    step: () => {},
  }).pipe(
    (loads) => Effect.andThen(Effect.yieldNow, loads),
    Effect.ensuring(
      Effect.sync(() => {
        underWay -= 1
      }),
    ),
  )

  return (key) =>
    Effect.suspend(() => {
      const there = waiting.get(key)
      if (there !== undefined) return Deferred.await(there)
      const answer = Deferred.makeUnsafe<A | null, E>()
      waiting.set(key, answer)
      if (!isWorthIt()) return Deferred.await(answer)
      underWay += 1
      return Effect.andThen(Effect.forkIn(run, scope), Deferred.await(answer))
    })
})
