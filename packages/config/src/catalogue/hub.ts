/** The settings of every hub: servers, secrets, processes, API and webhooks. */
import * as kind from '../kinds.ts'
import { ALL_APPS, optional, type Reader, required, withDefault, inGroup } from '../setting.ts'

const EVERYONE: ReadonlyArray<Reader> = [...ALL_APPS, 'hubctl']

/** PostgreSQL starts a process for each connection, so a higher value would be a mistake. */
const MAX_CONNECTIONS = 500
/** Kafka allows far more, but then a consumer would mainly manage partitions. */
const MAX_PARTITIONS = 1024
const MAX_REPLICAS = 9
/** The length of the digest in bytes. A shorter secret would be easier to guess than the digest. */
const LEAST_HASH_SECRET = 32
/** A month. A secret that leaked is ended at once, with `expire_previous`. */
const MAX_SECRET_TRANSITION_SECONDS = 31 * 86_400
/** Requests in progress get another 20 s, and the whole shutdown must end within 30 s. */
const MAX_SHUTDOWN_DELAY_MS = 4000

/** A longer wait would only hold spans back, and spans that wait longer are dropped. */
const MAX_EXPORT_MS = 60_000

/** Source: OpenTelemetry specification, SDK environment variables. Those of other systems are refused. */
const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const

/** The servers whose connections need TLS in production. */
export const SERVERS = ['postgresql', 'redis', 'kafka'] as const

