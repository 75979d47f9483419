/** What every hub has: its servers, its secrets, its processes, its API, its webhooks. */
import * as kind from '../kinds.ts'
import { APPS, optional, type Reader, required, withDefault } from '../setting.ts'

const EVERYONE: ReadonlyArray<Reader> = [...APPS, 'hubctl']

/** More would be a mistake: PostgreSQL starts a process for each. */
const MOST_CONNECTIONS = 500
/** Kafka's own limit lies far above; a consumer of more would spend its time on bookkeeping. */
const MOST_PARTITIONS = 1024
const MOST_REPLICAS = 9
/** A secret shorter than its digest would be the easier of the two to guess. */
const LEAST_HASH_SECRET = 32
/**
 * What is in flight behind it gets 4 s, and all of it must fit into the 10 s that a process has.
 */
const MOST_SHUTDOWN_DELAY_MS = 4000

export const servers = {
  databaseUrl: required(kind.secretUrl('postgres', 'postgresql'), {
    name: 'HUB_DATABASE_URL',
    group: 'servers',
    readBy: [...EVERYONE, 'npm start'],
    doc: "The hub's database. `npm start` uses this one where it is set, and starts its own otherwise.",
  }),
  databasePool: withDefault(kind.integer(1, MOST_CONNECTIONS), '10', {
    name: 'HUB_DATABASE_POOL',
    unit: 'connections',
    group: 'servers',
    readBy: EVERYONE,
    doc: 'The most connections to PostgreSQL that one process opens.',
  }),
  redisUrl: required(kind.secretUrl('redis', 'rediss'), {
    name: 'HUB_REDIS_URL',
    group: 'servers',
    readBy: ['command-api', 'hubctl', 'npm start'],
    doc: "Counters: request rates, failed logins, flood windows, the hub's day. What it loses is rebuilt from PostgreSQL.",
  }),
  redisPrefix: withDefault(kind.string(), 'hub:', {
    name: 'HUB_REDIS_PREFIX',
    group: 'servers',
    readBy: ['command-api', 'hubctl'],
    doc: 'What every key in Redis begins with, so that several hubs can share a server.',
  }),
  kafkaBrokers: required(kind.brokers, {
    name: 'HUB_KAFKA_BROKERS',
    group: 'servers',
    readBy: [...EVERYONE, 'npm start'],
    doc: 'Brokers to ask first; they name the others.',
  }),
  kafkaTls: withDefault(kind.choice(['off', 'on']), 'off', {
    name: 'HUB_KAFKA_TLS',
    group: 'servers',
    readBy: EVERYONE,
    doc: "Whether brokers are spoken to over TLS, which proves who they are. On wherever the network between is not the hub's own.",
  }),
  kafkaCaFile: optional(kind.path('a file with certificates in PEM'), "Node's authorities", {
    name: 'HUB_KAFKA_CA_FILE',
    group: 'servers',
    readBy: EVERYONE,
    doc: 'Authorities that the certificates of the brokers must come from.',
  }),
  kafkaUsername: optional(kind.string('a name'), 'brokers ask for none', {
    name: 'HUB_KAFKA_USERNAME',
    group: 'servers',
    readBy: EVERYONE,
    doc: 'Who the hub is to the brokers (SASL).',
  }),
  kafkaPassword: optional(kind.secret({ least: 1 }), 'brokers ask for none', {
    name: 'HUB_KAFKA_PASSWORD',
    group: 'servers',
    readBy: EVERYONE,
    doc: 'The password of that user.',
  }),
  kafkaMechanism: withDefault(kind.choice(['scram-sha-512', 'scram-sha-256', 'plain']), 'scram-sha-512', {
    name: 'HUB_KAFKA_MECHANISM',
    group: 'servers',
    readBy: EVERYONE,
    doc: 'How the password is proven. `plain` sends it as it is: with TLS only.',
  }),
  topicPrefix: withDefault(kind.form(/^[a-zA-Z0-9._-]*$/u, 'letters, digits, and . _ -'), '', {
    name: 'HUB_TOPIC_PREFIX',
    group: 'servers',
    readBy: [...EVERYONE, 'npm start'],
    doc: 'What every topic and consumer group begins with, so that several hubs can share a cluster. Empty in production.',
  }),
  partitions: withDefault(kind.integer(1, MOST_PARTITIONS), '6', {
    name: 'HUB_PARTITIONS',
    unit: 'partitions',
    group: 'servers',
    readBy: [...EVERYONE, 'npm start'],
    doc: 'Partitions of every topic: the same everywhere and for good, since it decides which recipient belongs to which shard. 48 in production.',
  }),
  replicationFactor: withDefault(kind.integer(1, MOST_REPLICAS), '1', {
    name: 'HUB_REPLICATION_FACTOR',
    unit: 'replicas',
    group: 'servers',
    readBy: EVERYONE,
    doc: 'Copies of every topic that is created. 3 in production, where then 2 must have a record before it counts.',
  }),
  schemaRegistryUrl: optional(kind.url('https', 'http'), 'the one that command-api serves', {
    name: 'HUB_SCHEMA_REGISTRY_URL',
    group: 'servers',
    readBy: ['npm start'],
    doc: 'A Confluent-compatible schema registry for those who read the topics.',
  }),
}

