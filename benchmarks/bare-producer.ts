/** A kafkajs producer without the hub's port: with `acks=all`, and several requests in progress. */
import kafkajs, { type Message } from 'kafkajs'

export interface BareProducer {
  /** Resolves when the broker has acknowledged the records. */
  readonly send: (topic: string, messages: Array<Message>) => Promise<void>
  readonly close: () => Promise<void>
}

export const startBareProducer = async (brokers: ReadonlyArray<string>): Promise<BareProducer> => {
  const kafka = new kafkajs.Kafka({
    clientId: 'bench',
    brokers: [...brokers],
    logLevel: kafkajs.logLevel.ERROR,
  })
  const producer = kafka.producer({
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
