/** Starts a Kafka broker that requires TLS and SASL authentication, or access tokens of an identity provider. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  ConsumerGroups,
  type IncomingRecord,
  type KafkaConnection,
  layerConsumerGroups,
  layerEventLog,
} from '@hub/kafka'
import {
  ensureJars,
  findJava,
  freePortBase,
  isKafkaReady,
  portsAt,
  readSettings,
  STACK_JARS,
  startKafka,
} from '@hub/local-stack'
import { type CertificateAuthority, eventually, makeCertificateAuthority } from '@hub/testkit'
import { Effect, Layer } from 'effect'

export interface SecuredKafka {
  /** The addresses with TLS and SASL. The user can authenticate with SCRAM-SHA-512 or PLAIN. */
  readonly brokers: ReadonlyArray<string>
  /** The address with TLS at which clients need a certificate of the same authority. */
  readonly mutualBrokers: ReadonlyArray<string>
  /** The address with TLS at which clients need an access token. */
  readonly tokenBrokers: ReadonlyArray<string>
  /** The authority that signed the broker's certificate. */
  readonly authority: CertificateAuthority
  /** Its certificate in PEM. */
  readonly ca: string
  readonly username: string
  readonly password: string
  /** Stops the broker and removes its data. */
  readonly stop: () => Promise<void>
}

/** What the broker requires of access tokens, and when it ends a session. */
export interface AcceptedTokens {
  readonly issuer: string
  readonly audience: string
  readonly jwks: string
  readonly sessionMs: number
}

/** The broker checks tokens with its own validator. Source: Kafka documentation, SASL/OAUTHBEARER. */
const tokenProperties = ({ audience, issuer, jwks, sessionMs }: AcceptedTokens) => ({
  'sasl.enabled.mechanisms': 'OAUTHBEARER',
  'oauthbearer.sasl.server.callback.handler.class':
    'org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler',
  'oauthbearer.sasl.jaas.config':
    'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;',
  'oauthbearer.sasl.oauthbearer.jwks.endpoint.url': jwks,
  'oauthbearer.sasl.oauthbearer.expected.issuer': issuer,
  'oauthbearer.sasl.oauthbearer.expected.audience': audience,
  'oauthbearer.connections.max.reauth.ms': String(sessionMs),
})

/** Joins a group that reads one topic from its start. */
export const joinFromStart = Effect.fnUntraced(function* (
  topic: string,
  onRecords: (records: ReadonlyArray<IncomingRecord>) => Effect.Effect<void>,
) {
  const groups = yield* ConsumerGroups
  yield* groups.join(
    { group: topic, topics: [topic] },
    {
      onAssigned: ({ shards }, control) => {
        for (const shard of shards) control.seek({ topic, partition: shard, offset: 0 })
      },
      onRevoking: Effect.void,
      onBatch: (_topic, _partition, records) => onRecords(records),
    },
  )
})

/** Writers and groups over one connection. */
export const layerClients = (connection: KafkaConnection) =>
  Layer.mergeAll(layerEventLog({ connection, partitions: 1 }), layerConsumerGroups({ connection }))

/** These limits only end a start or stop that hangs. */
const READY_WITHIN = { everyMs: 100 } as const
const STOP_WITHIN_MS = 10_000
/** The test runner has already downloaded the files for its own broker. */
const JARS_WITHIN_MS = 60_000
const HOST = '127.0.0.1'

/** `tokens`: the broker has a listener for access tokens. */
export const startSecuredKafka = async (tokens: AcceptedTokens | null = null): Promise<SecuredKafka> => {
  const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'secured-'))
  const ports = portsAt(await freePortBase())
  const authority = await makeCertificateAuthority()
  const user = { username: 'hub', password: randomBytes(12).toString('hex') }
  const { cacheDir } = readSettings(process.env)
  const running = await startKafka({
    java: await findJava(process.env),
    jars: await ensureJars(STACK_JARS, cacheDir, process.env, () => {}, AbortSignal.timeout(JARS_WITHIN_MS)),
    dir: join(dir, 'kafka'),
    port: ports.kafka,
    controllerPort: ports.kafkaController,
    log: join(dir, 'kafka.log'),
    runDir: join(dir, 'run'),
    // This fixture starts nothing but Kafka, so the ports planned for other servers are free.
    secured: {
      port: ports.postgres,
      ...(await authority.issue([HOST])),
      ...user,
      others: [
        {
          name: 'MUTUAL',
          protocol: 'SSL',
          port: ports.redis,
          properties: {
            'ssl.client.auth': 'required',
            'ssl.truststore.type': 'PEM',
            'ssl.truststore.certificates': authority.pem,
          },
        },
        ...(tokens === null
          ? []
          : [
              {
                name: 'TOKENS',
                protocol: 'SASL_SSL' as const,
                port: ports.commandApi,
                properties: tokenProperties(tokens),
              },
            ]),
      ],
      ...(tokens === null
        ? {}
        : { systemProperties: { 'org.apache.kafka.sasl.oauthbearer.allowed.urls': tokens.jwks } }),
    },
  })
  const stop = async (): Promise<void> => {
    await running.end(STOP_WITHIN_MS)
    rmSync(dir, { recursive: true, force: true })
  }
  try {
    await eventually(() => isKafkaReady(ports.kafka), READY_WITHIN)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    brokers: [`${HOST}:${ports.postgres}`],
    mutualBrokers: [`${HOST}:${ports.redis}`],
    tokenBrokers: [`${HOST}:${ports.commandApi}`],
    authority,
    ca: authority.pem,
    ...user,
    stop,
  }
}
