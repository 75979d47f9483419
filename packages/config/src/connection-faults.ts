/**
 * What the code of a failed connection says about the settings: a sentence with the cause and the setting to correct.
 * Codes are those of PostgreSQL (SQLSTATE), Redis, kafkajs, and Node.
 */
import { secrets, SERVERS, servers } from './catalogue/hub.ts'

type Server = (typeof SERVERS)[number]

const NAMES: Readonly<Record<Server, string>> = { postgresql: 'PostgreSQL', redis: 'Redis', kafka: 'Kafka' }
const ADDRESSES: Readonly<Record<Server, string>> = {
  postgresql: servers.databaseUrl.name,
  redis: servers.redisUrl.name,
  kafka: servers.kafkaBrokers.name,
}

interface Fault {
  readonly sentence: string
  /**
   * Whether the server has answered, and refuses these settings. Otherwise it may only be away, and the same
   * settings may be right later.
   */
  readonly isRefusal: boolean
}

const {
  databaseUrl,
  kafkaCertFile,
  kafkaMechanism,
  kafkaPassword,
  kafkaTokenParameters,
  kafkaTokenScopes,
  kafkaTokenUrl,
  kafkaUsername,
  redisUrl,
} = servers

/** The alerts of TLS with which a server refuses the certificate of a client. Source: RFC 8446, 6.2; codes of OpenSSL. */
const CLIENT_CERTIFICATE_ALERTS = [
  'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
  'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
  'ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE',
  'ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_EXPIRED',
  'ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_UNKNOWN',
  'ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE',
  'ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE',
  'ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED',
  'ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN',
  'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE',
]

/** Refusals of each server, by their codes. */
const REFUSALS: Readonly<Record<Server, Readonly<Record<string, string>>>> = {
  postgresql: {
    '28P01': `PostgreSQL refuses the user or the password. Correct ${databaseUrl.name}.`,
    '28000': `PostgreSQL does not let this user connect from here. Correct the user in ${databaseUrl.name}, or pg_hba.conf.`,
    '3D000': `PostgreSQL has no database of this name. Create it, or correct ${databaseUrl.name}.`,
    // Protocol violation: PgBouncer answers it to the parameters with which the hub begins a session.
    '08P01': `A pooler such as PgBouncer refuses the settings of the session. Correct ${databaseUrl.name}: it must name PostgreSQL itself.`,
    '42501': `PostgreSQL does not give the user a right that the hub needs. Grant it, or correct ${databaseUrl.name}.`,
  },
  redis: {
    CLUSTER: `Redis is a node of a Redis Cluster. Begin ${redisUrl.name} with redis+cluster:// or rediss+cluster://.`,
    NO_CLUSTER: `Redis is no node of a Redis Cluster. Begin ${redisUrl.name} with redis:// or rediss://.`,
    SENTINEL: `This server is a Redis Sentinel. Begin ${redisUrl.name} with redis+sentinel:// or rediss+sentinel://, and end it with the name of the primary.`,
    NO_SENTINEL: `A server of ${redisUrl.name} is no Redis Sentinel. Correct its hosts and ports: a Sentinel usually has the port 26379.`,
    SENTINEL_NAME: `The Sentinels do not know a primary of this name. Correct the name at the end of ${redisUrl.name}.`,
    SENTINEL_WRONGPASS: `The Sentinels refuse the user or the password. Correct sentinel_username or sentinel_password in ${redisUrl.name}.`,
    SENTINEL_NOAUTH: `The Sentinels require a password. Add sentinel_password to ${redisUrl.name}.`,
    SENTINEL_NOPERM: `The Sentinels do not permit the user to ask for the primary. Permit it, or correct ${redisUrl.name}.`,
    WRONGPASS: `Redis refuses the user or the password. Correct ${redisUrl.name}.`,
    NOAUTH: `Redis requires a password. Add it to ${redisUrl.name}.`,
    NOPERM: `Redis does not permit the user a command that the hub needs. Permit it, or correct ${redisUrl.name}.`,
  },
  kafka: {
    ...Object.fromEntries(
      CLIENT_CERTIFICATE_ALERTS.map((code) => [
        code,
        `Kafka requires a certificate of the hub, or refuses the one in ${kafkaCertFile.name}. Correct this setting.`,
      ]),
    ),
    KafkaJSSASLAuthenticationError: `Kafka refuses the user or the password. Correct ${kafkaUsername.name} or ${kafkaPassword.name}.`,
    SASL_AUTHENTICATION_FAILED: `Kafka refuses the user or the password. Correct ${kafkaUsername.name} or ${kafkaPassword.name}.`,
    UNSUPPORTED_SASL_MECHANISM: `Kafka does not have this mechanism of authentication. Correct ${kafkaMechanism.name}.`,
    TokenRefused: `The token endpoint refuses the client. Correct ${kafkaUsername.name}, ${kafkaPassword.name}, ${kafkaTokenScopes.name} or ${kafkaTokenParameters.name}.`,
    TokenRejected: `Kafka refuses the access token. Correct ${kafkaTokenUrl.name}, ${kafkaTokenScopes.name} or ${kafkaTokenParameters.name}, or what the brokers expect.`,
    TOPIC_AUTHORIZATION_FAILED: `Kafka does not permit the user a topic. Permit it, or correct ${kafkaUsername.name}.`,
    GROUP_AUTHORIZATION_FAILED: `Kafka does not permit the user a consumer group. Permit it, or correct ${kafkaUsername.name}.`,
    CLUSTER_AUTHORIZATION_FAILED: `Kafka does not permit the user this request. Permit it, or correct ${kafkaUsername.name}.`,
  },
}

