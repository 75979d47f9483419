/** The kafkajs adapter of the port `ConsumerGroups`. */
import { Effect, Layer, type Scope } from 'effect'
import { reasonOf } from '../connection/errors.ts'
import { ConsumerGroups, type GroupHandler, type GroupOptions, KafkaUnavailable } from '../port.ts'
import { type ConsumerGroupsOptions, Member } from './member.ts'

const join = Effect.fnUntraced(function* (
  options: ConsumerGroupsOptions,
  group: GroupOptions,
  handler: GroupHandler,
): Effect.fn.Return<{ readonly isHealthy: Effect.Effect<boolean> }, KafkaUnavailable, Scope.Scope> {
  const context = yield* Effect.context<never>()
  const exit = Effect.runPromiseExitWith(context)
  const member = new Member(options, group, handler, {
    fork: Effect.runForkWith(context),
    exit: (effect, signal) => exit(effect, { signal }),
  })
  yield* Effect.addFinalizer(() => Effect.promise(() => member.close()))
  yield* Effect.tryPromise({
    try: () => member.start(),
    catch: (error) =>
      error instanceof KafkaUnavailable
        ? error
        : new KafkaUnavailable({ reason: 'rejected', detail: reasonOf(error).detail }),
  })
  return { isHealthy: Effect.sync(() => member.isHealthy()) }
})

/** Consumer groups of a cluster. A connection is opened only by `join`. */
export const layerConsumerGroups = (options: ConsumerGroupsOptions): Layer.Layer<ConsumerGroups> =>
  Layer.succeed(ConsumerGroups, { join: (group, handler) => join(options, group, handler) })
