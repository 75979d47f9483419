/**
 * Every process proves at its start, and while it runs, that its secrets and servers are those of its hub
 * (docs/decisions/deployment.md#proof-of-secrets). With others it would write what nobody can read, or read
 * nothing.
 */
import { createHmac, randomUUID } from 'node:crypto'
import { type AnyApp, connectionFault, settings } from '@hub/config'
import {
  acceptDatabase,
  acceptedDatabase,
  describeCluster,
  kafkaConnectionConfig,
  type KafkaRequestRejected,
  type KafkaUnavailable,
  readOffsetRanges,
  topicNames,
} from '@hub/kafka'
import { Readiness } from '@hub/telemetry'
import { type Config, Context, Data, Deferred, Effect, Layer, Redacted, type Scope } from 'effect'
import { PREFIX_BYTES, type RecordedKey, type UsableKey } from '../key-providers/key-provider.port.ts'
import { MasterKeyEncryption } from '../master-key-encryption.ts'
import { type Queries, Sql, type StorageError } from '../sql.ts'
import {
  type ConnectedKafka,
  type KafkaIdentity,
  kafkaToWrite,
  masterKeysToWrite,
  type Mismatch,
  mismatches,
  type OwnIdentity,
} from './judge.ts'
import {
  define,
  forgetProcess,
  lockIdentity,
  readDatabase,
  readIdentity,
  readKeyPrefixes,
  readMasterKeys,
  reportProcess,
  retireMasterKeys,
  writeCheckKey,
  writeKafka,
  writeMasterKey,
} from './tables.ts'

/** The process has secrets or servers of another hub. It fails again until its settings are corrected. */
export class NotOfThisHub extends Data.TaggedError('NotOfThisHub')<{
  readonly mismatches: ReadonlyArray<Mismatch>
}> {
  override readonly message = this.mismatches.map(({ sentence }) => sentence).join(' ')
}

/** How often a running process checks, ms. A connection may lead to another server since the last time. */
const CHECK_EVERY_MS = 10_000
/** The same for Kafka, which needs a connection of its own. */
const CHECK_KAFKA_EVERY_MS = 60_000
/** Until the first proof, and until Kafka was reached. */
const TRY_AGAIN_MS = 1000

/** Part of the derivation, so it must not change. No phone number has this form. */
const HASH_LABEL = 'sms-delivery-hub/check-value'

/** HMAC-SHA-256 of a fixed text with the secret. */
export const numberHashCheckValue = (secret: string): string =>
  createHmac('sha256', secret).update(HASH_LABEL).digest('hex')

/** What the database already contains under master keys, for a hub without an identity yet. */
const foreignData: Mismatch = {
  variable: 'HUB_MASTER_KEY',
  sentence:
    'The database contains data under a master key that is neither HUB_MASTER_KEY nor in HUB_PREVIOUS_MASTER_KEYS. Add the missing key, or correct HUB_DATABASE_URL.',
}

/** Records the first master keys of a hub. Data of an earlier version of the hub names them. */
const defineMasterKeys = async (q: Queries, keys: ReadonlyArray<UsableKey>): Promise<Mismatch | null> => {
  const [current] = keys
  if (current === undefined) return null
  // Ciphertexts of the first version begin with 1, and name no key.
  const prefixes = (await readKeyPrefixes(q, PREFIX_BYTES)).filter(([version]) => version !== 1)
  const keyOf = (prefix: Uint8Array) => keys.find(({ made }) => made(prefix))
  if (prefixes.some((prefix) => keyOf(prefix) === undefined)) return foreignData
  const used = new Set([current, ...prefixes.map(keyOf)])
  for (const key of keys) await writeMasterKey(q, key, used.has(key))
  return null
}

interface Compared {
  readonly found: ReadonlyArray<Mismatch>
  readonly database: string | null
}
/** Another process has recorded a master key meanwhile, which may be one of this process. */
const CHANGED = 'changed'

/** Compares a process with the hub, and records what the hub does not know yet. */
const compareAndRecord = async (
  q: Queries,
  self: { readonly id: string; readonly app: string },
  own: OwnIdentity,
  keys: ReadonlyArray<UsableKey>,
  recorded: ReadonlyArray<RecordedKey>,
): Promise<Compared | typeof CHANGED> => {
  await lockIdentity(q)
  const sinceThen = await readMasterKeys(q)
  if (sinceThen.some(({ checkValue }) => !recorded.some((key) => key.checkValue === checkValue)))
    return CHANGED
  let known = await readIdentity(q, self.id)
  const { database } = known
  const found = mismatches(own, known)
  if (found.length > 0) return { found, database }
  if (known.masterKeys.size === 0) {
    const foreign = await defineMasterKeys(q, keys)
    if (foreign !== null) return { found: [foreign], database }
    known = await readIdentity(q, self.id)
  }
  const masterKeys = keys.map(({ checkValue }) => checkValue)
  for (const [key, inUse] of masterKeysToWrite(masterKeys, known.masterKeys)) {
    await writeMasterKey(
      q,
      keys.find(({ checkValue }) => checkValue === key)!,
      inUse,
    )
  }
  if (own.numberHashSecret !== null && known.numberHashSecret === null) {
    await define(q, 'number_hash_secret', own.numberHashSecret)
  }
  const kafka = kafkaToWrite(own.kafka, known.kafka)
  if (kafka !== null) await writeKafka(q, kafka)
  await reportProcess(q, { ...self, masterKeys })
  return { found: [], database }
}

