/** Kafka for tests, simulated. The image does not contain it. */
export { SimulatedBroker } from './simulated/broker.ts'
export type { SchemaVersion, SimulatedHost, SimulatedRequest } from './simulated/host.ts'
export { layerSimulatedKafka, layerSimulatedPayloadKeys, SimulatedKafka } from './simulated/one-process.ts'
export { simulatedKafka } from './simulated/simulated-kafka.ts'
