import { Effect, Layer } from 'effect'
import { layerMemory, MemoryKafka } from './memory.ts'
import { CONTRACT_PARTITIONS, portContract, TestKafka } from '../port.contract.ts'

let counter = 0

const testKafka = Layer.effect(
  TestKafka,
  Effect.map(MemoryKafka, (kafka) => ({
    topics: (count: number) => Effect.sync(() => Array.from({ length: count }, () => `topic-${counter++}`)),
    group: Effect.sync(() => `group-${counter++}`),
    set: kafka.set,
  })),
)

portContract('memory', testKafka.pipe(Layer.provideMerge(layerMemory(CONTRACT_PARTITIONS))))
