/**
 * What the code of a failed connection says about the settings: a sentence with the cause and the setting to correct.
 * Codes are those of PostgreSQL (SQLSTATE), Redis, kafkajs, and Node.
 */
import { SERVERS, servers } from './catalogue/hub.ts'

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

const { databaseUrl, kafkaMechanism, kafkaPassword, kafkaUsername, redisUrl } = servers

/** Refusals of each server, by their codes. */
const REFUSALS: Readonly<Record<Server, Readonly<Record<string, string>>>> = {
  postgresql: {
    '28P01': `PostgreSQL refuses the user or the password. Correct ${databaseUrl.name}.`,
    '28000': `PostgreSQL does not let this user connect from here. Correct the user in ${databaseUrl.name}, or pg_hba.conf.`,
    '3D000': `PostgreSQL has no database of this name. Create it, or correct ${databaseUrl.name}.`,
    '42501': `PostgreSQL does not give the user a right that the hub needs. Grant it, or correct ${databaseUrl.name}.`,
  },
  redis: {
    WRONGPASS: `Redis refuses the user or the password. Correct ${redisUrl.name}.`,
    NOAUTH: `Redis requires a password. Add it to ${redisUrl.name}.`,
    NOPERM: `Redis does not permit the user a command that the hub needs. Permit it, or correct ${redisUrl.name}.`,
  },
  kafka: {
    KafkaJSSASLAuthenticationError: `Kafka refuses the user or the password. Correct ${kafkaUsername.name} or ${kafkaPassword.name}.`,
    SASL_AUTHENTICATION_FAILED: `Kafka refuses the user or the password. Correct ${kafkaUsername.name} or ${kafkaPassword.name}.`,
    UNSUPPORTED_SASL_MECHANISM: `Kafka does not have this mechanism of authentication. Correct ${kafkaMechanism.name}.`,
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

const faultsOf = (server: Server): ReadonlyMap<string, Fault> => {
  const refusals = { ...REFUSALS[server], ...certificateRefusals(server) }
  const all = { ...refusals, ...unreachable(server) }
  return new Map(
    Object.entries(all).map(([code, sentence]) => [code, { sentence, isRefusal: code in refusals }]),
  )
}

/** By the tags of the errors of connections, which have the code in `detail`. */
const FAULTS: Readonly<Record<string, ReadonlyMap<string, Fault>>> = {
  StorageUnavailable: faultsOf('postgresql'),
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
