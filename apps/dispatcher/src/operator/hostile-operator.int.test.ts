/** The whole dispatcher with an HTTP operator whose answers and callbacks break its rules. */
import { assert, describe, it } from '@effect/vitest'
import { signatureHeader } from '@hub/domain'
import { HTTP } from '@hub/operator'
import { eventually, freePort } from '@hub/testkit'
import { Effect, Redacted } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { makeDispatcher } from '../app.ts'
import { makeTestHub, settingsIn, type TestHub } from '../testing/environment.ts'
import { operatorServer } from '../testing/operator-server.ts'

let hub: TestHub
beforeAll(async () => {
  hub = await makeTestHub()
})
afterAll(() => hub.remove())

const SECRET = 'a secret shared with the operator'
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
const NESTED = nested(100_000)

/** A server that answers each message with one of these bodies first, and correctly after that. */
const hostileOperator = Effect.gen(function* () {
  const element = (reference: string, ids: ReadonlyArray<string>) => [
    { reference, status: 'accepted', operator_ids: ids },
  ]
  const hostile: ReadonlyArray<(reference: string) => string> = [
    () => NESTED,
    () => `[{"reference":${NESTED}}]`,
    (reference) => JSON.stringify(element(reference, ['a\0b'])),
    (reference) => JSON.stringify(element(reference, ['x'.repeat(300_000)])),
    (reference) =>
      JSON.stringify(
        element(
          reference,
          Array.from({ length: 50_000 }, (_, i) => String(i)),
        ),
      ),
  ]
  const times = new Map<string, number>()
  const url = yield* operatorServer((batch, response) => {
    for (const { reference } of batch) times.set(reference, (times.get(reference) ?? 0) + 1)
    const [first] = batch
    const attack = batch.length === 1 && times.get(first!.reference) === 1 ? Number(first!.text) : -1
    response.end(
      hostile[attack]?.(first!.reference) ??
        JSON.stringify(batch.map(({ reference }) => element(reference, [`op-${reference}`])[0])),
    )
  })
  return { url, attacks: hostile.length, times }
})

const post = (port: number, body: string) =>
  Effect.promise(async () => {
    const octets = Buffer.from(body)
    const response = await fetch(`http://127.0.0.1:${port}/reports`, {
      method: 'POST',
      headers: {
        'hub-operator-signature': signatureHeader([SECRET], Math.floor(Date.now() / 1000), octets),
      },
      body: octets,
    })
    return response.status
  })

describe('a hostile HTTP operator', () => {
  it.live('does not end the dispatcher: messages are submitted again, and usable reports count', () =>
    Effect.gen(function* () {
      const operator = yield* hostileOperator
      const port = yield* Effect.promise(freePort)
      const dispatcher = yield* makeDispatcher({
        ...settingsIn(hub),
        live: {
          name: HTTP,
          settings: {
            url: operator.url,
            secret: Redacted.make(SECRET),
            callback: { host: '127.0.0.1', port },
          },
        },
      })
      const log = yield* hub.follow(hub.topics.messages)
      const typesOf = (id: string) => (hub.factsOf(log).get(id) ?? []).map(({ type }) => type)
      const isEach = (ids: ReadonlyArray<string>, type: string) =>
        Effect.promise(() => eventually(() => ids.every((id) => typesOf(id).includes(type as never))))
      const scenario = Effect.gen(function* () {
        const ids: Array<string> = []
        // One by one, so that each attack is the answer to one request.
        for (let attack = 0; attack < operator.attacks; attack++) {
          const [id] = yield* hub.send([{ to: `+7900123456${attack}`, mode: 'live', text: String(attack) }])
          ids.push(id!)
          yield* Effect.promise(() => eventually(() => operator.times.get(id!) === 1))
        }
        yield* isEach(ids, 'MessageSent')
        assert.deepStrictEqual(
          ids.map((id) => operator.times.get(id)),
          ids.map(() => 2),
        )

        const at = new Date().toISOString()
        const reportOf = (id: string) => ({
          operator_id: `op-${id}`,
          reference: id,
          status: 'delivered',
          at,
        })
        assert.strictEqual(yield* post(port, nested(50_000)), 400)
        assert.strictEqual(
          yield* post(port, JSON.stringify([{ ...reportOf(ids[0]!), operator_id: 'a\0b' }])),
          400,
        )
        const bad = [{ operator_id: 'a\0b' }, { operator_id: 'x'.repeat(1000) }, { reference: 'msg\0' }]
        assert.strictEqual(
          yield* post(
            port,
            JSON.stringify([
              ...bad.map((wrong) => ({ ...reportOf(ids[0]!), ...wrong })),
              ...ids.map(reportOf),
            ]),
          ),
          200,
        )
        yield* isEach(ids, 'MessageDelivered')
      })
      yield* Effect.raceFirst(dispatcher.failure, scenario)
    }).pipe(Effect.scoped, Effect.provide(hub.layer)),
  )
})
