/**
 * A simulated Kafka for the tests of one process: its requests reach the broker at once, as long as the
 * broker answers. It uses the clock of the test.
 */
import { Clock, Context, Effect, FiberSet, Layer, type Scope } from 'effect'
import { PayloadKeyTopics } from '../../payload-keys/payload-key-topics.ts'
import type { ConsumerGroups, EventLog, IncomingRecord, TopicReader } from '../../port.ts'
import { topicNames } from '../../topics/catalogue.ts'
import { SimulatedBroker } from './broker.ts'
import type { SimulatedHost } from './host.ts'
import { simulatedKafka } from './simulated-kafka.ts'

/** Available, refusing connections, or accepting requests without an answer. */
export type BrokerState = 'up' | 'refusing' | 'hanging'

/** The controls of a test. */
export class SimulatedKafka extends Context.Service<
  SimulatedKafka,
  {
    readonly set: (state: BrokerState) => Effect.Effect<void>
    /** All records of a topic, for each partition. */
    readonly records: (topic: string) => ReadonlyArray<ReadonlyArray<IncomingRecord>>
  }
>()('@hub/kafka/SimulatedKafka') {}

const make = Effect.fnUntraced(function* (
  partitions: number,
): Effect.fn.Return<
  Context.Context<EventLog | ConsumerGroups | TopicReader | SimulatedKafka>,
  never,
  Scope.Scope
> {
  const clock = yield* Clock.Clock
  const fork = yield* FiberSet.makeRuntime<never>()
  const after = (ms: number, act: () => void) => {
    const fiber = fork(Effect.andThen(Effect.sleep(ms), Effect.sync(act)))
    return () => fiber.interruptUnsafe()
  }
  let state: BrokerState = 'up'
  /** Requests that a hanging broker has not read. */
  let unread: Array<() => void> = []
  const host: SimulatedHost = {
    after,
    wake: queueMicrotask,
    // Fetches return as many records as they may.
    choose: () => 1,
    request: ({ onAnswer, onFailure, serve, timeoutMs }) => {
      if (state === 'refusing') return queueMicrotask(() => onFailure('refused', false))
      let isOver = false
      const end = (act: () => void) => {
        if (isOver) return
        isOver = true
        cancel()
        act()
      }
      const cancel = after(timeoutMs, () => end(() => onFailure('timeout', true)))
      const read = () => {
        if (isOver) return
        serve(
          (value) => queueMicrotask(() => end(() => onAnswer(value))),
          () => true,
        )
      }
      if (state === 'hanging') unread.push(read)
      else read()
    },
  }
  const broker = new SimulatedBroker(partitions, { now: () => clock.currentTimeMillisUnsafe(), after })
  return simulatedKafka(broker, host).pipe(
    Context.add(SimulatedKafka, {
      set: (next) =>
        Effect.sync(() => {
          state = next
          if (next === 'hanging') return
          const requests = unread
          unread = []
          for (const read of requests) read()
        }),
      records: (topic) => broker.topic(topic),
    }),
  )
})

/** Every topic exists, with this number of partitions. */
export const layerSimulatedKafka = (
  partitions: number,
): Layer.Layer<EventLog | ConsumerGroups | TopicReader | SimulatedKafka> =>
  Layer.effectContext(make(partitions))

/** The topics of the payload keys, for tests without Kafka. */
export const layerSimulatedPayloadKeys: Layer.Layer<PayloadKeyTopics> = PayloadKeyTopics.layer(
  topicNames(),
).pipe(Layer.provide(layerSimulatedKafka(1)))