/** The codes of OpenSSL for a certificate that no known authority has signed. */
const UNTRUSTED = [
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]

/** Refusals of all servers, by the codes of Node. */
const certificateRefusals = (server: Server): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(
    UNTRUSTED.map((code) => [
      code,
      `No known authority has signed the certificate of ${NAMES[server]}. Add the authority to the file of NODE_EXTRA_CA_CERTS.`,
    ]),
  ),
  ERR_TLS_CERT_ALTNAME_INVALID: `The certificate of ${NAMES[server]} is for another host. Correct ${ADDRESSES[server]}, or the certificate.`,
  CERT_HAS_EXPIRED: `The certificate of ${NAMES[server]} has expired. Renew it.`,
})

const unreachable = (server: Server): Readonly<Record<string, string>> => ({
  ENOTFOUND: `The host of ${NAMES[server]} has no address. Correct ${ADDRESSES[server]}, or the name service.`,
  ECONNREFUSED: `${NAMES[server]} does not accept connections. Start it, or correct ${ADDRESSES[server]}.`,
})

/** Of a server beside the three, and of one that may serve later. */
const OTHERS: Readonly<Partial<Record<Server, Readonly<Record<string, string>>>>> = {
  redis: {
    SENTINELS_AWAY: `No Sentinel answers. Start them, or correct the hosts in ${redisUrl.name}.`,
    READONLY: `Redis is a replica, and refuses writes. If no failover is in progress, correct ${redisUrl.name}: it needs the primary.`,
  },
  kafka: {
    TokenUnavailable: `The token endpoint gives no access token for Kafka. Correct ${kafkaTokenUrl.name}, or add the authority of its certificate to the file of NODE_EXTRA_CA_CERTS.`,
  },
}

const faultsOf = (server: Server): ReadonlyMap<string, Fault> => {
  const refusals = { ...REFUSALS[server], ...certificateRefusals(server) }
  const all = { ...refusals, ...unreachable(server), ...OTHERS[server] }
  return new Map(
    Object.entries(all).map(([code, sentence]) => [code, { sentence, isRefusal: code in refusals }]),
  )
}

const { transitCaFile, transitKeyName, transitMount, transitToken, transitUrl } = secrets

/** Of the transit engine, by the codes of `key-providers/transit-client.ts` in `@hub/store`. */
const TRANSIT: ReadonlyArray<readonly [code: string, fault: Fault]> = [
  [
    'TRANSIT_UNREACHABLE',
    {
      sentence: `The server of the transit engine does not answer. Start it, or correct ${transitUrl.name}.`,
      isRefusal: false,
    },
  ],
  [
    'TRANSIT_SEALED',
    { sentence: 'The server of the transit engine is sealed or starts. Unseal it.', isRefusal: false },
  ],
  [
    'TRANSIT_UNTRUSTED',
    {
      sentence: `The certificate of the server of the transit engine cannot be verified. Correct ${transitUrl.name} or ${transitCaFile.name}.`,
      isRefusal: true,
    },
  ],
  [
    'TRANSIT_DENIED',
    {
      sentence: `The transit engine refuses the token, or does not have the key. Correct ${transitToken.name}, ${transitMount.name} or ${transitKeyName.name}, or permit the key in the policy.`,
      isRefusal: true,
    },
  ],
  [
    'TRANSIT_NOT_FOUND',
    {
      sentence: `The server has no transit engine at this path. Correct ${transitMount.name}, or enable the engine.`,
      isRefusal: true,
    },
  ],
  [
    'TRANSIT_REJECTED',
    {
      sentence: `The transit engine cannot encrypt with this key. Correct ${transitKeyName.name}, or the type of the key.`,
      isRefusal: true,
    },
  ],
]

/** By the tags of the errors of connections, which have the code in `detail`. */
const FAULTS: Readonly<Record<string, ReadonlyMap<string, Fault>>> = {
  StorageUnavailable: new Map([...faultsOf('postgresql'), ...TRANSIT]),
  CountersUnavailable: faultsOf('redis'),
  RedisUnusable: faultsOf('redis'),
  KafkaUnavailable: faultsOf('kafka'),
  KafkaRequestRejected: faultsOf('kafka'),
}

/** The fault of a failed connection. `null`: another error, or an unknown code. */
export const connectionFault = (error: {
  readonly _tag: string
  readonly detail?: unknown
}): Fault | null => {
  const { _tag: tag, detail } = error
  if (typeof detail !== 'string') return null
  // kafkajs has the name of the error before the code.
  const found = detail.split(' ').flatMap((code) => FAULTS[tag]?.get(code) ?? [])
  return found[0] ?? null
}
