/**
 * The whole dispatcher with real servers: handovers, crashes, rebalances and process life cycle.
 */
import { assert, describe, it } from '@effect/vitest'
import { factIdOf, type LogFact } from '@hub/domain'
import { acceptedRecord, deadLetterTopic, EventLog, KafkaUnavailable, type IncomingRecord } from '@hub/kafka'
import { HTTP, SMPP, SMPP_DEFAULTS } from '@hub/operator'
import { eventually, freePort } from '@hub/testkit'
import { Effect, Exit, Layer, Redacted, Scope } from 'effect'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { afterAll, beforeAll } from 'vitest'
import { type DispatcherOptions, makeDispatcher } from './app.ts'
import type { HttpSettings } from './operator/live-operator.ts'
import { makeTestHub, simulator, settingsIn, type TestHub } from './testing/environment.ts'

let hub: TestHub
beforeAll(async () => {
  hub = await makeTestHub()
})
afterAll(() => hub.remove())

/** Only ends a wait that hangs: two dispatchers start one after the other. */
const BUSY = { withinMs: 180_000 }

const options = (more: Partial<DispatcherOptions> = {}): DispatcherOptions => ({
  ...settingsIn(hub),
  live: null,
  // The late report comes after the report deadline of the sandbox, which is ten seconds.
  sandbox: { reportDelayMs: 50, lateReportMs: 12_000, window: 100 },
  ...more,
})

const typesOf = (facts: ReadonlyArray<LogFact> | undefined): ReadonlyArray<string> =>
  (facts ?? []).map((fact) => ('reason' in fact ? `${fact.type} ${fact.reason}` : fact.type))

const FINAL = /^Message(Delivered|Undelivered|Rejected|Expired)/u
const finished = (records: ReadonlyArray<IncomingRecord>, ids: ReadonlyArray<string>): boolean => {
  const facts = hub.factsOf(records)
  return ids.every((id) => facts.get(id)?.some(({ type }) => FINAL.test(type)) === true)
}

const ready = (isReady: Effect.Effect<boolean>) =>
  Effect.promise(() => eventually(() => Effect.runPromise(isReady)))

