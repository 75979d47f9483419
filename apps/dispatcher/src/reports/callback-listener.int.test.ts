/** The callback listener over HTTP. */
import { assert, describe, it } from '@effect/vitest'
import { signatureHeader } from '@hub/domain'
import { type InboundMessage, type OperatorReport, ReportSink, ReportsNotStored } from '@hub/operator'
import { Effect, Redacted } from 'effect'
import { listenForCallbacks } from './callback-listener.ts'

const SECRET = 'a secret shared with the operator'
const REPORTS = JSON.stringify([
  {
    operator_id: 'sim-1-1',
    reference: 'msg_a',
    status: 'delivered',
    reason: null,
    at: '2026-11-21T09:30:00.123Z',
  },
])

const listener = (
  store: ReportSink['Service']['store'],
  storeInbound: ReportSink['Service']['storeInbound'] = () => Effect.void,
) =>
  Effect.gen(function* () {
    const port = yield* listenForCallbacks({
      host: '127.0.0.1',
      port: 0,
      secret: Redacted.make(SECRET),
    }).pipe(Effect.provideService(ReportSink, { store, storeInbound, keepAnswers: () => {} }))
    return (path: string, init: { method?: string; body?: string | Buffer; secret?: string } = {}) =>
      Effect.promise(async () => {
        const body = Buffer.from(init.body ?? REPORTS)
        const method = init.method ?? 'POST'
        const response = await fetch(`http://127.0.0.1:${port}${path}`, {
          method,
          headers: {
            'content-type': 'application/json',
            'hub-operator-signature': signatureHeader(
              [init.secret ?? SECRET],
              Math.floor(Date.now() / 1000),
              body,
            ),
          },
          ...(method === 'POST' ? { body } : {}),
        })
        await response.arrayBuffer()
        return response.status
      })
  })

describe('the callback listener', () => {
  it.live('answers 200 only after the reports are stored', () =>
    Effect.gen(function* () {
      const taken: Array<OperatorReport> = []
      let up = false
      const post = yield* listener((reports) =>
        Effect.suspend(() => {
          if (!up) return Effect.fail(new ReportsNotStored({ detail: 'down' }))
          taken.push(...reports)
          return Effect.void
        }),
      )
      assert.strictEqual(yield* post('/reports'), 503)
      assert.deepStrictEqual(taken, [])
      up = true
      assert.strictEqual(yield* post('/reports'), 200)
      assert.deepStrictEqual(
        taken.map(({ operatorId }) => operatorId),
        ['sim-1-1'],
      )
    }).pipe(Effect.scoped),
  )

  it.live('stores inbound messages in the same way', () =>
    Effect.gen(function* () {
      const taken: Array<InboundMessage> = []
      let up = false
      const post = yield* listener(
        () => Effect.void,
        (messages) =>
          Effect.suspend(() => {
            if (!up) return Effect.fail(new ReportsNotStored({ detail: 'down' }))
            taken.push(...messages)
            return Effect.void
          }),
      )
      const message = {
        operator_id: 'in-1',
        from: '+79001234567',
        service_address: '2442',
        text: 'СТОП',
        at: '2026-11-21T09:30:00.123Z',
      }
      const body = JSON.stringify([message])
      assert.strictEqual(yield* post('/inbound', { body }), 503)
      up = true
      assert.strictEqual(yield* post('/inbound', { body }), 200)
      assert.deepStrictEqual(taken, [
        {
          operator: 'http',
          operatorId: 'in-1',
          from: '+79001234567',
          serviceAddress: '2442',
          text: 'СТОП',
          at: Date.parse(message.at),
          raw: Buffer.from(JSON.stringify(message)),
        },
      ])
      assert.strictEqual(yield* post('/inbound', { body, secret: 'another' }), 401)
      for (const wrong of [
        { ...message, from: '79001234567' },
        { ...message, text: 'x'.repeat(2001) },
        { ...message, at: 'yesterday' },
        { ...message, operator_id: '' },
      ]) {
        assert.strictEqual(yield* post('/inbound', { body: JSON.stringify([wrong]) }), 400)
      }
    }).pipe(Effect.scoped),
  )

  it.live('answers other requests with the defined status', () =>
    Effect.gen(function* () {
      const post = yield* listener(() => Effect.void)
      assert.strictEqual(yield* post('/'), 404)
      assert.strictEqual(yield* post('/reports', { method: 'GET' }), 405)
      assert.strictEqual(yield* post('/reports', { secret: 'another' }), 401)
      assert.strictEqual(yield* post('/reports', { body: '{}' }), 400)
      assert.strictEqual(yield* post('/reports', { body: Buffer.alloc(200 * 1024, 0x20) }), 413)
      assert.strictEqual(yield* post('/reports'), 200)
    }).pipe(Effect.scoped),
  )
})
