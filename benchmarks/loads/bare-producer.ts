/** kafkajs without the hub's port. */
import kafkajs, { type Kafka, type Message } from 'kafkajs'

export const bareKafka = (brokers: ReadonlyArray<string>): Kafka =>
  new kafkajs.Kafka({ clientId: 'bench', brokers: [...brokers], logLevel: kafkajs.logLevel.ERROR })

export interface BareProducer {
  /** Resolves when the broker has acknowledged the records. */
  readonly send: (topic: string, messages: Array<Message>) => Promise<void>
  readonly close: () => Promise<void>
}

/** A producer with `acks=all`. Several requests may be in progress. */
export const startBareProducer = async (brokers: ReadonlyArray<string>): Promise<BareProducer> => {
  const producer = bareKafka(brokers).producer({
    allowAutoTopicCreation: false,
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
  })
  await producer.connect()
  return {
    send: async (topic, messages) => {
      await producer.send({ topic, messages, acks: -1 })
    },
    close: () => producer.disconnect(),
  }
}
