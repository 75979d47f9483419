/** Checks that the secrets of this process are those of the hub. */
import { isSet, settings } from '@hub/config'
import { layerEventLog, layerKeysAndErasures, topicNames } from '@hub/kafka'
import {
  connectedKafka,
  examinePayloadKeys,
  findMismatches,
  MasterKeyEncryption,
  ownIdentity,
  type PayloadKeyProblem,
} from '@hub/store'
import { Context, Effect, Layer } from 'effect'
import { CLIENT, kafkaConfig } from '../kafka.ts'
import { type Check, notice, ok, problem } from './check.ts'
import { KAFKA, MIGRATIONS } from './servers.ts'

/** Of the causes, the one that staff can repair comes first. */
const REPAIRS: ReadonlyArray<readonly [PayloadKeyProblem, string, string]> = [
  [
    'unknown_master_key',
    'are under a master key that this environment does not have',
    'Compare HUB_MASTER_KEY, HUB_PREVIOUS_MASTER_KEYS and the settings HUB_TRANSIT_… of all processes.',
  ],
  ['damaged', 'are damaged', 'Look for another producer that writes to the topics of the payload keys.'],
]

/** hubctl needs no master key. */
const lacksMasterKey = Effect.gen(function* () {
  const provider = yield* settings.keyProvider.config
  return provider === 'environment' && !(yield* isSet(settings.masterKey))
})

const TRANSIT_ENGINE = 'transit engine'

const transitEngine: Check = {
  subject: TRANSIT_ENGINE,
  needs: [],
  mend: 'Start or unseal its server (docs/runbooks.md, The transit engine does not answer).',
  run: Effect.gen(function* () {
    if (!(yield* isSet(settings.transitUrl)) || (yield* lacksMasterKey)) return null
    const { identify } = Context.get(yield* Layer.build(MasterKeyEncryption.layer), MasterKeyEncryption)
    // It encrypts a key, as the first process of a hub does.
    yield* identify([])
    return ok('encrypts')
  }).pipe(Effect.scoped),
}

const payloadKeys: Check = {
  subject: 'payload keys',
  needs: [KAFKA, TRANSIT_ENGINE],
  mend: 'See hubctl topics diff.',
  run: Effect.gen(function* () {
    if (yield* lacksMasterKey) return notice('not checked, because HUB_MASTER_KEY is not set here')
    const [connection, { partitions, prefix }] = yield* kafkaConfig
    const topics = layerKeysAndErasures(connection, topicNames(prefix)).pipe(
      Layer.provide(layerEventLog({ connection, partitions })),
    )
    const { keys, unusable } = yield* Effect.provide(
      examinePayloadKeys,
      Layer.merge(topics, MasterKeyEncryption.layer),
    )
    const facts = { keys, unusable: unusable.map(({ keyId }) => keyId) }
    for (const [cause, said, mend] of REPAIRS) {
      const count = unusable.filter(({ reason }) => reason === cause).length
      if (count > 0) return problem(`${count} of ${keys} ${said}: their messages wait`, mend, facts)
    }
    return ok(`all ${keys} can be used`, facts)
  }),
}

const identity: Check = {
  subject: 'identity',
  needs: [KAFKA, MIGRATIONS],
  mend: 'Correct the settings of this environment.',
  run: Effect.gen(function* () {
    const own = yield* ownIdentity
    const isTransit = (yield* settings.keyProvider.config) === 'transit'
    const kafka = yield* connectedKafka(CLIENT)
    const [mismatch] = yield* findMismatches({ ...own, kafka })
    const missing = [
      ...(own.masterKeys === null ? [isTransit ? 'the transit key' : 'HUB_MASTER_KEY'] : []),
      ...(own.numberHashSecret === null ? ['HUB_NUMBER_HASH_SECRET'] : []),
    ]
    const facts = { cluster: kafka.cluster, not_compared: missing }
    if (mismatch !== undefined) {
      return problem(`${mismatch.variable} is not of this hub`, mismatch.sentence, facts)
    }
    return missing.length === 0
      ? ok('the secrets, the database and the Kafka cluster belong together', facts)
      : notice(`not compared, because they are not available here: ${missing.join(', ')}`, facts)
  }),
}

export const secretChecks: ReadonlyArray<Check> = [identity, transitEngine, payloadKeys]