export const servers = inGroup('servers', {
  databaseUrl: required(kind.secretUrl('postgres', 'postgresql'), {
    name: 'HUB_DATABASE_URL',
    readBy: [...EVERYONE, 'npm start'],
    doc: "The hub's database. Outside of loopback, `?sslmode=verify-full` makes the connection use TLS and verify the server; `NODE_EXTRA_CA_CERTS` names a file with further authorities. `npm start` uses it if it is set, and starts its own otherwise.",
  }),
  databasePool: withDefault(kind.integer(1, MAX_CONNECTIONS), '10', {
    name: 'HUB_DATABASE_POOL',
    unit: 'connections',
    readBy: EVERYONE,
    doc: 'The most PostgreSQL connections of one process.',
  }),
  redisUrl: required(kind.redisUrl, {
    name: 'HUB_REDIS_URL',
    readBy: ['command-api', 'dispatcher', 'operations-api', 'hubctl', 'npm start'],
    doc: "The Redis for counters: request rates, failed logins, flood windows, the hub's daily limit, the rate at the operator. `rediss` is with TLS. For Sentinels and a cluster, the URL names [several hosts](deploying.md#redis-sentinel-and-redis-cluster). Lost counters are rebuilt from PostgreSQL, and a lost rate is learned again.",
  }),
  redisPrefix: withDefault(kind.form(/^[^{}]*$/u, 'a text without { and }'), 'hub:', {
    name: 'HUB_REDIS_PREFIX',
    readBy: ['command-api', 'dispatcher', 'operations-api', 'hubctl'],
    doc: 'The prefix of every key in Redis, so that several hubs can share a server. Braces would decide which node of a cluster has a key.',
  }),
  kafkaBrokers: required(kind.brokers, {
    name: 'HUB_KAFKA_BROKERS',
    readBy: [...EVERYONE, 'npm start'],
    doc: 'The bootstrap brokers. They name the other brokers.',
  }),
  kafkaTls: withDefault(kind.choice(['off', 'on']), 'off', {
    name: 'HUB_KAFKA_TLS',
    readBy: EVERYONE,
    doc: 'Whether connections to brokers use TLS, which also authenticates them. Set it to `on` if others can read the network.',
  }),
  kafkaCaFile: optional(kind.path('a file with certificates in PEM'), "Node's authorities", {
    name: 'HUB_KAFKA_CA_FILE',
    readBy: EVERYONE,
    doc: 'The authorities that may sign the certificates of the brokers.',
  }),
  kafkaCertFile: optional(kind.path('a PEM file'), 'brokers ask for no certificate', {
    name: 'HUB_KAFKA_CERT_FILE',
    readBy: EVERYONE,
    doc: 'The certificate chain with which the hub authenticates to the brokers. It is read again for each connection, so a renewed certificate needs no restart.',
  }),
  kafkaKeyFile: optional(kind.path('a PEM file'), 'brokers ask for no certificate', {
    name: 'HUB_KAFKA_KEY_FILE',
    readBy: EVERYONE,
    doc: 'The secret key of this certificate.',
  }),
  kafkaUsername: optional(kind.string('a name'), 'brokers ask for none', {
    name: 'HUB_KAFKA_USERNAME',
    readBy: EVERYONE,
    doc: 'The SASL user of the hub. With the mechanism `oauthbearer`: its client id at the token endpoint.',
  }),
  kafkaPassword: optional(kind.secret({ least: 1 }), 'brokers ask for none', {
    name: 'HUB_KAFKA_PASSWORD',
    readBy: EVERYONE,
    doc: 'The password of the SASL user. With the mechanism `oauthbearer`: the client secret.',
  }),
  kafkaMechanism: withDefault(
    kind.choice(['scram-sha-512', 'scram-sha-256', 'plain', 'oauthbearer']),
    'scram-sha-512',
    {
      name: 'HUB_KAFKA_MECHANISM',
      readBy: EVERYONE,
      doc: 'The SASL mechanism. `plain` sends the password and `oauthbearer` an access token unencrypted, so use them with TLS only.',
    },
  ),
  kafkaTokenUrl: optional(kind.url('https', 'http'), 'no access tokens', {
    name: 'HUB_KAFKA_TOKEN_URL',
    readBy: EVERYONE,
    doc: 'The token endpoint of the identity provider, for the mechanism `oauthbearer`. The hub asks for a token by the client credentials grant of OAuth 2.0, with its id and secret in HTTP Basic, and renews it before it ends.',
  }),
  kafkaTokenScopes: optional(kind.string('names, separated by spaces'), 'those of the client', {
    name: 'HUB_KAFKA_TOKEN_SCOPES',
    readBy: EVERYONE,
    doc: 'The scopes that this request asks for.',
  }),
  kafkaTokenParameters: optional(kind.pairs, 'no further parameters', {
    name: 'HUB_KAFKA_TOKEN_PARAMETERS',
    readBy: EVERYONE,
    doc: 'Further parameters of this request, such as `audience=kafka` or `resource=urn%3Akafka`, if the provider needs them. They are no place for a secret.',
  }),
  kafkaExtensions: optional(kind.saslExtensions, 'no extensions', {
    name: 'HUB_KAFKA_EXTENSIONS',
    readBy: EVERYONE,
    doc: 'Pairs for the brokers beside the token, such as `logicalCluster=lkc-1,identityPoolId=pool-1`, if a hosted Kafka needs them.',
  }),
  topicPrefix: withDefault(kind.form(/^[a-zA-Z0-9._-]*$/u, 'letters, digits, and . _ -'), '', {
    name: 'HUB_TOPIC_PREFIX',
    readBy: [...EVERYONE, 'npm start'],
    doc: 'The prefix of every topic and consumer group, so that several hubs can share a cluster. Empty in production.',
  }),
  partitions: withDefault(kind.integer(1, MAX_PARTITIONS), '6', {
    name: 'HUB_PARTITIONS',
    unit: 'partitions',
    readBy: [...EVERYONE, 'npm start'],
    doc: 'The number of partitions of every topic. It must be the same in all processes and can never change, because it determines the shard of each recipient. 48 in production.',
  }),
  replicationFactor: withDefault(kind.integer(1, MAX_REPLICAS), '1', {
    name: 'HUB_REPLICATION_FACTOR',
    unit: 'replicas',
    readBy: EVERYONE,
    doc: 'The replication factor of created topics. Use 3 in production; then 2 replicas must have a record before it is acknowledged.',
  }),
  plaintextServers: withDefault(kind.choices(SERVERS), '', {
    name: 'HUB_PLAINTEXT_SERVERS',
    readBy: EVERYONE,
    doc: 'The servers that production may reach without TLS over a network. Name a server only if nobody else can read or change the traffic to it.',
  }),
  schemaRegistryUrl: optional(kind.url('https', 'http'), 'the one that command-api serves', {
    name: 'HUB_SCHEMA_REGISTRY_URL',
    readBy: ['hubctl', 'npm start'],
    doc: 'A Confluent-compatible schema registry for readers of the topics. It may end with a context, such as `/contexts/.hub`.',
  }),
})

