/** The Kafka client of the hub against a broker that requires TLS and SASL authentication. */
import { randomUUID, X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tls from 'node:tls'
import { assert, describe, it } from '@effect/vitest'
import {
  createTopics,
  describeCluster,
  EventLog,
  type IncomingRecord,
  type KafkaConnection,
  kafkaConnectionConfig,
  layerEventLog,
  type PasswordCredentials,
} from '@hub/kafka'
import { connectionFault, invalidSettingOf } from '@hub/config'
import {
  ANSWERED_WITHIN_MS,
  type CertificateAuthority,
  makeCertificateAuthority,
  type ServerCertificate,
} from '@hub/testkit'
import {
  ConfigProvider,
  Context,
  Deferred,
  Effect,
  Layer,
  Logger,
  Redacted,
  References,
  Schedule,
} from 'effect'
import { afterAll, beforeAll } from 'vitest'
import {
  joinFromStart,
  layerClients,
  type SecuredKafka,
  startSecuredKafka,
} from '../support/secured-kafka.ts'

let kafka: SecuredKafka
beforeAll(async () => {
  kafka = await startSecuredKafka()
})
afterAll(() => kafka?.stop())

const credentials = (over: Partial<PasswordCredentials> = {}): PasswordCredentials => ({
  mechanism: 'scram-sha-512',
  username: kafka.username,
  password: Redacted.make(kafka.password),
  ...over,
})
const connection = (over: Partial<KafkaConnection> = {}): KafkaConnection => ({
  brokers: kafka.brokers,
  clientId: 'secured-test',
  tls: { ca: kafka.ca, client: null },
  credentials: credentials(),
  ...over,
})

/** Creates a topic, writes a record into it, and reads it as a member of a group. */
const writeAndRead = Effect.fnUntraced(function* (to: KafkaConnection) {
  const topic = `secured-${randomUUID()}`
  yield* createTopics(to, [{ topic, partitions: 1, replicationFactor: 1, config: {} }])
  const read = yield* Deferred.make<IncomingRecord>()
  yield* Effect.gen(function* () {
    const log = yield* EventLog
    yield* joinFromStart(topic, (records) => Effect.asVoid(Deferred.succeed(read, records[0]!)))
    yield* log.append(
      [{ topic, key: 'k', type: 'Something', id: 'one', occurredAt: 0, value: Buffer.from('x') }],
      { deadlineMs: ANSWERED_WITHIN_MS },
    )
    assert.strictEqual((yield* Deferred.await(read)).id, 'one')
  }).pipe(Effect.scoped, Effect.provide(layerClients(to)))
})

describe('a broker that requires TLS and a password', () => {
  it.live.each(['scram-sha-512', 'plain'] as const)(
    'accepts writes and serves a consumer group, with %s',
    (mechanism) => writeAndRead(connection({ credentials: credentials({ mechanism }) })),
  )

  it.live('rejects a wrong password, and the error does not contain the password', () =>
    Effect.gen(function* () {
      const password = 'not the password'
      const error = yield* Effect.flip(
        describeCluster(connection({ credentials: credentials({ password: Redacted.make(password) }) })),
      )
      assert.strictEqual(error._tag, 'KafkaUnavailable')
      assert.notInclude(JSON.stringify(error), password)
    }),
  )

  it.live('is not trusted if another authority signed its certificate', () =>
    Effect.gen(function* () {
      const other = yield* Effect.promise(makeCertificateAuthority)
      const error = yield* Effect.flip(describeCluster(connection({ tls: { ca: other.pem, client: null } })))
      assert.strictEqual(error._tag, 'KafkaUnavailable')
    }),
  )

  it.live('does not answer without TLS', () =>
    Effect.gen(function* () {
      const { tls: _tls, ...withoutTls } = connection()
      const error = yield* Effect.flip(describeCluster(withoutTls))
      assert.strictEqual(error._tag, 'KafkaUnavailable')
    }),
  )
})

describe('a broker that requires a certificate of its clients', () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'hub-mutual-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const files = () => ({ certFile: join(folder, 'client.pem'), keyFile: join(folder, 'client.key') })
  const issue = async (authority: CertificateAuthority) => {
    const issued = await authority.issue(['127.0.0.1'])
    writeFileSync(files().certFile, issued.cert)
    writeFileSync(files().keyFile, issued.key)
    return issued
  }
  const withCertificate = (): KafkaConnection => ({
    brokers: kafka.mutualBrokers,
    clientId: 'secured-test',
    tls: { ca: kafka.ca, client: files() },
  })
  const refusal = (to: KafkaConnection) =>
    Effect.map(Effect.flip(describeCluster(to)), (error) => {
      assert.strictEqual(error._tag, 'KafkaUnavailable')
      return connectionFault(error)
    })

  it.live('accepts writes and serves a consumer group', () =>
    Effect.gen(function* () {
      yield* Effect.promise(() => issue(kafka.authority))
      yield* writeAndRead(withCertificate())
    }),
  )

  const configured = (change: Readonly<Record<string, string>> = {}) =>
    Effect.provide(
      kafkaConnectionConfig('secured-test'),
      ConfigProvider.layer(
        ConfigProvider.fromUnknown({
          HUB_KAFKA_BROKERS: kafka.mutualBrokers.join(','),
          HUB_KAFKA_TLS: 'on',
          HUB_KAFKA_CERT_FILE: files().certFile,
          HUB_KAFKA_KEY_FILE: files().keyFile,
          ...change,
        }),
      ),
    )

  it.live('the settings name the files, and are refused if the files do not belong together', () =>
    Effect.gen(function* () {
      yield* Effect.promise(() => issue(kafka.authority))
      assert.deepStrictEqual((yield* configured()).tls, { ca: null, client: files() })
      const problemOf = (change: Readonly<Record<string, string>>) =>
        Effect.map(Effect.flip(configured(change)), (error) => {
          const { problem, variable } = invalidSettingOf(error)!
          return `${variable} ${problem}`
        })
      const other = join(folder, 'other.key')
      writeFileSync(other, (yield* Effect.promise(() => kafka.authority.issue(['127.0.0.1']))).key)
      assert.deepStrictEqual(
        [
          yield* problemOf({ HUB_KAFKA_KEY_FILE: other }),
          yield* problemOf({ HUB_KAFKA_KEY_FILE: files().certFile }),
          yield* problemOf({ HUB_KAFKA_CERT_FILE: files().keyFile }),
          yield* problemOf({ HUB_KAFKA_CERT_FILE: join(folder, 'none') }),
        ],
        [
          'HUB_KAFKA_KEY_FILE is not the key of the certificate in HUB_KAFKA_CERT_FILE',
          'HUB_KAFKA_KEY_FILE holds no secret key in PEM without a password',
          'HUB_KAFKA_CERT_FILE holds no certificate in PEM',
          'HUB_KAFKA_CERT_FILE cannot be read',
        ],
      )
    }),
  )

  it.live('refuses clients without a certificate, and the sentence names the setting', () =>
    Effect.gen(function* () {
      const fault = yield* refusal({ ...withCertificate(), tls: { ca: kafka.ca, client: null } })
      assert.include(fault?.sentence, 'HUB_KAFKA_CERT_FILE')
      assert.isTrue(fault?.isRefusal)
    }),
  )

  it.live('refuses the certificate of another authority, until the files have another one', () =>
    Effect.gen(function* () {
      const other = yield* Effect.promise(makeCertificateAuthority)
      yield* Effect.promise(() => issue(other))
      const fault = yield* refusal(withCertificate())
      assert.include(fault?.sentence, 'HUB_KAFKA_CERT_FILE')
      yield* Effect.promise(() => issue(kafka.authority))
      yield* describeCluster(withCertificate())
    }),
  )

  it.live(
    'keeps the certificate in use while only one of the files is replaced, and then takes the new one',
    () =>
      Effect.gen(function* () {
        const first = yield* Effect.promise(() => issue(kafka.authority))
        const sockets: Array<tls.TLSSocket> = []
        const to: KafkaConnection = {
          ...withCertificate(),
          socketFactory: ({ host, port, ssl, onConnect }) => {
            const socket = tls.connect({ host, port, ...ssl }, onConnect)
            sockets.push(socket)
            return socket
          },
        }
        const topic = `secured-${randomUUID()}`
        yield* createTopics(to, [{ topic, partitions: 1, replicationFactor: 1, config: {} }])
        const log = Context.get(
          yield* Layer.build(layerEventLog({ connection: to, partitions: 1 })),
          EventLog,
        )
        /** Ends all connections, and returns the certificates with which new ones append a record. */
        const certificatesOfNextAppend = Effect.gen(function* () {
          for (const socket of sockets.splice(0)) socket.destroy()
          yield* Effect.retry(
            log.append([
              { topic, key: 'k', type: 'Something', id: 'one', occurredAt: 0, value: Buffer.from('x') },
            ]),
            Schedule.spaced('50 millis'),
          )
          const certificates = sockets.flatMap((socket) => socket.getX509Certificate() ?? [])
          return [...new Set(certificates.map(({ fingerprint256 }) => fingerprint256))]
        })
        const fingerprintOf = ({ cert }: ServerCertificate) => new X509Certificate(cert).fingerprint256
        assert.deepStrictEqual(yield* certificatesOfNextAppend, [fingerprintOf(first)])
        const second = yield* Effect.promise(() => kafka.authority.issue(['127.0.0.1']))
        writeFileSync(files().certFile, second.cert)
        assert.deepStrictEqual(yield* certificatesOfNextAppend, [fingerprintOf(first)])
        writeFileSync(files().keyFile, second.key)
        assert.deepStrictEqual(yield* certificatesOfNextAppend, [fingerprintOf(second)])
      }),
  )

  it.live('is not reached without a usable certificate, and the log says why', () =>
    Effect.gen(function* () {
      yield* Effect.promise(() => issue(kafka.authority))
      writeFileSync(
        files().certFile,
        (yield* Effect.promise(() => kafka.authority.issue(['127.0.0.1']))).cert,
      )
      const lines: Array<string> = []
      const logger = Logger.make(({ fiber, message }) => {
        lines.push(JSON.stringify([message, fiber.getRef(References.CurrentLogAnnotations)]))
      })
      const error = yield* Effect.flip(describeCluster(withCertificate())).pipe(
        Effect.provide(Logger.layer([logger])),
      )
      assert.strictEqual(error._tag, 'KafkaUnavailable')
      assert.deepStrictEqual(lines, [
        '[["kafka: the client certificate cannot be used"],{"detail":"the key does not match the certificate"}]',
      ])
    }),
  )
})
