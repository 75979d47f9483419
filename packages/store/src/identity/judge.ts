/**
 * Compares the secrets and servers of a process with those of its hub: pure, so that every order of a
 * rotation can be tested.
 */
import { TRANSIT_CHECK_VALUE } from '../key-providers/key-provider.port.ts'

/** The Kafka cluster of a hub, and its topics. */
export interface KafkaIdentity {
  readonly cluster: string
  /** Of the names of the topics. */
  readonly prefix: string
  /** Of each topic; `null` if it is not known, because there are no topics yet. */
  readonly partitions: number | null
}

/** A Kafka cluster, as a process finds it. */
export interface ConnectedKafka extends KafkaIdentity {
  /** The database of its hub; `null` if it does not know one. */
  readonly database: string | null
}

/** A process. `null`: it does not have the value, or does not know it now. */
export interface OwnIdentity {
  /** Check values. The first one is that of `HUB_MASTER_KEY`, the others of `HUB_PREVIOUS_MASTER_KEYS`. */
  readonly masterKeys: ReadonlyArray<string> | null
  readonly numberHashSecret: string | null
  /** `HUB_PARTITIONS`. `null`: the process selects no partitions. */
  readonly partitions: number | null
  readonly kafka: ConnectedKafka | null
}

/** What the database of the hub knows. */
export interface KnownIdentity {
  /** The check values of its master keys. True: data may be encrypted with the key. */
  readonly masterKeys: ReadonlyMap<string, boolean>
  readonly numberHashSecret: string | null
  readonly kafka: KafkaIdentity | null
  /** The database itself: PostgreSQL's system identifier and object id; `null` if the role may not read it. */
  readonly database: string | null
  /** The other processes that run now. */
  readonly processes: ReadonlyArray<{ readonly app: string; readonly masterKeys: ReadonlyArray<string> }>
}

/** A setting that differs, and a sentence that says what to do. */
export interface Mismatch {
  readonly variable: string
  readonly sentence: string
}

const OTHER_TRANSIT_KEY =
  'HUB_KEY_PROVIDER is transit, and HUB_TRANSIT_KEY_NAME is not a master key of this hub, or HUB_TRANSIT_URL leads to another server. Correct them. To change to a transit engine, first set them in every process with HUB_KEY_PROVIDER=environment (docs/operating.md, Master key in a transit engine).'
const MISSING_TRANSIT_KEY =
  'HUB_TRANSIT_URL and HUB_TRANSIT_KEY_NAME do not lead to the transit key that encrypts data of this hub. Set them to those of the other processes; remove them only after command-api logs that they can be removed (docs/operating.md, Master key in a transit engine).'

const masterKeyMismatch = (
  own: ReadonlyArray<string>,
  { masterKeys, processes }: KnownIdentity,
): Mismatch | null => {
  const [current = ''] = own
  const isTransit = current.startsWith(TRANSIT_CHECK_VALUE)
  if (masterKeys.size === 0) return null
  if (!masterKeys.has(current)) {
    if (isTransit) return { variable: 'HUB_TRANSIT_KEY_NAME', sentence: OTHER_TRANSIT_KEY }
    return {
      variable: 'HUB_MASTER_KEY',
      sentence:
        'HUB_MASTER_KEY is not a master key of this hub. Set it to that of the other processes. To change it, first add the new key to HUB_PREVIOUS_MASTER_KEYS of every process (docs/operating.md, Changing secrets).',
    }
  }
  const missing = [...masterKeys].flatMap(([key, inUse]) => (inUse && !own.includes(key) ? [key] : []))
  if (missing.length > 0 && missing.every((key) => key.startsWith(TRANSIT_CHECK_VALUE))) {
    return { variable: 'HUB_TRANSIT_URL', sentence: MISSING_TRANSIT_KEY }
  }
  if (missing.length > 0) {
    return {
      variable: 'HUB_PREVIOUS_MASTER_KEYS',
      sentence:
        'HUB_PREVIOUS_MASTER_KEYS lacks a master key that encrypts data of this hub. Add the key that other processes use or used; remove an old key only after command-api logs that it can be removed (docs/operating.md, Changing secrets).',
    }
  }
  if (masterKeys.get(current) === true) return null
  const behind = processes.filter((other) => !other.masterKeys.includes(current))
  if (behind.length === 0) return null
  const apps = [...new Set(behind.map(({ app }) => app))].sort().join(', ')
  if (isTransit) {
    return {
      variable: 'HUB_KEY_PROVIDER',
      sentence: `HUB_KEY_PROVIDER is transit, and ${behind.length} running processes do not have the transit key (${apps}). First set HUB_TRANSIT_URL, HUB_TRANSIT_KEY_NAME and HUB_TRANSIT_TOKEN in all processes with HUB_KEY_PROVIDER=environment, and restart them (docs/operating.md, Master key in a transit engine).`,
    }
  }
  return {
    variable: 'HUB_MASTER_KEY',
    sentence: `HUB_MASTER_KEY is a new master key that ${behind.length} running processes do not have (${apps}). First add it to their HUB_PREVIOUS_MASTER_KEYS and restart them (docs/operating.md, Changing secrets).`,
  }
}