export const secrets = {
  masterKey: required(kind.key, {
    name: 'HUB_MASTER_KEY',
    group: 'secrets',
    readBy: [...EVERYONE, 'npm start'],
    doc: 'What everything at rest is encrypted under. The same in every process; without it numbers, texts and webhook secrets are lost.',
  }),
  previousMasterKeys: optional(kind.keys, 'there are none', {
    name: 'HUB_PREVIOUS_MASTER_KEYS',
    group: 'secrets',
    readBy: EVERYONE,
    doc: 'Other master keys, which open what is encrypted under them: while the key is changed, first the next one, then the one of before.',
  }),
  numberHashSecret: required(kind.secret({ least: LEAST_HASH_SECRET }), {
    name: 'HUB_NUMBER_HASH_SECRET',
    group: 'secrets',
    readBy: ['command-api', 'dispatcher', 'hubctl', 'npm start'],
    doc: "What recipients' numbers are hashed with. It can never change: topics and tables know recipients by this hash.",
  }),
}

export const processes = {
  adminPort: required(kind.port, {
    name: 'HUB_ADMIN_PORT',
    group: 'process',
    readBy: APPS,
    doc: 'Where a process answers `/healthz`, `/readyz` and `/metrics`. For the inside only.',
  }),
  logLevel: withDefault(kind.logLevel, 'Info', {
    name: 'HUB_LOG_LEVEL',
    group: 'process',
    readBy: EVERYONE,
    doc: 'What is less important is not logged.',
  }),
  otlpUrl: optional(kind.url('https', 'http'), 'no traces', {
    name: 'HUB_OTLP_URL',
    group: 'process',
    readBy: APPS,
    doc: 'An OTLP/HTTP receiver for traces, such as `http://otel-collector:4318`.',
  }),
  // One in a hundred is some ten traces a second at a thousand messages a second: enough to see
  // what is usual.
  traceRatio: withDefault(kind.share, '0.01', {
    name: 'HUB_TRACE_RATIO',
    unit: 'share of requests',
    group: 'process',
    readBy: APPS,
    doc: 'How many of the requests that come without a `traceparent` are traced.',
  }),
  dataDir: optional(kind.path('a folder'), '`.local/<app>`', {
    name: 'HUB_DATA_DIR',
    group: 'process',
    readBy: ['dispatcher', 'projector', 'webhook-fanout', 'hubctl', 'npm start'],
    doc: 'Where a process keeps its member id, by which a restarted one ends its own old session. For `npm start` (`.local` by default): where everything of a local hub lies.',
  }),
}

export const hubctl = {
  hubctlActor: optional(kind.string('a name'), 'the user of the operating system', {
    name: 'HUBCTL_ACTOR',
    group: 'process',
    readBy: ['hubctl'],
    doc: 'Who is at work, for the audit trail: for jobs and shared machines.',
  }),
  hubctlAdminUrls: withDefault(kind.words('name=URL, more than one separated by commas'), '', {
    name: 'HUBCTL_ADMIN_URLS',
    group: 'process',
    readBy: ['hubctl'],
    doc: 'Where `hubctl doctor` asks processes whether they are ready, such as `dispatcher=http://dispatcher:9090`.',
  }),
}

export const api = {
  port: required(kind.port, {
    name: 'HUB_PORT',
    group: 'api',
    readBy: ['command-api'],
    doc: 'Where the API is served.',
  }),
  baseUrl: required(kind.url('https', 'http'), {
    name: 'HUB_BASE_URL',
    group: 'api',
    readBy: ['command-api', 'hubctl'],
    doc: "The API's address as its clients see it; it is in the links of answers.",
  }),
  trustedProxies: withDefault(
    kind.words('addresses and networks such as 10.0.0.0/8, separated by commas'),
    '',
    {
      name: 'HUB_TRUSTED_PROXIES',
      group: 'api',
      readBy: ['command-api'],
      doc: 'Proxies whose `X-Forwarded-For` is believed. Without any, the client is whoever opened the connection.',
    },
  ),
  tlsCertFile: optional(kind.path('a PEM file'), 'plain HTTP, behind a proxy that ends TLS', {
    name: 'HUB_TLS_CERT_FILE',
    group: 'api',
    readBy: ['command-api'],
    doc: 'The certificate, and those above it, for an API that ends TLS itself. It is read again when it changes.',
  }),
  tlsKeyFile: optional(kind.path('a PEM file'), 'plain HTTP, behind a proxy that ends TLS', {
    name: 'HUB_TLS_KEY_FILE',
    group: 'api',
    readBy: ['command-api'],
    doc: 'The key of that certificate.',
  }),
  shutdownDelayMs: withDefault(kind.integer(0, MOST_SHUTDOWN_DELAY_MS), '2000', {
    name: 'HUB_SHUTDOWN_DELAY_MS',
    unit: 'ms',
    group: 'api',
    readBy: ['command-api'],
    doc: 'For so long a process that was told to end says that it is not ready and goes on answering, so that a load balancer has asked before the listener closes.',
  }),
}

export const webhooks = {
  webhookAllowedHosts: withDefault(kind.words('host names and addresses, separated by commas'), '', {
    name: 'HUB_WEBHOOK_ALLOWED_HOSTS',
    group: 'webhooks',
    readBy: ['command-api', 'webhook-fanout', 'hubctl'],
    doc: 'Hosts that webhooks may reach although they are not public. For development and for receivers in the same house.',
  }),
  webhookCaFile: optional(kind.path('a PEM file'), 'the usual authorities alone', {
    name: 'HUB_WEBHOOK_CA_FILE',
    group: 'webhooks',
    readBy: ['webhook-fanout'],
    doc: 'Certificates to trust beside the usual ones when a webhook is delivered.',
  }),
}
