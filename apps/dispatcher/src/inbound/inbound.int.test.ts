import { assert, describe, it } from '@effect/vitest'
import { recipientHash, signatureHeader } from '@hub/domain'
import { deadLetterTopic, decodeInboundMessageReceived, inboundMessageRecord } from '@hub/kafka'
import { inboundContext, PayloadEncryption, readInboundMessages, Sql, StorageUnavailable } from '@hub/store'
import { HTTP } from '@hub/operator'
import { eventually } from '@hub/testkit'
import { Effect, Exit, Redacted, Result, Scope } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { type DispatcherOptions, makeDispatcher } from '../app.ts'
import { HASH_SECRET, makeTestHub, settingsIn, type TestHub } from '../testing/environment.ts'
import { decodeInbound } from '../payload/report-payload.ts'
import { DispatcherStore } from '../store/store.port.ts'

let hub: TestHub
beforeAll(async () => {
  hub = await makeTestHub()
})
afterAll(() => hub.remove())

const SECRET = 'a secret shared with the operator'

const options = (): DispatcherOptions => ({
  ...settingsIn(hub),
  live: {
    name: HTTP,
    settings: {
      // These tests submit nothing.
      url: new URL('http://127.0.0.1:9'),
      secret: Redacted.make(SECRET),
      callback: { host: '127.0.0.1', port: 0 },
    },
  },
})

let received = 0
/** Sends an inbound message through the operator, which repeats it until it is stored. */
const write = (port: number | null, from: string, text: string, id = `in-${received++}`) =>
  Effect.promise(() =>
    eventually(async () => {
      const body = Buffer.from(
        JSON.stringify([
          { operator_id: id, from, service_address: '2442', text, at: new Date().toISOString() },
        ]),
      )
      const response = await fetch(`http://127.0.0.1:${port}/inbound`, {
        method: 'POST',
        headers: {
          'hub-operator-signature': signatureHeader([SECRET], Math.floor(Date.now() / 1000), body),
        },
        body,
      })
      await response.arrayBuffer()
      return response.status === 200
    }),
  )

const optOutOf = (number: string) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) => q<{ source: string }[]>`
        SELECT source FROM command.opt_outs
        WHERE recipient = decode(${recipientHash(HASH_SECRET, number)}, 'hex')`,
    ),
  ).pipe(Effect.map(([row]) => row?.source ?? null))

const becomes = (number: string, wanted: string | null) =>
  Effect.gen(function* () {
    const sql = yield* Sql
    yield* Effect.promise(() =>
      eventually(
        async () =>
          (await Effect.runPromise(optOutOf(number).pipe(Effect.provideService(Sql, sql)))) === wanted,
      ),
    )
  })

describe('an inbound message', () => {
  it.live('opts its recipient out and in again, and is encrypted in Kafka', () =>
    Effect.gen(function* () {
      const number = '+79003330001'
      const records = yield* hub.follow(hub.topics.operatorReports)
      const { callbackPort } = yield* makeDispatcher(options())
      yield* write(callbackPort, number, ' Стоп ')
      yield* becomes(number, 'inbound')
      yield* write(callbackPort, number, 'Спасибо!')
      yield* write(callbackPort, number, 'старт')
      yield* becomes(number, null)

      yield* Effect.promise(() => eventually(() => records.length >= 3))
      const payloadEncryption = yield* PayloadEncryption
      const texts: Array<string> = []
      for (const record of records) {
        const message = Result.getOrThrow(decodeInboundMessageReceived(record))
        const bytes = Buffer.from(record.value).toString()
        assert.include(bytes, '2442')
        assert.notInclude(bytes, number.slice(1))
        assert.notInclude(bytes, 'Спасибо')
        const plain = yield* payloadEncryption.decrypt(
          message.payloadKey,
          inboundContext(message),
          message.ciphertext,
        )
        const payload = decodeInbound(plain ?? Buffer.alloc(0))
        assert.strictEqual(payload?.from, number)
        texts.push(payload?.text ?? '')
      }
      assert.deepStrictEqual(texts, [' Стоп ', 'Спасибо!', 'старт'])

      // Hub staff read them; a repetition after a restart changes nothing.
      const recipient = recipientHash(HASH_SECRET, number)
      const stored = yield* readInboundMessages(recipient, 10)
      assert.sameDeepMembers(
        stored.map((message) => [message.number, message.text, message.serviceAddress, message.isMasked]),
        texts.map((text) => [number, text, '2442', false]),
      )
      assert.sameMembers(
        stored.map(({ id }) => id),
        records.map(({ id }) => id),
      )
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )

  it.live('waits for PostgreSQL, stays pinned, and survives the process', () =>
    Effect.gen(function* () {
      const number = '+79003330002'
      const real = yield* DispatcherStore
      let tries = 0
      const down = DispatcherStore.of({
        ...real,
        applyWords: (words) =>
          words.length === 0
            ? real.applyWords(words)
            : Effect.suspend(() => {
                tries++
                return Effect.fail(new StorageUnavailable({ reason: 'unreachable', detail: 'down' }))
              }),
      })
      const first = yield* Scope.fork(yield* Effect.scope)
      const running = yield* makeDispatcher(options()).pipe(
        Effect.provideService(DispatcherStore, down),
        Scope.provide(first),
      )
      yield* write(running.callbackPort, number, 'STOP')
      yield* Effect.promise(() => eventually(() => tries >= 2))
      assert.isNull(yield* optOutOf(number))
      // The shutdown commits the marks. A mark behind the word would lose it.
      yield* Scope.close(first, Exit.void)

      yield* makeDispatcher(options())
      yield* becomes(number, 'inbound')
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )

  it.live('that cannot be decrypted goes to the dead-letter topic, and the others are applied', () =>
    Effect.gen(function* () {
      const number = '+79003330003'
      const payloadEncryption = yield* PayloadEncryption
      const deadLetters = yield* hub.follow(deadLetterTopic(hub.topics.operatorReports))
      const key = yield* payloadEncryption.currentKey('report')
      const { callbackPort } = yield* makeDispatcher(options())
      yield* hub.append([
        inboundMessageRecord(hub.topics, {
          type: 'InboundMessageReceived',
          operator: 'http',
          operatorId: 'forged',
          recipient: recipientHash(HASH_SECRET, number),
          serviceAddress: '2442',
          receivedAt: Date.now(),
          payloadKey: key.id,
          ciphertext: key.encrypt('something else', Buffer.from('{}')),
        }),
      ])
      yield* write(callbackPort, number, 'СТОП')
      yield* becomes(number, 'inbound')
      yield* Effect.promise(() => eventually(() => deadLetters.length === 1))
      assert.strictEqual(deadLetters[0]?.type, 'InboundMessageReceived')
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )
})
