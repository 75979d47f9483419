/** Kafka for tests: in memory, and simulated. The image does not contain it. */
export { layerMemory, layerMemoryErasures, layerMemoryPayloadKeys, MemoryKafka } from './memory.ts'
export { SimulatedBroker } from './simulated/broker.ts'
export type { SchemaVersion, SimulatedHost, SimulatedRequest } from './simulated/host.ts'
export { simulatedKafka } from './simulated/simulated-kafka.ts'
