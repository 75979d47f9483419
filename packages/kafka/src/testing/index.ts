/** Kafka for tests, simulated, and the parts whose tests need several brokers. The image does not contain it. */
export { AdminConnection } from '../consumer/admin-connection.ts'
export { SimulatedBroker } from './simulated/broker.ts'
export type { SchemaVersion, SimulatedHost, SimulatedRequest } from './simulated/host.ts'
export { layerSimulatedKafka, layerSimulatedPayloadKeys, SimulatedKafka } from './simulated/one-process.ts'
export { simulatedKafka } from './simulated/simulated-kafka.ts'
