import { assert, describe, it } from '@effect/vitest'
import { signatureHeader } from '@hub/domain'
import { type OperatorReport, ReportSink, ReportsNotTaken } from '@hub/operator'
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

const listener = (take: ReportSink['Service']['take']) =>
  Effect.gen(function* () {
    const port = yield* listenForCallbacks({
      host: '127.0.0.1',
      port: 0,
      secret: Redacted.make(SECRET),
    }).pipe(Effect.provideService(ReportSink, { take, takeInbound: () => Effect.void }))
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

describe('the listener for callbacks', () => {
  it.live('says 200 once the reports are written, and not before', () =>
    Effect.gen(function* () {
      const taken: Array<OperatorReport> = []
      let up = false
      const post = yield* listener((reports) =>
        Effect.suspend(() => {
          if (!up) return Effect.fail(new ReportsNotTaken({ detail: 'down' }))
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

  it.live('has an answer for everything else', () =>
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