/** The Kafka cluster of the settings. */
export const connectedKafka = (client: string) =>
  Effect.gen(function* () {
    const connection = yield* kafkaConnectionConfig(client)
    const prefix = yield* settings.topicPrefix.config
    const topics = topicNames(prefix)
    const { cluster } = yield* describeCluster(connection)
    const database = yield* acceptedDatabase(connection, topics)
    const ranges = yield* readOffsetRanges(connection, [topics.messages])
    const partitions = ranges.get(topics.messages)?.length ?? null
    return { cluster, prefix, partitions, database } satisfies ConnectedKafka
  })

/** Makes a database the one of the hub. Returns false while the topic for it is missing. */
export const recordDatabase = (client: string, database: string) =>
  Effect.gen(function* () {
    const topics = topicNames(yield* settings.topicPrefix.config)
    return yield* acceptDatabase(yield* kafkaConnectionConfig(client), topics, database)
  })

export interface HubProof {
  /**
   * Returns when the process has proved that it belongs to its hub; until a server answers, it waits. Adds
   * the readiness check `identity`, and continues to check until the scope closes.
   */
  readonly start: Effect.Effect<
    void,
    NotOfThisHub | Config.ConfigError,
    Sql | MasterKeyEncryption | Readiness | Scope.Scope
  >
  readonly layer: Layer.Layer<never, NotOfThisHub | Config.ConfigError, Sql | MasterKeyEncryption | Readiness>
  /** Fails when a later check finds another hub. The process must then end. */
  readonly lost: Effect.Effect<never, NotOfThisHub>
}

/**
 * What an app does until it has reached Kafka once. One that does not wait checks the cluster as soon as Kafka
 * answers. One that is not ready until then does not replace a process whose settings are right.
 */
export type BeforeKafka = 'waits' | 'is not ready' | 'is ready'

export const makeHubProof = (
  app: AnyApp,
  { beforeKafka }: { readonly beforeKafka: BeforeKafka },
): HubProof => {
  const lost = Deferred.makeUnsafe<never, NotOfThisHub>()
  const start = Effect.gen(function* () {
    const sql = yield* Sql
    const readiness = yield* Readiness
    const masterKey = yield* MasterKeyEncryption
    const self = { id: randomUUID(), app }
    const hasHashSecret = settings.numberHashSecret.readBy.includes(app)
    const numberHashSecret = hasHashSecret
      ? numberHashCheckValue(Redacted.value(yield* settings.numberHashSecret.config))
      : null
    const partitions = yield* settings.partitions.config
    let isProven = false
    let kafka: ConnectedKafka | null = null
    let kafkaCheckedAt = Number.NEGATIVE_INFINITY

    const checkKafka = Effect.gen(function* () {
      if (performance.now() - kafkaCheckedAt < CHECK_KAFKA_EVERY_MS) return
      kafka = yield* connectedKafka(app)
      kafkaCheckedAt = performance.now()
    })
    const compare = Effect.gen(function* () {
      const recorded = yield* sql.run(readMasterKeys)
      const keys = yield* masterKey.identify(recorded)
      const masterKeys = keys.map(({ checkValue }) => checkValue)
      const own: OwnIdentity = { masterKeys, numberHashSecret, partitions, kafka }
      return yield* sql.transaction((q) => compareAndRecord(q, self, own, keys, recorded))
    })
    const check = Effect.gen(function* () {
      yield* masterKey.ready
      let compared = yield* compare
      while (compared === CHANGED) compared = yield* compare
      const { database, found } = compared
      isProven = found.length === 0
      if (found.length > 0) return yield* new NotOfThisHub({ mismatches: found })
      if (kafka === null || kafka.database !== null || database === null) return
      yield* recordDatabase(app, database)
      // The next look at Kafka finds it, or that of a process that was quicker.
      kafka = { ...kafka, database }
    })
    const warned = new Set<string>()
    /** Once for each cause: a start during an outage would log it every second. */
    const warn = (error: KafkaUnavailable | KafkaRequestRejected | StorageError) => {
      const cause =
        connectionFault(error)?.sentence ??
        'It cannot compare its secrets and servers with those of the hub yet.'
      const log = warned.has(cause) ? Effect.logDebug : Effect.logWarning
      warned.add(cause)
      return log(`identity: the process is not ready. ${cause}`, error)
    }
    const kafkaIsDown = (error: KafkaUnavailable | KafkaRequestRejected) =>
      kafka === null && beforeKafka !== 'is ready'
        ? warn(error)
        : Effect.logDebug('identity: Kafka cannot be checked now', error)
    const unlessKafkaIsDown = Effect.catchTags(checkKafka, {
      KafkaUnavailable: kafkaIsDown,
      KafkaRequestRejected: kafkaIsDown,
    })
    const first = Effect.andThen(beforeKafka === 'waits' ? checkKafka : unlessKafkaIsDown, check)

    yield* readiness.add(
      'identity',
      Effect.sync(() => isProven),
    )
    if (beforeKafka === 'is not ready')
      yield* readiness.add(
        'kafka',
        Effect.sync(() => kafka !== null),
      )
    yield* Effect.addFinalizer(() => Effect.ignore(sql.run((q) => forgetProcess(q, self.id))))
    const untilProven: Effect.Effect<void, NotOfThisHub | Config.ConfigError> = Effect.suspend(() =>
      Effect.catch(first, (error) => {
        if (error._tag === 'NotOfThisHub' || error._tag === 'ConfigError') return Effect.fail(error)
        return warn(error).pipe(Effect.andThen(Effect.sleep(TRY_AGAIN_MS)), Effect.andThen(untilProven))
      }),
    )
    yield* untilProven

    yield* Effect.suspend(() => Effect.sleep(kafka === null ? TRY_AGAIN_MS : CHECK_EVERY_MS)).pipe(
      Effect.andThen(unlessKafkaIsDown),
      Effect.andThen(check),
      Effect.catch((error) =>
        error._tag === 'NotOfThisHub'
          ? Effect.asVoid(Deferred.fail(lost, error))
          : Effect.logDebug('identity: the hub cannot be checked now', error),
      ),
      Effect.forever,
      Effect.forkScoped,
    )
  })
  return { start, layer: Layer.effectDiscard(start), lost: Deferred.await(lost) }
}

