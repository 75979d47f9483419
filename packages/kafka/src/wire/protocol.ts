/** Sends requests of the hub's own encoding over the connections of kafkajs. */
import { createRequire } from 'node:module'
import type { InnerBroker, InnerConnection } from '../kafkajs-patches/internals.ts'

export interface DecodedAnswer<A> {
  readonly answer: A
  /** How long the broker asks the client to send nothing, because of a quota, ms. */
  readonly throttleMs: number
}

/** A request of Kafka's protocol, and the decoding of its answer. */
export interface ProtocolRequest<A> {
  readonly apiKey: number
  readonly apiVersion: number
  readonly apiName: string
  readonly encode: () => Buffer
  /** Throws the error that the answer contains. */
  readonly decode: (payload: Buffer) => DecodedAnswer<A>
}

const require = createRequire(import.meta.url)

const { createErrorFromCode } = require('kafkajs/src/protocol/error') as {
  readonly createErrorFromCode: (code: number) => Error
}
const { KafkaJSOffsetOutOfRange } = require('kafkajs/src/errors') as {
  readonly KafkaJSOffsetOutOfRange: new (error: Error, at: { topic: string; partition: number }) => Error
}

/** kafkajs' error for a code of the protocol. kafkajs and `reasonOf` recognize it. */
export const errorOf = createErrorFromCode

export const outOfRange = (topic: string, partition: number): Error =>
  // The code of OFFSET_OUT_OF_RANGE.
  new KafkaJSOffsetOutOfRange(createErrorFromCode(1), { topic, partition })

/**
 * Sends a request over one of the connections to a broker. When the connection is closed, the broker
 * is disconnected, as kafkajs does it for its own requests.
 */
export const sendRequest = async <A>(
  broker: InnerBroker,
  { apiKey, apiName, apiVersion, decode, encode }: ProtocolRequest<A>,
  connection?: InnerConnection,
): Promise<A> => {
  const target = connection ?? broker.connectionPool
  try {
    return await target.send({
      request: {
        apiKey,
        apiVersion,
        apiName,
        // These are the parts of an encoder of kafkajs that are read.
        encode: () => {
          const buffer = encode()
          return Promise.resolve({ buf: buffer, buffer })
        },
      },
      response: {
        decode: (payload) => {
          const { answer, throttleMs } = decode(payload)
          return Promise.resolve({ answer, clientSideThrottleTime: throttleMs })
        },
        parse: ({ answer }) => Promise.resolve(answer),
      },
    })
  } catch (error) {
    if ((error as { readonly name?: string }).name === 'KafkaJSConnectionClosedError')
      await broker.disconnect()
    throw error
  }
}
