/**
 * Generates the reference of topics and records in docs/analytics.md from the schemas.
 * `scripts/analytics.ts` writes it, and a unit test fails when the page differs.
 */
import { type AvroSchema, FACT_NAMES, type RecordName, SCHEMAS } from './schemas.ts'
import { THIRTEEN_MONTHS_DAYS, topicCatalogue, type TopicNames, topicNames } from '../topics/catalogue.ts'

/** The record types and the key of each topic. The first topic with a record type describes it. */
export const TOPIC_CONTENT: Readonly<
  Record<
    keyof TopicNames,
    { readonly holds: string; readonly key: string; readonly records: ReadonlyArray<RecordName> }
  >
> = {
  acceptedOtp: {
    holds: 'The lane of class `otp`: accepted messages to submit.',
    key: 'recipient hash',
    records: ['MessageAccepted'],
  },
  acceptedService: {
    holds: 'The lane of class `service`.',
    key: 'recipient hash',
    records: ['MessageAccepted'],
  },
  messages: {
    holds: 'The log: the facts of each message.',
    key: 'recipient hash; for `BatchSealed` the batch; for `ShardOpened` and `OpenMessagesCarried` the shard',
    records: [
      ...FACT_NAMES.filter((name) => name !== 'MessageAccepted'),
      'OpenMessagesCarried',
      'ShardOpened',
      'BatchSealed',
    ],
  },
  operatorReports: {
    holds: 'Delivery reports, inbound messages and answers to submits, as the operators sent them.',
    key: 'recipient hash',
    records: ['DeliveryReportReceived', 'InboundMessageReceived', 'OperatorAnswerReceived'],
  },
  webhooks: {
    holds:
      'Events for webhooks, and changes of webhook subscriptions. It contains the events of accounts with ' +
      'a subscription in their mode, and no others; all events are in the event journal.',
    key: 'account and mode, such as `acc_…:live`',
    records: ['EventRecorded', 'SubscriptionChanged'],
  },
  otpKeys: {
    holds:
      'The payload keys of class `otp`, encrypted with the master key. Do not copy this topic. One partition.',
    key: 'id of the payload key',
    records: ['SealingKeyCreated'],
  },
  serviceKeys: {
    holds: 'The payload keys of class `service`, in the same form. Do not copy this topic. One partition.',
    key: 'id of the payload key',
    records: ['SealingKeyCreated'],
  },
  erasures: {
    holds:
      'Erasures that were requested. Kafka keeps the last one of each recipient (compaction). One partition.',
    key: 'recipient hash',
    records: ['RecipientErased'],
  },
  database: {
    holds:
      'The database that the hub uses, so that a process with another one does not start. Kafka keeps the last ' +
      'record (compaction). One partition.',
    key: '`database`',
    records: ['DatabaseAccepted'],
  },
  outcomes: {
    holds:
      'One flat record for each message with a final status, for analysts. Kafka keeps the last one of each ' +
      'message (compaction). It is empty without `HUB_MESSAGE_OUTCOMES=on`.',
    key: 'id of the message',
    records: ['MessageOutcome'],
  },
}

const HOUR_MS = 60 * 60 * 1000

/** Days, or hours where the retention is shorter than three days. */
const retentionText = (ms: number): string => {
  if (ms < 0) return 'for ever'
  if (ms === THIRTEEN_MONTHS_DAYS * 24 * HOUR_MS) return `13 months (${THIRTEEN_MONTHS_DAYS} days)`
  const hours = ms / HOUR_MS
  return hours < 72 ? `${hours} ${hours === 1 ? 'hour' : 'hours'}` : `${hours / 24} days`
}

type Part = Exclude<AvroSchema, string | ReadonlyArray<AvroSchema>>
const isPart = (schema: unknown): schema is Part =>
  typeof schema === 'object' && schema !== null && !Array.isArray(schema)

