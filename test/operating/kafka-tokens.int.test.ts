/**
 * Access tokens for Kafka: npm's `oidc-provider` issues them, and the validator of Kafka itself checks them. The broker
 * ends each session after some seconds, so that connections authenticate again.
 */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tls, { type TLSSocket } from 'node:tls'
import { assert, describe, it } from '@effect/vitest'
import { connectionFault } from '@hub/config'
import {
  createTopics,
  describeCluster,
  EventLog,
  type KafkaConnection,
  kafkaConnectionConfig,
} from '@hub/kafka'
import { eventually, faultProxy, startIdentityProvider, type TestIdentityProvider } from '@hub/testkit'
import { ConfigProvider, Effect, Layer, Logger, References } from 'effect'
import type { ISocketFactory } from 'kafkajs'
import { afterAll, beforeAll } from 'vitest'
import {
  joinFromStart,
  layerClients,
  type SecuredKafka,
  startSecuredKafka,
} from '../support/secured-kafka.ts'

/** Not the audience that the provider chooses by itself. */
const AUDIENCE = 'urn:hub:kafka'
/** kafkajs authenticates again when ten seconds are left: here after two. */
const SESSION_MS = 12_000
/** The hub uses a token until 20 s are left: here for ten seconds. */
const TOKEN_SECONDS = 30

let provider: TestIdentityProvider
let kafka: SecuredKafka
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hub-tokens-'))
  provider = await startIdentityProvider({ redirectUri: null, tokenSeconds: TOKEN_SECONDS })
  const { issuer, jwksUrl: jwks } = provider
  kafka = await startSecuredKafka({ issuer, jwks, audience: AUDIENCE, sessionMs: SESSION_MS })
  writeFileSync(join(folder, 'ca.pem'), kafka.ca)
  writeFileSync(join(folder, 'secret'), provider.clientSecret, { mode: 0o400 })
})
afterAll(async () => {
  await kafka?.stop()
  await provider?.stop()
  rmSync(folder, { recursive: true, force: true })
})

const connection = (change: Readonly<Record<string, string>> = {}): Effect.Effect<KafkaConnection> =>
  kafkaConnectionConfig('token-test').pipe(
    Effect.provide(
      ConfigProvider.layer(
        ConfigProvider.fromUnknown({
          HUB_KAFKA_BROKERS: kafka.tokenBrokers.join(','),
          HUB_KAFKA_TLS: 'on',
          HUB_KAFKA_CA_FILE: join(folder, 'ca.pem'),
          HUB_KAFKA_MECHANISM: 'oauthbearer',
          HUB_KAFKA_USERNAME: provider.program,
          HUB_KAFKA_TOKEN_URL: provider.tokenUrl,
          HUB_KAFKA_TOKEN_SCOPES: provider.scope,
          HUB_KAFKA_TOKEN_PARAMETERS: `resource=${encodeURIComponent(AUDIENCE)}`,
          HUB_KAFKA_EXTENSIONS: 'logicalCluster=lkc-1',
          ...(change['HUB_KAFKA_PASSWORD'] === undefined
            ? { HUB_KAFKA_PASSWORD_FILE: join(folder, 'secret') }
            : {}),
          ...change,
        }),
      ),
    ),
    Effect.orDie,
  )

/** What the client sends, before it is encrypted. */
const watchSockets = () => {
  const authentications = new Map<TLSSocket, number>()
  const tokens = new Set<string>()
  const socketFactory: ISocketFactory = ({ host, onConnect, port, ssl }) => {
    const socket = tls.connect({ host, port, ...ssl }, onConnect)
    authentications.set(socket, 0)
    socket.once('close', () => authentications.delete(socket))
    const write = socket.write
    socket.write = ((chunk: Buffer, ...rest: []) => {
      const [, token] = /auth=Bearer ([A-Za-z0-9._-]+)/u.exec(Buffer.from(chunk).toString('latin1')) ?? []
      if (token !== undefined) {
        tokens.add(token)
        authentications.set(socket, (authentications.get(socket) ?? 0) + 1)
      }
      return Reflect.apply(write, socket, [chunk, ...rest]) as boolean
    }) as typeof socket.write
    return socket
  }
  return { authentications, tokens, socketFactory }
}

/** Every line of the log, with its annotations, also those for debugging. */
const captureLog = () => {
  const lines: Array<string> = []
  const layer = Layer.merge(
    Logger.layer([Logger.map(Logger.formatJson, (line) => void lines.push(line))]),
    Layer.succeed(References.MinimumLogLevel, 'All' as const),
  )
  return { lines, layer }
}

