/** Messages of several accounts, of which one has a long backlog. */
import { assert, describe, it } from '@effect/vitest'
import { newId } from '@hub/domain'
import { HTTP } from '@hub/operator'
import { eventually } from '@hub/testkit'
import { Effect, Redacted } from 'effect'
import { randomBytes } from 'node:crypto'
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

describe('a long backlog of one account', () => {
  it.live(
    'does not delay the messages of another account',
    () =>
      Effect.gen(function* () {
        const [BACKLOG, CHUNK, OTHERS] = [20_000, 2000, 100]
        const operator = yield* countingOperator
        operator.setBusy(true)
        operator.throttle(500)
        const dispatcher = yield* makeDispatcher({
          ...settingsIn(hub),
          live: {
            name: HTTP,
            settings: { url: operator.url, secret: Redacted.make('of the test'), callback: null },
          },
        })
        yield* Effect.promise(() => eventually(() => Effect.runPromise(dispatcher.isReady), WITHIN))

        for (let i = 0; i < BACKLOG; i += CHUNK) {
          yield* hub.send(
            Array.from({ length: CHUNK }, (_, n) => ({
              to: `+7901${String(i + n).padStart(7, '0')}`,
              mode: 'live' as const,
              class: 'service' as const,
            })),
          )
        }
        const others = yield* hub.send(
          Array.from({ length: OTHERS }, (_, i) => ({
            account: newId('acc', Date.now(), randomBytes(10)),
            to: `+7902${String(i).padStart(7, '0')}`,
            mode: 'live' as const,
            class: 'service' as const,
          })),
        )
        operator.setBusy(false)
        yield* Effect.promise(() => eventually(() => others.every((id) => operator.taken.has(id)), WITHIN))

        const order = [...operator.taken.keys()]
        const last = Math.max(...others.map((id) => order.indexOf(id)))
        // In the order of the lanes, the whole backlog would be before the last of them.
        assert.isBelow(last - OTHERS, BACKLOG / 4)
      }).pipe(Effect.scoped, Effect.provide(hub.layer)),
    200_000,
  )
})
