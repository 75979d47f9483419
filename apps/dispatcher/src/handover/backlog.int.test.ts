/**
 * Lanes with more messages than a shard may buffer, and processes that are stopped and continued.
 */
import { assert, describe, it } from '@effect/vitest'
import type { IncomingRecord } from '@hub/kafka'
import { HTTP } from '@hub/operator'
import { eventually, freePort } from '@hub/testkit'
import { Effect, Redacted } from 'effect'
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { makeDispatcher } from '../app.ts'
import { countingOperator } from '../testing/counting-operator.ts'
import { makeTestHub, settingsIn, type TestHub } from '../testing/environment.ts'

let hub: TestHub
beforeAll(async () => {
  hub = await makeTestHub()
})
afterAll(() => hub.remove())

const WITHIN = { withinMs: 180_000 }

const sent = (log: ReadonlyArray<IncomingRecord>, ids: ReadonlyArray<string>): boolean => {
  const facts = hub.factsOf(log)
  return ids.every((id) => facts.get(id)?.some(({ type }) => type === 'MessageSent') === true)
}

describe('a lane with more messages than its shard may buffer', () => {
  it.live(
    'is read on for other operators, puts codes first, and loses, repeats and reorders nothing',
    () =>
      Effect.gen(function* () {
        const operator = yield* countingOperator
        operator.setBusy(true)
        const dispatcher = yield* makeDispatcher({
          ...settingsIn(hub),
          live: {
            name: HTTP,
            settings: { url: operator.url, secret: Redacted.make('of the test'), callback: null },
          },
          sandbox: { reportDelayMs: 50, lateReportMs: 4000, window: 100 },
          limits: { buffer: 10, open: 10_000, finished: 100_000 },
        })
        const log = yield* hub.follow(hub.topics.messages)
        yield* Effect.promise(() => eventually(() => Effect.runPromise(dispatcher.isReady), WITHIN))

        const recipients = 40
        const campaign = yield* hub.send(
          Array.from({ length: 400 }, (_, i) => ({
            to: `+79006${String(i % recipients).padStart(6, '0')}`,
            mode: 'live' as const,
            class: 'service' as const,
          })),
        )
        const others = yield* hub.send(
          Array.from({ length: 30 }, (_, i) => ({
            to: `+79007${String(i).padStart(6, '0')}`,
            mode: 'test' as const,
            class: 'service' as const,
          })),
        )
        // They are behind 400 messages that their operator does not accept.
        yield* Effect.promise(() => eventually(() => sent(log, others), WITHIN))
        assert.strictEqual(operator.taken.size, 0)
        yield* Effect.promise(() => eventually(() => operator.refusals() >= 2, WITHIN))

        const codes = yield* hub.send(
          Array.from({ length: 5 }, (_, i) => ({
            to: `+79008${String(i).padStart(6, '0')}`,
            mode: 'live' as const,
          })),
        )
        operator.setBusy(false)
        yield* Effect.promise(() =>
          eventually(() => operator.taken.size === campaign.length + codes.length, WITHIN),
        )
        yield* Effect.promise(() => eventually(() => sent(log, [...campaign, ...codes]), WITHIN))

        assert.deepStrictEqual([...new Set(operator.taken.values())], [1], 'each once')
        const place = new Map([...operator.taken.keys()].map((id, i) => [id, i]))
        for (let i = recipients; i < campaign.length; i++) {
          assert.isBelow(
            place.get(campaign[i - recipients]!)!,
            place.get(campaign[i]!)!,
            'messages of a recipient keep the order of their acceptance',
          )
        }
      }).pipe(Effect.scoped, Effect.provide(hub.layer)),
    200_000,
  )
})

describe('a process that is stopped for longer than its session', () => {
  it.live(
    'has lost its shards, and submits nothing when it continues',
    () =>
      Effect.gen(function* () {
        const operator = yield* countingOperator
        const start = (name: string) =>
          Effect.gen(function* () {
            const adminPort = yield* Effect.promise(freePort)
            const callbackPort = yield* Effect.promise(freePort)
            const child: ChildProcess = yield* Effect.acquireRelease(
              Effect.sync(() =>
                spawn(process.execPath, [new URL('../main.ts', import.meta.url).pathname], {
                  stdio: ['ignore', 'ignore', 'inherit'],
                  env: {
                    ...process.env,
                    ...hub.environment,
                    HUB_LOG_LEVEL: 'Error',
                    HUB_DATA_DIR: join(hub.directory, name),
                    HUB_ADMIN_PORT: String(adminPort),
                    HUB_OPERATOR_HTTP_URL: operator.url.href,
                    HUB_OPERATOR_HTTP_SECRET: 'of the test',
                    HUB_OPERATOR_CALLBACK_PORT: String(callbackPort),
                  },
                }),
              ),
              (running) => Effect.sync(() => running.kill('SIGKILL')),
            )
            const admin = (path: string) => fetch(`http://127.0.0.1:${adminPort}${path}`)
            const isReady = () =>
              admin('/readyz').then(
                (response) => response.ok,
                () => false,
              )
            const openShards = async () =>
              Number(
                /^hub_dispatcher_open_shards(?:\{[^}]*\})? (\d+)/mu.exec(
                  await (await admin('/metrics')).text(),
                )?.[1],
              )
            yield* Effect.promise(() => eventually(isReady, WITHIN))
            return { child, isReady, openShards }
          })
        const send = (from: number) =>
          hub.send(
            Array.from({ length: 60 }, (_, i) => ({
              to: `+79009${String(from + i).padStart(6, '0')}`,
              mode: 'live' as const,
              class: i % 2 === 0 ? ('otp' as const) : ('service' as const),
            })),
          )
        const all = (ids: ReadonlyArray<string>) =>
          Effect.promise(() => eventually(() => ids.every((id) => operator.taken.has(id)), WITHIN))

        const one = yield* start('one')
        const two = yield* start('two')
        yield* Effect.promise(() =>
          eventually(async () => (await one.openShards()) === 1 && (await two.openShards()) === 1, WITHIN),
        )
        const log = yield* hub.follow(hub.topics.messages)
        const before = yield* send(0)
        yield* all(before)
        yield* Effect.promise(() => eventually(() => sent(log, before), WITHIN))

        one.child.kill('SIGSTOP')
        // The sockets of the stopped process still contain data when it continues.
        const meanwhile = yield* send(1000)
        yield* all(meanwhile)
        yield* Effect.promise(() => eventually(async () => (await two.openShards()) === 2, WITHIN))
        one.child.kill('SIGCONT')

        yield* Effect.promise(() =>
          eventually(async () => (await one.openShards()) === 1 && (await two.openShards()) === 1, WITHIN),
        )
        const afterwards = yield* send(2000)
        yield* all(afterwards)
        yield* Effect.promise(() => eventually(() => sent(log, [...meanwhile, ...afterwards]), WITHIN))
        for (const [id, times] of operator.taken) assert.strictEqual(times, 1, id)
      }).pipe(Effect.scoped, Effect.provide(hub.layer)),
    300_000,
  )
})