/** A path of a mount or a namespace. It becomes part of a URL or a header as it is. */
const TRANSIT_PATH = /^(?!\.)[a-zA-Z0-9._-]+(?:\/(?!\.)[a-zA-Z0-9._-]+)*$/u

/** Where the master key is. */
export const KEY_PROVIDERS = ['environment', 'transit'] as const

export const secrets = inGroup('secrets', {
  keyProvider: withDefault(kind.choice(KEY_PROVIDERS), 'environment', {
    name: 'HUB_KEY_PROVIDER',
    readBy: [...EVERYONE, 'npm start'],
    doc: 'Where the master key is that encrypts new data: in `HUB_MASTER_KEY` or its file, or in the transit engine of OpenBao or HashiCorp Vault ([operating](operating.md#master-key-in-a-transit-engine)).',
  }),
  masterKey: optional(kind.key, 'required, unless `HUB_KEY_PROVIDER` is `transit`', {
    name: 'HUB_MASTER_KEY',
    readBy: [...EVERYONE, 'npm start'],
    doc: 'The key that encrypts data at rest. It must be the same in every process. Without it, numbers, texts and webhook secrets are lost.',
  }),
  previousMasterKeys: optional(kind.keys, 'no other keys', {
    name: 'HUB_PREVIOUS_MASTER_KEYS',
    readBy: EVERYONE,
    doc: 'Other master keys that can decrypt existing data. During a key change, set it first to the new key and later to the old key.',
  }),
  transitUrl: optional(kind.url('https', 'http'), 'no transit engine', {
    name: 'HUB_TRANSIT_URL',
    readBy: EVERYONE,
    doc: 'The server with the transit engine, such as `https://vault:8200`. With `HUB_KEY_PROVIDER=environment`, its key only decrypts existing data.',
  }),
  transitMount: withDefault(kind.form(TRANSIT_PATH, 'letters, digits, and . _ - /'), 'transit', {
    name: 'HUB_TRANSIT_MOUNT',
    readBy: EVERYONE,
    doc: 'The path at which the transit engine is mounted.',
  }),
  transitKeyName: optional(
    kind.form(/^(?!\.)[a-zA-Z0-9._-]+$/u, 'letters, digits, and . _ -'),
    'no transit engine',
    {
      name: 'HUB_TRANSIT_KEY_NAME',
      readBy: EVERYONE,
      doc: 'The name of the key in the transit engine. Its type must be `aes256-gcm96`, the default, or `chacha20-poly1305`.',
    },
  ),
  transitToken: optional(kind.secret({ least: 1 }), 'no transit engine', {
    name: 'HUB_TRANSIT_TOKEN',
    readBy: EVERYONE,
    doc: 'The token for the transit engine. A process renews it if it is renewable. A file of it is read again for each request.',
  }),
  transitNamespace: optional(kind.form(TRANSIT_PATH, 'letters, digits, and . _ - /'), 'the root namespace', {
    name: 'HUB_TRANSIT_NAMESPACE',
    readBy: EVERYONE,
    doc: 'The namespace of the transit engine.',
  }),
  transitCaFile: optional(kind.path('a file with certificates in PEM'), "Node's authorities", {
    name: 'HUB_TRANSIT_CA_FILE',
    readBy: EVERYONE,
    doc: 'The authorities that may sign the certificate of the server with the transit engine.',
  }),
  numberHashSecret: required(kind.secret({ least: LEAST_HASH_SECRET }), {
    name: 'HUB_NUMBER_HASH_SECRET',
    readBy: ['command-api', 'dispatcher', 'operations-api', 'hubctl', 'npm start'],
    doc: 'The secret of the recipient hash. It can never change, because topics and tables identify recipients by this hash.',
  }),
})

