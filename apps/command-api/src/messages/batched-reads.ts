/**
 * Combines concurrent reads of single keys into one statement, which costs several times as much as
 * one more row in it. An idle hub loads a single key without delay.
 */
import { Deferred, Effect, Exit, type Scope } from 'effect'

interface BatchedReaderOptions<A, E> {
  /** Loads the values of keys, without those that have none. It needs its own deadline. */
  readonly load: (keys: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, A>, E>
  /** Most loads in progress. Later reads wait for the next load. */
  readonly maxConcurrent: number
  /** Most keys of one load. */
  readonly maxKeys: number
}

/**
 * Makes a function that reads one key, `null` without a value. If a load fails, all of its reads
 * fail.
 */
export const makeBatchedReader = Effect.fnUntraced(function* <A, E>({
  load,
  maxConcurrent,
  maxKeys,
}: BatchedReaderOptions<A, E>): Effect.fn.Return<
  (key: string) => Effect.Effect<A | null, E>,
  never,
  Scope.Scope
> {
  const scope = yield* Effect.scope
  /** Reads that no load has taken yet, one for each key. */
  const waiting = new Map<string, Deferred.Deferred<A | null, E>>()
  let loops = 0
  /** Keys of the loads in progress. */
  let keysInProgress = 0
  /**
   * A further concurrent loop starts only if it would load at least half as many keys as are in
   * progress: otherwise the reads wait until a load ends.
   */
  const shouldStart = (): boolean =>
    loops === 0 || (loops < maxConcurrent && keysInProgress > 0 && 2 * waiting.size >= keysInProgress)

  const take = (): ReadonlyMap<string, Deferred.Deferred<A | null, E>> => {
    const taken = new Map([...waiting].slice(0, maxKeys))
    for (const key of taken.keys()) waiting.delete(key)
    return taken
  }

  const loadNext = Effect.suspend(() => {
    const taken = take()
    if (taken.size === 0) return Effect.void
    keysInProgress += taken.size
    return load([...taken.keys()]).pipe(
      Effect.onExit((exit) =>
        Effect.sync(() => {
          keysInProgress -= taken.size
          for (const [key, result] of taken) {
            Deferred.doneUnsafe(
              result,
              Exit.map(exit, (found) => found.get(key) ?? null),
            )
          }
        }),
      ),
      Effect.exit,
    )
  })

  /** Loads until no read waits. Starts one turn later, so that all reads of this turn join it. */
  const loop = Effect.whileLoop({
    while: () => waiting.size > 0,
    body: () => loadNext,
    step: () => {},
  }).pipe(
    (loads) => Effect.andThen(Effect.yieldNow, loads),
    Effect.ensuring(
      Effect.sync(() => {
        loops -= 1
      }),
    ),
  )

  return (key) =>
    Effect.suspend(() => {
      const existing = waiting.get(key)
      if (existing !== undefined) return Deferred.await(existing)
      const result = Deferred.makeUnsafe<A | null, E>()
      waiting.set(key, result)
      if (!shouldStart()) return Deferred.await(result)
      loops += 1
      return Effect.andThen(Effect.forkIn(loop, scope), Deferred.await(result))
    })
})
