/**
 * The AsyncAPI 3 document of what the hub sends by itself: the records of its topics, and the webhooks. It follows
 * from the catalogue of topics, the Avro schemas and the API description. Pure.
 */
import {
  CONTRACT_VERSION,
  description,
  isJsonObject,
  type Json,
  type JsonObject,
  referredBy,
  rewriteSchemas,
} from '@hub/contract'
import {
  DEAD_LETTER_HEADERS,
  deadLetterTopic,
  SCHEMAS,
  shardedTopics,
  TOPIC_CONTENT,
  topicCatalogue,
  type TopicNames,
  topicNames,
} from '@hub/kafka'

const KAFKA_BINDING = '0.5.0'
const HTTP_BINDING = '0.3.0'
const AVRO = 'application/vnd.apache.avro;version=1.9.0'

const objectAt = (value: Json | undefined, ...path: ReadonlyArray<string>): JsonObject => {
  let found = value
  for (const name of path) found = isJsonObject(found) ? found[name] : undefined
  if (!isJsonObject(found)) throw new Error(`the API description has no object ${path.join('.')}`)
  return found
}

const text = (description: string, more: JsonObject = {}): JsonObject => ({
  type: 'string',
  description,
  ...more,
})

const headers = (required: ReadonlyArray<string>, properties: JsonObject): JsonObject => ({
  type: 'object',
  required: [...required],
  properties,
})

/** A record as a message, in the last version of its schema. */
const recordMessage = (name: string): JsonObject => {
  const versions = SCHEMAS.filter((schema) => schema.name === name)
  const latest = versions.at(-1)
  if (latest === undefined) throw new Error(`the record ${name} has no schema`)
  const ids = versions.map(({ id, version }) => `${id} (version ${version})`).join(', ')
  const schema = latest.schema as JsonObject & { readonly doc: string }
  return {
    name,
    title: name,
    summary: schema.doc,
    description: `A zero byte, the schema id in four bytes, then Avro. Schema ids: ${ids}.`,
    contentType: 'application/vnd.apache.avro',
    headers: headers(['type', 'id', 'occurred_at'], {
      type: text('The record type.', { const: name }),
      id: text('The same fact has the same id: drop repeats.'),
      occurred_at: text('When it happened, in milliseconds since the epoch.', { pattern: '^[0-9]+$' }),
      traceparent: text('The trace, in the form of W3C Trace Context.'),
      tracestate: text(
        'What the services before the hub say about the trace, in the form of W3C Trace Context.',
      ),
    }),
    payload: { schemaFormat: AVRO, schema },
    bindings: {
      kafka: {
        schemaIdLocation: 'payload',
        schemaIdPayloadEncoding: 'confluent',
        bindingVersion: KAFKA_BINDING,
      },
    },
  }
}

const messagesOf = (names: ReadonlyArray<string>): JsonObject =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/messages/${name}` }]))

/** The channels of the topics, with the names of their records. */
const topicChannels = (): ReadonlyArray<readonly [name: string, channel: JsonObject]> => {
  const names = topicNames()
  const specs = new Map(
    topicCatalogue({ prefix: '', partitions: 1, replicationFactor: 1 }).map((spec) => [spec.topic, spec]),
  )
  const sharded = new Set(shardedTopics(names))
  const channel = (topic: string, about: string, records: ReadonlyArray<string>): JsonObject => {
    const config = specs.get(topic)?.config ?? {}
    return {
      address: topic,
      description: about,
      servers: [{ $ref: '#/servers/kafka' }],
      messages: messagesOf(records),
      bindings: {
        kafka: {
          topicConfiguration: {
            'cleanup.policy': (config['cleanup.policy'] ?? '').split(','),
            'retention.ms': Number(config['retention.ms']),
            'max.message.bytes': Number(config['max.message.bytes']),
          },
          bindingVersion: KAFKA_BINDING,
        },
      },
    }
  }
  return (Object.keys(TOPIC_CONTENT) as ReadonlyArray<keyof TopicNames>).flatMap((name) => {
    const { holds, key, records } = TOPIC_CONTENT[name]
    const topic = names[name]
    const own = [topic, channel(topic, `${holds} Key: ${key}.`, records)] as const
    if (!sharded.has(topic)) return [own]
    const { reason, topic: source, partition, offset } = DEAD_LETTER_HEADERS
    const about =
      `Records of \`${topic}\` that could not be decoded or applied, unchanged. The header \`${reason}\` says why; ` +
      `\`${source}\`, \`${partition}\` and \`${offset}\` say where they were.`
    return [own, [deadLetterTopic(topic), channel(deadLetterTopic(topic), about, records)] as const]
  })
}

const EVENT_BATCH = { $ref: '#/components/schemas/EventBatch' }

