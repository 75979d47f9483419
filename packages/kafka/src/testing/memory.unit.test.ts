import { Effect, Layer } from 'effect'
import { layerMemory, MemoryKafka } from './memory.ts'
import { CONTRACT_PARTITIONS, portContract, TestBus } from '../port.contract.ts'

let names = 0

const testBus = Layer.effect(
  TestBus,
  Effect.map(MemoryKafka, (bus) => ({
    topics: (count: number) => Effect.sync(() => Array.from({ length: count }, () => `topic-${names++}`)),
    group: Effect.sync(() => `group-${names++}`),
    set: bus.set,
  })),
)

portContract('memory', testBus.pipe(Layer.provideMerge(layerMemory(CONTRACT_PARTITIONS))))
