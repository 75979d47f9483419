import { Effect, Layer } from 'effect'
import { CONTRACT_PARTITIONS, portContract, TestKafka } from '../../port.contract.ts'
import { layerSimulatedKafka, SimulatedKafka } from './one-process.ts'

let counter = 0

const testKafka = Layer.effect(
  TestKafka,
  Effect.map(SimulatedKafka, (kafka) => ({
    topics: (count: number) => Effect.sync(() => Array.from({ length: count }, () => `topic-${counter++}`)),
    group: Effect.sync(() => `group-${counter++}`),
    set: kafka.set,
  })),
)

portContract('simulated', testKafka.pipe(Layer.provideMerge(layerSimulatedKafka(CONTRACT_PARTITIONS))))