/**
 * A schema of OpenAPI 3.1 as one of AsyncAPI, which extends an older JSON Schema. Nothing beside a reference counts
 * there. Its discriminator has no mapping and selects among schemas that inherit; the types of events are constants,
 * so that each event fits one schema without it.
 */
const asAsyncApiSchema = (schema: JsonObject): JsonObject => {
  const target = schema['$ref']
  const beside = Object.fromEntries(
    Object.entries(schema).filter(([name]) => name !== 'discriminator' && name !== '$ref'),
  )
  if (target === undefined) return beside
  return Object.keys(beside).length === 0 ? { $ref: target } : { allOf: [{ $ref: target }], ...beside }
}

/** A header of a webhook, as the API description has it. */
interface Header {
  readonly name: string
  readonly description: string
  readonly example: string
  readonly schema: JsonObject
}

/** The request of a webhook as a message, with an example of each type of event. */
const webhookMessage = (): JsonObject => {
  const webhooks = Object.values(objectAt(description(), 'webhooks'))
  const parameters = objectAt(webhooks[0], 'post')['parameters'] as unknown as ReadonlyArray<Header>
  const properties = parameters.map(({ description: about, example, name, schema }) => [
    name,
    { ...schema, description: about, examples: [example] },
  ])
  const examples = webhooks.flatMap((webhook) =>
    Object.entries(objectAt(webhook, 'post', 'requestBody', 'content', 'application/json', 'examples')).map(
      ([name, example]) => ({ name, payload: objectAt(example)['value'] ?? null }),
    ),
  )
  return {
    name: 'EventBatch',
    title: 'Event batch',
    summary: 'The events of one request, of any types of the subscription.',
    contentType: 'application/json',
    headers: headers(
      parameters.map(({ name }) => name),
      Object.fromEntries(properties) as JsonObject,
    ),
    payload: EVENT_BATCH,
    examples,
  }
}

const WEBHOOKS = 'webhooks'

/** The AsyncAPI document. The same catalogue and schemas always give the same value. */
export const asyncApi = (): JsonObject => {
  const channels = topicChannels()
  const records = [...new Set(channels.flatMap(([, { messages }]) => Object.keys(messages as JsonObject)))]
  const schemas = objectAt(description(), 'components', 'schemas')
  const used = Object.fromEntries(
    [...referredBy(EVENT_BATCH, schemas)].toSorted().map((name) => [name, objectAt(schemas, name)]),
  )
  const operation = (channel: string, messages: ReadonlyArray<string>, more: JsonObject): JsonObject => ({
    action: 'send',
    channel: { $ref: `#/channels/${channel}` },
    messages: messages.map((name) => ({ $ref: `#/channels/${channel}/messages/${name}` })),
    ...more,
  })
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'SMS Delivery Hub: topics and webhooks',
      version: CONTRACT_VERSION,
      description:
        'What the hub sends by itself: records in Kafka topics, and events to the webhook endpoints of clients. Both ' +
        'can be repeated: drop what you have by its id. New record types, event types and fields may come at any time.',
      license: { name: 'Proprietary' },
    },
    defaultContentType: 'application/json',
    servers: {
      kafka: {
        host: 'kafka.example.com:9092',
        protocol: 'kafka',
        description: 'The brokers in `HUB_KAFKA_BROKERS`. The hub serves the schemas, read-only.',
        bindings: {
          kafka: {
            schemaRegistryUrl: 'https://hub.example.com/schema-registry',
            schemaRegistryVendor: 'confluent',
            bindingVersion: KAFKA_BINDING,
          },
        },
      },
      endpoint: {
        host: 'client.example.com',
        protocol: 'https',
        description: 'The address of a subscription.',
      },
    },
    channels: {
      ...Object.fromEntries(channels),
      [WEBHOOKS]: {
        address: null,
        description: 'The path of the address of a subscription.',
        servers: [{ $ref: '#/servers/endpoint' }],
        messages: messagesOf(['EventBatch']),
      },
    },
    operations: {
      ...Object.fromEntries(
        channels.map(([topic, { description: about, messages }]) => [
          topic,
          operation(topic, Object.keys(messages as JsonObject), { summary: about ?? '' }),
        ]),
      ),
      [WEBHOOKS]: operation(WEBHOOKS, ['EventBatch'], {
        summary: 'Posts events to a subscription, until the answer is 2xx or 24 hours are over.',
        bindings: { http: { method: 'POST', bindingVersion: HTTP_BINDING } },
      }),
    },
    components: {
      messages: {
        ...Object.fromEntries(records.map((name) => [name, recordMessage(name)])),
        EventBatch: webhookMessage(),
      },
      schemas: rewriteSchemas(used, asAsyncApiSchema),
    },
  }
}

/** The text of `docs/asyncapi.json`: indented, with a final line feed. */
export const asyncApiText = (): string => `${JSON.stringify(asyncApi(), null, 2)}\n`