describe('a broker that requires access tokens', () => {
  it.live(
    'ends sessions, and neither writers nor readers notice: their connections authenticate again in time',
    () =>
      Effect.gen(function* () {
        const { lines, layer } = captureLog()
        const { authentications, socketFactory, tokens } = watchSockets()
        const to = { ...(yield* connection()), socketFactory }
        const topic = `tokens-${randomUUID()}`
        yield* createTopics(to, [{ topic, partitions: 1, replicationFactor: 1, config: {} }])
        const read: Array<string> = []
        const written: Array<string> = []
        yield* Effect.gen(function* () {
          const log = yield* EventLog
          yield* joinFromStart(topic, (records) =>
            Effect.sync(() => void read.push(...records.map(({ id }) => id))),
          )
          let last = 0
          const write = Effect.suspend(() => {
            const id = String(last++)
            const record = { topic, key: 'k', type: 'Something', id, occurredAt: 0, value: Buffer.from('x') }
            return Effect.map(log.append([record]), () => void written.push(id))
          })
          // Requests are under way when a connection authenticates.
          const busy = Effect.forever(Effect.all([write, write, write], { concurrency: 3, discard: true }))
          const enough = Effect.promise(() =>
            eventually(() => {
              const counts = [...authentications.values()].sort((a, b) => b - a)
              // Those of the writer, of the group and of its fetches.
              return counts.length >= 3 && counts.slice(0, 3).every((count) => count >= 4) && tokens.size >= 3
            }),
          )
          yield* Effect.raceFirst(busy, enough)
          const opened = authentications.size
          yield* Effect.promise(() => eventually(() => read.length >= written.length))
          assert.strictEqual(authentications.size, opened)
        }).pipe(Effect.scoped, Effect.provide(layerClients(to)), Effect.provide(layer))
        // In their order, and each once: no append failed, and no position was lost.
        assert.deepStrictEqual(read.slice(0, written.length), written)
        const output = lines.join('\n')
        for (const secret of [...tokens, provider.clientSecret]) assert.notInclude(output, secret)
      }),
  )

  const refusal = Effect.fnUntraced(function* (change: Readonly<Record<string, string>>) {
    const { lines, layer } = captureLog()
    const error = yield* Effect.flip(describeCluster(yield* connection(change))).pipe(Effect.provide(layer))
    assert.strictEqual(error._tag, 'KafkaUnavailable')
    for (const secret of [provider.clientSecret, change['HUB_KAFKA_PASSWORD'] ?? provider.clientSecret])
      assert.notInclude(`${JSON.stringify(error)} ${lines.join('\n')}`, secret)
    return connectionFault(error)
  })

  it.live('names the settings if the token endpoint refuses the client', () =>
    Effect.gen(function* () {
      const fault = yield* refusal({ HUB_KAFKA_PASSWORD: 'another secret of the client' })
      assert.match(
        fault?.sentence ?? '',
        /^The token endpoint refuses the client\. Correct HUB_KAFKA_USERNAME/u,
      )
      assert.isTrue(fault?.isRefusal)
    }),
  )

  it.live('names the settings if the broker refuses the token, which is for another audience', () =>
    Effect.gen(function* () {
      const fault = yield* refusal({ HUB_KAFKA_TOKEN_PARAMETERS: 'resource=urn%3Ahub%3Aother' })
      assert.match(fault?.sentence ?? '', /^Kafka refuses the access token\. Correct HUB_KAFKA_TOKEN_URL/u)
      assert.isTrue(fault?.isRefusal)
    }),
  )

  it.live('is not waited for while the token endpoint hangs, and is used when it answers again', () =>
    Effect.gen(function* () {
      const endpoint = yield* faultProxy(provider.tokenUrl)
      endpoint.hold()
      const fault = yield* refusal({ HUB_KAFKA_TOKEN_URL: endpoint.url })
      assert.match(fault?.sentence ?? '', /^The token endpoint gives no access token/u)
      assert.isFalse(fault?.isRefusal)
      endpoint.release()
      const to = yield* connection({ HUB_KAFKA_TOKEN_URL: endpoint.url })
      yield* Effect.promise(() => eventually(() => Effect.runPromise(Effect.as(describeCluster(to), true))))
    }).pipe(Effect.scoped),
  )
})