const typeOf = (schema: unknown): string => {
  if (typeof schema === 'string') return schema
  if (Array.isArray(schema)) {
    return schema
      .toSorted((a, b) => Number(a === 'null') - Number(b === 'null'))
      .map(typeOf)
      .join(' or ')
  }
  if (!isPart(schema)) throw new TypeError(`This is not an Avro schema: ${JSON.stringify(schema)}`)
  if (schema['type'] === 'enum') {
    return `one of ${(schema['symbols'] as ReadonlyArray<string>).map((symbol) => `\`${symbol}\``).join(', ')}`
  }
  if (schema['type'] === 'array') return `list of ${typeOf(schema['items'])}`
  return String(schema['logicalType'] ?? schema['type'])
}

interface Field {
  readonly name: string
  readonly type: unknown
  readonly doc: string
}

/** The fields. Fields of a nested record follow a dot; `[]` marks a list. */
const fieldsOf = (schema: unknown, within = ''): ReadonlyArray<Field> =>
  ((schema as Part)['fields'] as ReadonlyArray<Field>).flatMap(({ doc, name, type }) =>
    isPart(type) && type['type'] === 'record'
      ? fieldsOf(type, `${within}${name}.`)
      : isPart(type) && type['type'] === 'array' && isPart(type['items'])
        ? fieldsOf(type['items'], `${within}${name}[].`)
        : [{ name: within + name, type, doc }],
  )

const recordReference = (name: RecordName): string => {
  const versions = SCHEMAS.filter((schema) => schema.name === name)
  const latest = versions.at(-1)
  if (latest === undefined) throw new Error(`The record ${name} has no schema in packages/kafka/schemas.`)
  const since = new Map<string, number>()
  for (const { schema, version } of versions) {
    for (const field of fieldsOf(schema)) if (!since.has(field.name)) since.set(field.name, version)
  }
  const ids = versions.map(({ id, version }) => `${id} (version ${version})`).join(', ')
  const rows = fieldsOf(latest.schema).map(({ doc, name: field, type }) => {
    const version = since.get(field) ?? 1
    return `| \`${field}\` | ${typeOf(type)} | ${doc}${version > 1 ? ` Since version ${version}.` : ''} |`
  })
  return [
    `### ${name}`,
    `${String((latest.schema as Part)['doc'])} Schema ids: ${ids}.`,
    ['| field | type | meaning |', '| --- | --- | --- |', ...rows].join('\n'),
  ].join('\n\n')
}

/** Markdown: one section for each topic, with its records. */
export const analyticsReference = (): string => {
  const names = topicNames()
  const retentions = new Map(
    topicCatalogue({ prefix: '', partitions: 1, replicationFactor: 1 }).map(({ config, topic }) => [
      topic,
      retentionText(Number(config['retention.ms'])),
    ]),
  )
  const described = new Set<RecordName>()
  return (Object.keys(TOPIC_CONTENT) as ReadonlyArray<keyof TopicNames>)
    .flatMap((topic) => {
      const { holds, key, records } = TOPIC_CONTENT[topic]
      const fresh = records.filter((record) => !described.has(record))
      for (const record of fresh) described.add(record)
      const links = records.map((record) => `[${record}](#${record.toLowerCase()})`).join(', ')
      return [
        `## ${names[topic]}`,
        `${holds} Key: ${key}. Retention: ${retentions.get(names[topic])}. Records: ${links}.`,
        ...fresh.map(recordReference),
      ]
    })
    .join('\n\n')
}

/** The text after this line is generated. */
export const REFERENCE_BEGINS = '<!-- Generated from here on by packages/kafka/scripts/analytics.ts. -->'

/** The page with its current reference. */
export const withReference = (page: string): string => {
  const at = page.indexOf(REFERENCE_BEGINS)
  if (at === -1) throw new Error(`The page has no place for the reference: add the line ${REFERENCE_BEGINS}`)
  return `${page.slice(0, at)}${REFERENCE_BEGINS}\n\n${analyticsReference()}\n`
}