export const processes = inGroup('process', {
  deployment: withDefault(kind.choice(['production', 'development']), 'production', {
    name: 'HUB_DEPLOYMENT',
    readBy: [...EVERYONE, 'npm start'],
    doc: 'The purpose of the hub. In `production`, no process starts with [dangerous settings](#dangerous-settings). `npm start` sets `development`.',
  }),
  adminPort: required(kind.port, {
    name: 'HUB_ADMIN_PORT',
    readBy: ALL_APPS,
    doc: 'The port for `/healthz`, `/readyz` and `/metrics`. Do not expose it publicly.',
  }),
  listenHost: optional(kind.string('an address of this machine'), 'all addresses', {
    name: 'HUB_LISTEN_HOST',
    readBy: ALL_APPS,
    doc: 'The address on which the API and the admin port listen. `npm start` sets `127.0.0.1`.',
  }),
  logLevel: withDefault(kind.logLevel, 'Info', {
    name: 'HUB_LOG_LEVEL',
    readBy: EVERYONE,
    doc: 'The lowest level that is logged.',
  }),
  otlpUrl: optional(kind.url('https', 'http'), 'no traces', {
    name: 'HUB_OTLP_URL',
    readBy: ALL_APPS,
    doc: 'An OTLP/HTTP receiver for traces, such as `http://otel-collector:4318`. It takes precedence over the addresses in `OTEL_` variables.',
  }),
  // One percent of a thousand messages a second shows typical requests.
  traceRatio: withDefault(kind.share, '0.01', {
    name: 'HUB_TRACE_RATIO',
    unit: 'share of requests',
    readBy: ALL_APPS,
    doc: 'The share of requests without a `traceparent` that are traced, unless `OTEL_TRACES_SAMPLER` is set.',
  }),
  // An outcome costs CPU time and bytes for each message, and only some hubs have analysts.
  messageOutcomes: withDefault(kind.choice(['off', 'on']), 'off', {
    name: 'HUB_MESSAGE_OUTCOMES',
    readBy: ['projector', 'npm start'],
    doc: 'Whether the hub writes one record for each message with a final status to the topic `hub.message-outcomes.v1`, for analysts. Set it to the same value for all projectors.',
  }),
  dataDir: optional(kind.path('a folder'), '`.local/<app>`', {
    name: 'HUB_DATA_DIR',
    readBy: ['dispatcher', 'projector', 'webhook-fanout', 'hubctl', 'npm start'],
    doc: 'The folder for the member id of a process. A restarted process uses the id to end its old session. For `npm start` (default `.local`): the folder for all data of a local hub.',
  }),
})

export const openTelemetry = inGroup('telemetry', {
  otelDisabled: withDefault(kind.boolean, 'false', {
    name: 'OTEL_SDK_DISABLED',
    readBy: ALL_APPS,
    doc: 'Whether traces are off, whatever the other settings are.',
  }),
  otelEndpoint: optional(kind.url('https', 'http'), '`HUB_OTLP_URL`', {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    readBy: ALL_APPS,
    doc: 'The base address of an OTLP/HTTP receiver. Spans are sent to `/v1/traces` below it.',
  }),
  otelTracesEndpoint: optional(kind.url('https', 'http'), '`OTEL_EXPORTER_OTLP_ENDPOINT`', {
    name: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    readBy: ALL_APPS,
    doc: 'The complete address for spans, to which nothing is added. It takes precedence over the base address.',
  }),
  otelProtocol: withDefault(kind.choice(['http/json']), 'http/json', {
    name: 'OTEL_EXPORTER_OTLP_PROTOCOL',
    readBy: ALL_APPS,
    doc: 'The form of the spans. Receivers of `http/protobuf` also take JSON, at the same address.',
  }),
  otelHeaders: optional(kind.headers, 'no further headers', {
    name: 'OTEL_EXPORTER_OTLP_HEADERS',
    readBy: ALL_APPS,
    doc: 'HTTP headers of the requests to the receiver, such as `api-key=secret`.',
  }),
  otelTimeoutMs: withDefault(kind.integer(1, MAX_EXPORT_MS), '5000', {
    name: 'OTEL_EXPORTER_OTLP_TIMEOUT',
    unit: 'ms',
    readBy: ALL_APPS,
    doc: 'How long a request waits for the answer of the receiver.',
  }),
  otelServiceName: optional(kind.string('a name'), 'the name of the app', {
    name: 'OTEL_SERVICE_NAME',
    readBy: ALL_APPS,
    doc: 'The resource attribute `service.name`. Set it for each app separately, because it tells the apps apart.',
  }),
  otelResourceAttributes: optional(kind.pairs, 'those of the hub', {
    name: 'OTEL_RESOURCE_ATTRIBUTES',
    readBy: ALL_APPS,
    doc: 'Further resource attributes, such as `deployment.environment.name=production`. They replace those of the hub with the same name, and `OTEL_SERVICE_NAME` replaces their `service.name`.',
  }),
  otelSampler: optional(kind.choice(SAMPLERS), '`parentbased_traceidratio` with `HUB_TRACE_RATIO`', {
    name: 'OTEL_TRACES_SAMPLER',
    readBy: ALL_APPS,
    doc: 'Which requests are traced. The first process of a message decides.',
  }),
  otelSamplerRatio: optional(kind.share, 'all requests', {
    name: 'OTEL_TRACES_SAMPLER_ARG',
    unit: 'share of requests',
    readBy: ALL_APPS,
    doc: 'The share of `traceidratio` and `parentbased_traceidratio`. Other samplers ignore it.',
  }),
})