const hasIdentity = async (q: Queries): Promise<boolean> => {
  const [table] = await q<{ exists: boolean }[]>`
    SELECT to_regclass('command.hub_identity') IS NOT NULL AS exists`
  return table?.exists === true
}

/**
 * The check values that this environment can compute now. A command line may have fewer secrets than an app, and a
 * transit engine may not answer.
 */
export const ownIdentity = Effect.gen(function* () {
  const sql = yield* Sql
  const hash = yield* Effect.option(settings.numberHashSecret.config)
  const encryption = yield* Effect.option(Layer.build(MasterKeyEncryption.layer))
  const recorded = yield* sql.run(async (q) => ((await hasIdentity(q)) ? readMasterKeys(q) : []))
  const keys =
    encryption._tag === 'None'
      ? encryption
      : yield* Effect.option(Context.get(encryption.value, MasterKeyEncryption).identify(recorded))
  return {
    masterKeys: keys._tag === 'Some' ? keys.value.map(({ checkValue }) => checkValue) : null,
    numberHashSecret: hash._tag === 'Some' ? numberHashCheckValue(Redacted.value(hash.value)) : null,
    partitions: null,
    kafka: null,
  } satisfies OwnIdentity
}).pipe(Effect.scoped)

/** Compares an environment with the hub without any change. A hub without the tables has no identity yet. */
export const findMismatches = (own: OwnIdentity): Effect.Effect<ReadonlyArray<Mismatch>, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => ((await hasIdentity(q)) ? mismatches(own, await readIdentity(q, null)) : [])),
  )

/** Makes a Kafka cluster the one of the hub. The number of partitions stays. Returns the cluster before. */
export const acceptKafka = (kafka: KafkaIdentity): Effect.Effect<KafkaIdentity | null, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.transaction(async (q) => {
      await lockIdentity(q)
      const { kafka: before } = await readIdentity(q, null)
      await writeKafka(q, { ...kafka, partitions: before?.partitions ?? kafka.partitions })
      return before
    }),
  )

/** The name of the database of the settings; `null` if the role may not read it. */
export const connectedDatabase: Effect.Effect<string | null, StorageError, Sql> = Effect.flatMap(Sql, (sql) =>
  sql.run(readDatabase),
)

/**
 * The other master keys are no longer needed: processes may start without them. Returns false, and changes
 * nothing, while a running process still encrypts with one of them.
 */
export const retireOtherMasterKeys: Effect.Effect<boolean, StorageError, Sql | MasterKeyEncryption> =
  Effect.gen(function* () {
    const sql = yield* Sql
    const { identify, renewCheckKey } = yield* MasterKeyEncryption
    const recorded = yield* sql.run(readMasterKeys)
    const [current] = yield* identify(recorded)
    if (current === undefined) return false
    // Otherwise an earlier version of the transit key would have to stay.
    const renewed = yield* renewCheckKey(current)
    if (renewed !== null && !(yield* sql.run((q) => writeCheckKey(q, current, renewed)))) return false
    return yield* sql.transaction(async (q) => {
      await lockIdentity(q)
      const { processes } = await readIdentity(q, null)
      if (processes.some(({ masterKeys: [key] }) => key !== current.checkValue)) return false
      await retireMasterKeys(q, current.checkValue)
      return true
    })
  })
