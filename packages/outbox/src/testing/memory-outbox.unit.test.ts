/** The double passes the contract suites. */
import { encodeOutboxRow } from '@hub/kafka'
import { layerSimulatedKafka, SimulatedKafka } from '@hub/kafka/testing'
import { Effect, Layer } from 'effect'
import { outboxOrderContract, TestTopic } from '../order.contract.ts'
import { outboxStoreContract, TestOutbox } from '../store.contract.ts'
import { OutboxStore } from '../store.port.ts'
import { makeMemoryOutbox } from './memory-outbox.ts'

const layer = Layer.unwrap(
  Effect.sync(() => {
    const outbox = makeMemoryOutbox(() => Date.now())
    return Layer.merge(
      Layer.succeed(OutboxStore)(outbox.store),
      Layer.succeed(TestOutbox)({
        insert: (records) => Effect.sync(() => outbox.insert(encodeOutboxRow(records))),
      }),
    )
  }),
)

const topicLayer = Layer.effect(
  TestTopic,
  Effect.map(SimulatedKafka, (kafka) => ({
    name: 'outbox',
    idsOf: (key) =>
      Effect.sync(() =>
        kafka
          .records('outbox')
          .flat()
          .filter((record) => record.key === key)
          .map(({ id }) => id),
      ),
  })),
).pipe(Layer.provideMerge(layerSimulatedKafka(3)))

outboxStoreContract('memory', layer)
outboxOrderContract('the double', Layer.merge(layer, topicLayer))