export const hubctl = inGroup('process', {
  hubctlActor: optional(kind.string('a name'), 'the user of the operating system', {
    name: 'HUBCTL_ACTOR',
    readBy: ['hubctl'],
    doc: 'The name of the hub operator in the audit trail, for jobs and shared machines.',
  }),
  // Whether a second person is needed is a rule of the company that runs the hub.
  erasurePersons: withDefault(kind.integer(1, 2), '1', {
    name: 'HUB_ERASURE_PERSONS',
    unit: 'persons',
    readBy: ['operations-api', 'hubctl'],
    doc: 'How many persons an erasure of a recipient needs. With 2, one requests it, and another one confirms it.',
  }),
  liveKeyPersons: withDefault(kind.integer(1, 2), '1', {
    name: 'HUB_LIVE_KEY_PERSONS',
    unit: 'persons',
    readBy: ['operations-api', 'hubctl'],
    doc: 'How many persons a live key needs. With 2, one requests it, and another one confirms it and gets it.',
  }),
  lookupsPerHour: withDefault(kind.integer(1, 100_000), '100', {
    name: 'HUB_LOOKUPS_PER_HOUR',
    unit: 'look-ups',
    readBy: ['operations-api'],
    doc: 'How many persons one member of hub staff, or one program, may look up in an hour through the operations API: reveal a message, hash or search a phone number, check an opt-out. More are refused.',
  }),
  hubctlAdminUrls: withDefault(kind.words('name=URL, more than one separated by commas'), '', {
    name: 'HUBCTL_ADMIN_URLS',
    readBy: ['hubctl'],
    doc: 'The admin addresses that `hubctl doctor` checks for readiness, such as `dispatcher=http://dispatcher:9090`.',
  }),
})

export const hubctlApi = inGroup('process', {
  hubctlApiUrl: optional(kind.url('https', 'http'), 'direct connections to the servers', {
    name: 'HUBCTL_API_URL',
    readBy: ['hubctl'],
    doc: 'The address of the operations API that `hubctl` uses instead of the servers, like its flag `--api`. No secret of the hub is needed then.',
  }),
  hubctlApiToken: optional(kind.secret({ least: 1 }), 'no access to an operations API', {
    name: 'HUBCTL_API_TOKEN',
    readBy: ['hubctl'],
    doc: 'The access token of the identity provider with which `hubctl --api` signs in.',
  }),
})