describe('the dispatcher on a real Kafka', () => {
  it.live('records the defined outcome of each sandbox number', () =>
    Effect.gen(function* () {
      const dispatcher = yield* makeDispatcher(options())
      const log = yield* hub.follow(hub.topics.messages)
      yield* ready(dispatcher.isReady)
      const number = (n: number) => `+790000000${String(n).padStart(2, '0')}`
      const sent = ['HandoverStarted', 'MessageSent']
      const expected: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
        ['+79001112233', [...sent, 'MessageDelivered']],
        [number(1), [...sent, 'MessageDelivered']],
        [number(2), [...sent, 'MessageUndelivered recipient_unreachable']],
        [number(3), [...sent, 'MessageUndelivered recipient_nonexistent']],
        [number(4), [...sent, 'MessageUndelivered recipient_blocked']],
        [number(5), ['HandoverStarted', 'MessageRejected spam_filter_content']],
        [number(6), [...sent, 'MessageRejected spam_filter_sender']],
        [number(7), [...sent, 'MessageExpired dlr_timeout']],
        [number(8), [...sent, 'MessageExpired dlr_timeout_local']],
        [number(10), [...sent, 'MessageDelivered', 'MessageSeen']],
        [number(11), ['HandoverStarted', 'HandoverRefused', 'MessageExpired ttl_expired_before_submit']],
        [number(12), [...sent, 'MessageExpired dlr_timeout_local', 'MessageDelivered']],
      ]
      const ids = yield* hub.send(
        // The handover of number 11 is refused and tried again, until it is too late. A busy machine begins late.
        expected.map(([to]) => ({ to, lifetime: to === number(11) ? 10_000 : 300_000, parts: 1 })),
      )
      yield* Effect.promise(() =>
        eventually(() => {
          const facts = hub.factsOf(log)
          for (const [i, [to, wanted]] of expected.entries()) {
            const types = typesOf(facts.get(ids[i]!)).join()
            const once = types.replace(
              /(?:HandoverStarted,HandoverRefused,)+/u,
              'HandoverStarted,HandoverRefused,',
            )
            assert.strictEqual(once, wanted.join(), to)
          }
          return true
        }),
      )
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )

  it.live('delivers a message of several parts when all parts are delivered', () =>
    Effect.gen(function* () {
      const dispatcher = yield* makeDispatcher(options())
      const log = yield* hub.follow(hub.topics.messages)
      yield* ready(dispatcher.isReady)
      const ids = yield* hub.send([{ to: '+79001112244', parts: 3, class: 'service' }])
      yield* Effect.promise(() => eventually(() => finished(log, ids)))
      const facts = hub.factsOf(log).get(ids[0]!)
      assert.deepStrictEqual(typesOf(facts), ['HandoverStarted', 'MessageSent', 'MessageDelivered'])
      const sent = facts?.find((fact) => fact.type === 'MessageSent')
      assert.strictEqual(sent?.type === 'MessageSent' ? sent.operatorIds.length : 0, 3)
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )

  it.live('dead-letters unreadable records and continues', () =>
    Effect.gen(function* () {
      const dispatcher = yield* makeDispatcher(options())
      const log = yield* hub.follow(hub.topics.messages)
      const deadLetters = yield* hub.follow(deadLetterTopic(hub.topics.acceptedOtp))
      yield* ready(dispatcher.isReady)
      for (const partition of [0, 1]) {
        yield* hub.append([
          {
            topic: hub.topics.acceptedOtp,
            key: 'nobody',
            partition,
            type: 'MessageAccepted',
            id: `poison-${partition}`,
            occurredAt: Date.now(),
            value: Buffer.from('not avro'),
          },
        ])
      }
      const ids = yield* hub.send([{ to: '+79001112255' }, { to: '+79001112266' }, { to: '+79001112277' }])
      yield* Effect.promise(() => eventually(() => finished(log, ids) && deadLetters.length === 2))
      assert.deepStrictEqual(deadLetters.map(({ id }) => id).sort(), ['poison-0', 'poison-1'])
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )

  it.live('never ends a message because this process has another master key', () =>
    Effect.gen(function* () {
      const log = yield* hub.follow(hub.topics.messages)
      const first = yield* Scope.fork(yield* Effect.scope)
      const otherSecrets = hub.layerUnder(randomBytes(32).toString('base64'))
      const services = yield* Layer.buildWithScope(Layer.fresh(otherSecrets), first)
      const stranger = yield* makeDispatcher(options()).pipe(Effect.provide(services), Scope.provide(first))
      yield* ready(stranger.isReady)
      const ids = yield* hub.send([
        { to: '+79001112301', class: 'otp' },
        { to: '+79001112302', class: 'service' },
        { to: '+79001112303', class: 'service' },
      ])
      yield* Effect.promise(() =>
        eventually(async () => !(await Effect.runPromise(stranger.canDecrypt)), BUSY),
      )
      yield* Scope.close(first, Exit.void)
      assert.deepStrictEqual(
        ids.map((id) => typesOf(hub.factsOf(log).get(id))),
        [[], [], []],
        'the messages wait',
      )

      const owner = yield* makeDispatcher(options())
      yield* Effect.promise(() => eventually(() => finished(log, ids), BUSY))
      for (const id of ids) {
        const delivered = ['HandoverStarted', 'MessageSent', 'MessageDelivered']
        assert.deepStrictEqual(typesOf(hub.factsOf(log).get(id)), delivered)
      }
      assert.isTrue(yield* owner.canDecrypt)
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )

  it.live('dead-letters a damaged payload, keeps its message open, and submits the others of its key', () =>
    Effect.gen(function* () {
      const dispatcher = yield* makeDispatcher(options())
      const log = yield* hub.follow(hub.topics.messages)
      const deadLetters = yield* hub.follow(deadLetterTopic(hub.topics.acceptedService))
      yield* ready(dispatcher.isReady)
      const damaged = yield* hub.encryptedMessage({ to: '+79001112311', class: 'service' })
      const last = damaged.ciphertext.length - 1
      damaged.ciphertext[last] = damaged.ciphertext[last]! ^ 1
      yield* hub.append([acceptedRecord(hub.topics, damaged)])
      const ids = yield* hub.send([
        { to: '+79001112311', class: 'service' },
        { to: '+79001112312', class: 'service' },
      ])
      yield* Effect.promise(() => eventually(() => finished(log, ids) && deadLetters.length > 0, BUSY))
      assert.deepStrictEqual(
        deadLetters.map(({ headers, id }) => [id, headers?.['dead_letter_reason']]),
        [[factIdOf(damaged), 'payload_damaged']],
      )
      assert.isUndefined(hub.factsOf(log).get(damaged.messageId))
      assert.isTrue(yield* dispatcher.canDecrypt, 'the process can work')
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )

  it.live('delivers the late report of the sandbox after a restart', () =>
    Effect.gen(function* () {
      const first = yield* Scope.fork(yield* Effect.scope)
      // Late enough for a restart between the report deadline and this report.
      const late = options({ sandbox: { reportDelayMs: 50, lateReportMs: 15_000, window: 100 } })
      const running = yield* makeDispatcher(late).pipe(Scope.provide(first))
      const log = yield* hub.follow(hub.topics.messages)
      yield* ready(running.isReady)
      const [id] = yield* hub.send([{ to: '+79000000012' }])
      const expired = ['HandoverStarted', 'MessageSent', 'MessageExpired dlr_timeout_local']
      const untilFacts = (wanted: ReadonlyArray<string>) =>
        Effect.promise(() =>
          eventually(() => {
            assert.deepStrictEqual(typesOf(hub.factsOf(log).get(id!)), wanted)
            return true
          }),
        )
      yield* untilFacts(expired)
      yield* Scope.close(first, Exit.void)
      yield* makeDispatcher(late)
      yield* untilFacts([...expired, 'MessageDelivered'])
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )

  it.live('recovers from a crash without lost or repeated messages', () =>
    Effect.gen(function* () {
      const callbackPort = yield* Effect.promise(freePort)
      const operator = yield* simulator(hub.directory, callbackPort)
      yield* operator.behave({ submit_delay_ms: 20, report_delay_ms: 300 })
      const http: HttpSettings = {
        url: operator.url,
        secret: Redacted.make(operator.secret),
        callback: { host: '127.0.0.1', port: callbackPort },
      }
      const eventLog = yield* EventLog
      // A dead process appends nothing, even though the test closes its scope.
      let dead = false
      const mortal = EventLog.of({
        ...eventLog,
        append: (records, how) =>
          dead
            ? Effect.fail(new KafkaUnavailable({ reason: 'refused', detail: 'dead' }))
            : eventLog.append(records, how),
      })
      const first = yield* Scope.fork(yield* Effect.scope)
      const running = yield* makeDispatcher(options({ live: { name: HTTP, settings: http } })).pipe(
        Effect.provideService(EventLog, mortal),
        Scope.provide(first),
      )
      const log = yield* hub.follow(hub.topics.messages)
      yield* ready(running.isReady)
      const before = new Set(hub.factsOf(log).keys())
      const ids = yield* hub.send(
        Array.from({ length: 400 }, (_, i) => ({
          to: `+79002${String(i % 150).padStart(6, '0')}`,
          mode: 'live' as const,
          class: i % 3 === 0 ? ('otp' as const) : ('service' as const),
        })),
      )
      yield* Effect.promise(() =>
        eventually(() => hub.factsOf(log).size - before.size >= ids.length / 4, { everyMs: 1 }),
      )
      dead = true
      yield* Scope.close(first, Exit.void)

      yield* makeDispatcher(options({ live: { name: HTTP, settings: http } }))
      yield* Effect.promise(() => eventually(() => finished(log, ids)))
      const facts = hub.factsOf(log)
      for (const id of ids) {
        const list = facts.get(id) ?? []
        assert.strictEqual(list.filter(({ type }) => type === 'MessageSent').length, 1, id)
        assert.strictEqual(list.filter(({ type }) => type === 'MessageDelivered').length, 1, id)
      }
      const statistics = yield* operator.statistics
      assert.strictEqual(statistics['references'], ids.length)
      // Only handovers in progress at the crash are repeated, at most one for each recipient.
      assert.isAtMost(statistics['repeated'] ?? 0, 150)
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )
})

describe('live keys over SMPP', () => {
  it.live('reach the SMSC, become final by its receipts, and survive its absence', () =>
    Effect.gen(function* () {
      const operator = yield* simulator(hub.directory, yield* Effect.promise(freePort))
      yield* operator.behave({ report_delay_ms: 0, id_form: 'hexadecimal_answer' })
      const dispatcher = yield* makeDispatcher(
        options({
          live: {
            name: SMPP,
            settings: {
              ...SMPP_DEFAULTS,
              ...operator.smpp,
              idFormat: 'hexadecimal_answer',
              reconnect: { firstMs: 50, longestMs: 200 },
            },
          },
        }),
      )
      const log = yield* hub.follow(hub.topics.messages)
      yield* ready(dispatcher.isReady)
      const sent = ['HandoverStarted', 'MessageSent']
      const expected: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
        ['+79007110001', [...sent, 'MessageDelivered']],
        ['+79000000003', [...sent, 'MessageUndelivered delivery_failed']],
        ['+79000000007', [...sent, 'MessageExpired dlr_timeout']],
        ['+79000000010', [...sent, 'MessageDelivered', 'MessageSeen']],
      ]
      const ids = yield* hub.send(expected.map(([to]) => ({ to, mode: 'live' as const })))
      yield* Effect.promise(() =>
        eventually(() => {
          const facts = hub.factsOf(log)
          for (const [i, [to, wanted]] of expected.entries()) {
            assert.deepStrictEqual(typesOf(facts.get(ids[i]!)), wanted, to)
          }
          return true
        }),
      )
      assert.include(yield* operator.statistics, { references: ids.length, repeated: 0 })

      yield* operator.stop
      assert.isTrue(yield* dispatcher.isReady)
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )
})

describe('dispatchers that share the shards', () => {
  it.live('move shards between members without repeated submits', () =>
    Effect.gen(function* () {
      const callbackPort = yield* Effect.promise(freePort)
      const operator = yield* simulator(hub.directory, callbackPort)
      yield* operator.behave({ submit_delay_ms: 5, report_delay_ms: 200 })
      const http: HttpSettings = {
        url: operator.url,
        secret: Redacted.make(operator.secret),
        callback: { host: '127.0.0.1', port: callbackPort },
      }
      const log = yield* hub.follow(hub.topics.messages)
      const first = yield* Scope.fork(yield* Effect.scope)
      const one = yield* makeDispatcher(options({ live: { name: HTTP, settings: http } })).pipe(
        Scope.provide(first),
      )
      yield* ready(one.isReady)
      const send = (from: number) =>
        hub.send(
          Array.from({ length: 150 }, (_, i) => ({
            to: `+79004${String(from + (i % 60)).padStart(6, '0')}`,
            mode: 'live' as const,
            class: 'service' as const,
          })),
        )
      const ids = [...(yield* send(0))]
      // Reports reach the listening process, whichever process owns the shard.
      const two = yield* makeDispatcher(
        options({ live: { name: HTTP, settings: { ...http, callback: null } } }),
      )
      ids.push(...(yield* send(1000)))
      yield* ready(two.isReady)
      ids.push(...(yield* send(2000)))
      yield* Effect.promise(() => eventually(() => finished(log, ids)))
      const more = yield* send(3000)
      yield* Effect.promise(() => eventually(() => finished(log, more)))
      yield* Scope.close(first, Exit.void)
      const all = [...ids, ...more]
      const facts = hub.factsOf(log)
      for (const id of all) {
        const types = typesOf(facts.get(id)).join()
        // A claim that was pending at the rebalance is refused before the operator receives the
        // message.
        const submitted = types.replace(/^(?:HandoverStarted,HandoverRefused[^,]*,)+/u, '')
        assert.strictEqual(submitted, 'HandoverStarted,MessageSent,MessageDelivered', id)
      }
      const statistics = yield* operator.statistics
      assert.strictEqual(statistics['references'], all.length)
      assert.strictEqual(statistics['repeated'], 0)
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )

  it.live('pause a full lane without losing messages', () =>
    Effect.gen(function* () {
      const dispatcher = yield* makeDispatcher(
        options({ limits: { buffer: 4, open: 10, finished: 100_000 } }),
      )
      const log = yield* hub.follow(hub.topics.messages)
      yield* ready(dispatcher.isReady)
      const ids: Array<string> = []
      for (let i = 0; i < 10; i++) {
        ids.push(
          ...(yield* hub.send(
            Array.from({ length: 10 }, (_, n) => ({ to: `+79005${String(n).padStart(6, '0')}` })),
          )),
        )
      }
      yield* Effect.promise(() => eventually(() => finished(log, ids)))
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )
})

describe('the dispatcher as a process', () => {
  it.live('becomes ready, submits messages, and exits within ten seconds after SIGTERM', () =>
    Effect.gen(function* () {
      const adminPort = yield* Effect.promise(freePort)
      const main = new URL('./main.ts', import.meta.url).pathname
      let output = ''
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(process.execPath, [main], {
            env: { ...process.env, ...hub.environment, HUB_ADMIN_PORT: String(adminPort) },
          }),
        ),
        (running) => Effect.sync(() => running.kill('SIGKILL')),
      )
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (chunk: Buffer) => {
          output += chunk.toString('utf8')
        })
      }
      const log = yield* hub.follow(hub.topics.messages)
      yield* Effect.promise(() =>
        eventually(async () => (await fetch(`http://127.0.0.1:${adminPort}/readyz`)).ok),
      )
      const ids = yield* hub.send([{ to: '+79003334455' }, { to: '+79003334466', class: 'service' }])
      yield* Effect.promise(() => eventually(() => finished(log, ids)))
      const metrics = yield* Effect.promise(async () =>
        (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text(),
      )
      assert.include(metrics, 'hub_dispatcher_handover_latency_seconds')
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      const [code, signal] = yield* Effect.promise(
        () => exited as Promise<[number | null, string | null]>,
      ).pipe(Effect.timeout('10 seconds'))
      assert.isTrue(
        code === 0 || code === 130 || code === 143 || signal === 'SIGTERM',
        `${code} ${signal}\n${output}`,
      )
      assert.notInclude(output, '79003334455')
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )

  it.live('refuses to start with two operators for live keys, and names the reason', () =>
    Effect.gen(function* () {
      const adminPort = yield* Effect.promise(freePort)
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(process.execPath, [new URL('./main.ts', import.meta.url).pathname], {
            stdio: ['ignore', 'pipe', 'inherit'],
            env: {
              ...process.env,
              ...hub.environment,
              HUB_ADMIN_PORT: String(adminPort),
              HUB_OPERATOR_SMPP_URL: 'smpp://hub@127.0.0.1:9',
              HUB_OPERATOR_SMPP_PASSWORD: 'secret',
              HUB_OPERATOR_HTTP_URL: 'http://127.0.0.1:9',
            },
          }),
        ),
        (running) => Effect.sync(() => running.kill('SIGKILL')),
      )
      let output = ''
      child.stdout.on('data', (chunk: Buffer) => {
        output += chunk.toString('utf8')
      })
      const [code] = yield* Effect.promise(() => once(child, 'close') as Promise<[number | null]>)
      assert.strictEqual(code, 1)
      assert.include(output, 'HUB_OPERATOR_SMPP_URL is set, and so is HUB_OPERATOR_HTTP_URL')
    }).pipe(Effect.scoped),
  )
})