const kafkaMismatch = (own: KafkaIdentity, known: KafkaIdentity): Mismatch | null => {
  if (own.cluster !== known.cluster) {
    return {
      variable: 'HUB_KAFKA_BROKERS',
      sentence: `HUB_KAFKA_BROKERS leads to the Kafka cluster ${own.cluster}, and this hub uses ${known.cluster}. Correct it, or, if a restore has moved the hub to this cluster, run hubctl restore kafka.`,
    }
  }
  if (own.prefix === known.prefix) return null
  return {
    variable: 'HUB_TOPIC_PREFIX',
    sentence: `HUB_TOPIC_PREFIX is "${own.prefix}", and the topics of this hub have the prefix "${known.prefix}".`,
  }
}

/** With another number, the records of a recipient would be in another partition than before. */
const partitionsMismatch = (own: OwnIdentity, known: KnownIdentity): Mismatch | null => {
  const partitions = known.kafka?.partitions ?? own.kafka?.partitions ?? null
  if (own.partitions === null || partitions === null || own.partitions === partitions) return null
  return {
    variable: 'HUB_PARTITIONS',
    sentence: `HUB_PARTITIONS is ${own.partitions}, and the topics of this hub have ${partitions} partitions. Set it to ${partitions}; it can never change.`,
  }
}

/** Only the records of the right cluster say which database is the right one. */
const databaseMismatch = (own: ConnectedKafka, { database }: KnownIdentity): Mismatch | null => {
  if (database === null || own.database === null || database === own.database) return null
  return {
    variable: 'HUB_DATABASE_URL',
    sentence: `HUB_DATABASE_URL leads to the database ${database}, and this hub uses ${own.database}. Correct it, or, if a restore or an upgrade of PostgreSQL has moved the hub to this database, run hubctl restore database.`,
  }
}

/** The mismatches; empty if the process belongs to the hub. */
export const mismatches = (own: OwnIdentity, known: KnownIdentity): ReadonlyArray<Mismatch> => {
  const found: Array<Mismatch> = []
  const masterKey = own.masterKeys === null ? null : masterKeyMismatch(own.masterKeys, known)
  if (masterKey !== null) found.push(masterKey)
  if (
    own.numberHashSecret !== null &&
    known.numberHashSecret !== null &&
    own.numberHashSecret !== known.numberHashSecret
  ) {
    found.push({
      variable: 'HUB_NUMBER_HASH_SECRET',
      sentence:
        'HUB_NUMBER_HASH_SECRET is not the secret of this hub. Set it to that of the other processes; it can never change.',
    })
  }
  if (own.kafka !== null) {
    const kafka = known.kafka === null ? null : kafkaMismatch(own.kafka, known.kafka)
    const server = kafka ?? databaseMismatch(own.kafka, known)
    if (server !== null) found.push(server)
  }
  // The topics of another hub may have another number.
  const partitions = found.length === 0 ? partitionsMismatch(own, known) : null
  if (partitions !== null) found.push(partitions)
  if (found.length < 2) return found
  const names = found.map(({ variable }) => variable).join(', ')
  return [
    {
      variable: 'HUB_DATABASE_URL',
      sentence: `HUB_DATABASE_URL leads to the database of another hub, or these settings are of another hub: ${names}. Correct the one or the others.`,
    },
  ]
}

/**
 * What the database must record about Kafka, or `null`: the cluster of a new hub, and the partitions of the topics
 * that it did not have before. Only for a process without a mismatch.
 */
export const kafkaToWrite = (own: ConnectedKafka | null, known: KafkaIdentity | null): KafkaIdentity | null =>
  own !== null && (known === null || (known.partitions === null && own.partitions !== null)) ? own : null

/** The master keys to write, with whether they are in use. Only for a process without a mismatch. */
export const masterKeysToWrite = (
  own: ReadonlyArray<string>,
  known: ReadonlyMap<string, boolean>,
): ReadonlyMap<string, boolean> => {
  const [current = '', ...previous] = own
  const changes = new Map<string, boolean>()
  if (known.get(current) !== true) changes.set(current, true)
  for (const key of previous) if (!known.has(key) && key !== current) changes.set(key, false)
  return changes
}