export const api = inGroup('api', {
  port: required(kind.port, {
    name: 'HUB_PORT',
    readBy: ['command-api'],
    doc: 'The port of the API.',
  }),
  baseUrl: required(kind.url('https', 'http'), {
    name: 'HUB_BASE_URL',
    readBy: ['command-api', 'hubctl'],
    doc: 'The public address of the API. Responses contain it in links.',
  }),
  trustedProxies: withDefault(kind.proxyNetworks, '', {
    name: 'HUB_TRUSTED_PROXIES',
    readBy: ['command-api'],
    doc: 'The proxies whose `X-Forwarded-For` the API trusts. Without any, the client address is the address of the connection. Name only the addresses of your proxies: whoever connects from one of them chooses the client address. Networks as wide as a private range cause a warning, and wider ones than /8 are refused.',
  }),
  tlsCertFile: optional(kind.path('a PEM file'), 'plain HTTP, behind a proxy that terminates TLS', {
    name: 'HUB_TLS_CERT_FILE',
    readBy: ['command-api'],
    doc: 'The certificate chain for an API that terminates TLS itself. The file is read again when it changes.',
  }),
  tlsKeyFile: optional(kind.path('a PEM file'), 'plain HTTP, behind a proxy that terminates TLS', {
    name: 'HUB_TLS_KEY_FILE',
    readBy: ['command-api'],
    doc: 'The secret key of the certificate.',
  }),
  httpLogShare: withDefault(kind.share, '1', {
    name: 'HUB_HTTP_LOG_SHARE',
    readBy: ['command-api'],
    doc: 'The share of the 2xx responses that the API logs, one line each. Other responses are always logged.',
  }),
  shutdownDelayMs: withDefault(kind.integer(0, MAX_SHUTDOWN_DELAY_MS), '2000', {
    name: 'HUB_SHUTDOWN_DELAY_MS',
    unit: 'ms',
    readBy: ['command-api', 'operations-api'],
    doc: 'After SIGTERM, an API reports that it is not ready but continues to answer for this time, so that a load balancer notices before the listener closes.',
  }),
})

export const webhooks = inGroup('webhooks', {
  webhookAllowedHosts: withDefault(kind.words('host names and addresses, separated by commas'), '', {
    name: 'HUB_WEBHOOK_ALLOWED_HOSTS',
    readBy: ['command-api', 'webhook-fanout', 'hubctl'],
    doc: 'Hosts that webhooks may reach although their addresses are not public. For development and for internal receivers.',
  }),
  webhookDeniedNetworks: withDefault(
    kind.words('addresses and networks such as 192.0.2.0/24, separated by commas'),
    '',
    {
      name: 'HUB_WEBHOOK_DENIED_NETWORKS',
      readBy: ['command-api', 'webhook-fanout', 'hubctl'],
      doc: 'Networks that webhooks never reach, besides those that are not public, such as public addresses of your own. It takes precedence over `HUB_WEBHOOK_ALLOWED_HOSTS`.',
    },
  ),
  webhookProxyUrl: optional(kind.secretUrl('http'), 'direct connections', {
    name: 'HUB_WEBHOOK_PROXY_URL',
    readBy: ['webhook-fanout'],
    doc: 'An HTTP proxy for webhook deliveries, with a user name and password if it needs them. The hub still resolves and checks host names, and asks the proxy for a tunnel (`CONNECT`) to the address.',
  }),
  webhookSecretTransition: withDefault(kind.integer(60, MAX_SECRET_TRANSITION_SECONDS), '86400', {
    name: 'HUB_WEBHOOK_ROTATION_SECONDS',
    unit: 'seconds',
    readBy: ['command-api'],
    doc: 'After a rotation, the replaced webhook secret signs for this time as well. At most three secrets sign at once.',
  }),
  webhookCaFile: optional(kind.path('a PEM file'), 'only the default authorities', {
    name: 'HUB_WEBHOOK_CA_FILE',
    readBy: ['webhook-fanout'],
    doc: 'Additional certificate authorities for webhook deliveries.',
  }),
})

/** Shorter secrets could be guessed. */
const LEAST_LOCAL_SECRET = 32

export const operations = inGroup('operations', {
  operationsPort: required(kind.port, {
    name: 'HUB_OPERATIONS_PORT',
    readBy: ['operations-api'],
    doc: 'The port of the operations API and its console. Do not make it reachable for clients of the hub.',
  }),
  operationsUrl: required(kind.url('https', 'http'), {
    name: 'HUB_OPERATIONS_URL',
    readBy: ['operations-api'],
    doc: 'The address at which hub staff open the console, without a path. The identity provider must know this address with the path `/login/callback` as a redirect address.',
  }),
  oidcIssuer: optional(kind.url('https', 'http'), 'nobody can sign in', {
    name: 'HUB_OIDC_ISSUER',
    readBy: ['operations-api'],
    doc: 'The issuer of the OpenID Connect identity provider of hub staff. Its `/.well-known/openid-configuration` names the other addresses.',
  }),
  oidcClientId: optional(kind.string('a name'), 'nobody can sign in', {
    name: 'HUB_OIDC_CLIENT_ID',
    readBy: ['operations-api'],
    doc: 'The client id of the hub at the identity provider.',
  }),
  oidcClientSecret: optional(kind.secret({ least: 1 }), 'a public client, which proves itself by PKCE', {
    name: 'HUB_OIDC_CLIENT_SECRET',
    readBy: ['operations-api'],
    doc: 'The client secret of the hub at the identity provider.',
  }),
  oidcScopes: withDefault(kind.string('names, separated by spaces'), 'openid profile', {
    name: 'HUB_OIDC_SCOPES',
    readBy: ['operations-api'],
    doc: 'The scopes that a sign-in asks for. The id token must then contain the claims of name and roles.',
  }),
  oidcAudience: optional(kind.string('a name'), 'no bearer tokens', {
    name: 'HUB_OIDC_AUDIENCE',
    readBy: ['operations-api'],
    doc: 'The audience (`aud`) of the access tokens that programs send as bearer tokens. They must be JWTs of the identity provider.',
  }),
  oidcTokenType: withDefault(kind.string('a media type'), 'at+jwt', {
    name: 'HUB_OIDC_TOKEN_TYPE',
    readBy: ['operations-api'],
    doc: 'The `typ` of these access tokens. RFC 9068 requires `at+jwt`, which nothing but an access token has. `JWT` is for a provider that does not follow it.',
  }),
  oidcNameClaim: withDefault(kind.string('the name of a claim'), 'preferred_username', {
    name: 'HUB_OIDC_NAME_CLAIM',
    readBy: ['operations-api'],
    doc: 'The claim with the name of a person in the audit trail. A token of a person without it is refused. A person is recognized by `iss` and `sub`, so the name may change.',
  }),
  oidcRolesClaim: withDefault(kind.string('the name of a claim'), 'groups', {
    name: 'HUB_OIDC_ROLES_CLAIM',
    readBy: ['operations-api'],
    doc: 'The claim with the groups or roles of a person: a text or a list of texts. Dots name a claim inside of another one, such as `realm_access.roles`.',
  }),
  oidcAccountsClaim: optional(kind.string('the name of a claim'), 'only `hubctl members` names accounts', {
    name: 'HUB_OIDC_ACCOUNTS_CLAIM',
    readBy: ['operations-api'],
    doc: 'The claim with the accounts of a person with the role `member`: an id (`acc_…`) or a list of ids. Dots name a claim inside of another one.',
  }),
  oidcRoles: optional(kind.json('a JSON object'), 'nobody has a role', {
    name: 'HUB_OIDC_ROLES',
    readBy: ['operations-api'],
    doc: 'The roles by value of that claim, such as `{"sms-support": ["support"], "sms-admins": ["admin"]}`. The roles are `member`, `viewer`, `support`, `moderator`, `operator` and `admin`. A person without a role cannot sign in.',
  }),
  consoleDir: optional(kind.path('a folder'), '`apps/console/dist`', {
    name: 'HUB_CONSOLE_DIR',
    readBy: ['operations-api'],
    doc: 'The folder with the built files of the console.',
  }),
  traceUrl: optional(kind.urlTemplate('{trace_id}', 'https', 'http'), 'no link', {
    name: 'HUB_TRACE_URL',
    readBy: ['operations-api', 'hubctl'],
    doc: 'The address of a trace in the tracing backend, such as `https://tempo.example/trace/{trace_id}`. The timeline of a message links to it, if the request of the message was sampled.',
  }),
  localLoginSecret: optional(kind.secret({ least: LEAST_LOCAL_SECRET }), 'no login links', {
    name: 'HUB_OPERATIONS_LOCAL_SECRET',
    readBy: ['operations-api'],
    doc: 'The secret of one-time login links, which work on the loopback interface only. `npm start` sets it. Production refuses it.',
  }),
})
