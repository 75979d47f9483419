/** What a hub shows of itself to those who run it: traces, and what dashboards and alerts are made of. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  answering,
  eventually,
  makeCertificateAuthority,
  startHub,
  type TestHub,
  tlsReceiver,
  type TlsReceiver,
} from '@hub/testkit'
import { Effect, Exit, Scope } from 'effect'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, client, send } from '../support/client.ts'
import { leaksIn, needlesOfNumber, needlesOfText } from '../support/leaks.ts'
import { type CollectedSpan, type SpanCollector, startSpanCollector } from '../support/otlp.ts'

const PATIENTLY = { withinMs: 30_000, everyMs: 50 } as const

let hub: TestHub
let collector: SpanCollector
let receiver: TlsReceiver
let test: Client
const scope = Effect.runSync(Scope.make())

beforeAll(async () => {
  collector = await startSpanCollector()
  const authority = await makeCertificateAuthority()
  const caFile = join(mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'ca-')), 'ca.pem')
  writeFileSync(caFile, authority.pem)
  receiver = await Effect.runPromise(
    Scope.provide(tlsReceiver(await authority.issue(['127.0.0.1']), { respond: answering(204) }), scope),
  )
  hub = await startHub({
    environment: {
      HUB_WEBHOOK_ALLOWED_HOSTS: '127.0.0.1',
      HUB_WEBHOOK_CA_FILE: caFile,
      HUB_OTLP_URL: collector.url,
      // What is sampled here is what a caller asks for.
      HUB_TRACE_RATIO: '0',
    },
  })
  const { base_url, keys } = hub.describe()
  test = client(base_url, keys.test)
})
afterAll(async () => {
  await hub?.stop()
  await Effect.runPromise(Scope.close(scope, Exit.void))
  await collector?.stop()
})

describe('a send whose caller traces it', () => {
  const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
  const CALLER = '00f067aa0ba902b7'
  const NUMBER = '+79001234567'
  const CODE = '4821390765'

  it('is one trace over four processes, from the request to the webhook', async () => {
    const made = await test.post('/v1/webhook_endpoints', { url: receiver.url('/hook?token=do-not-tell') })
    expect(made.status).toBe(201)
    const accepted = await test.post(
      '/v1/messages',
      { ...send('otp', NUMBER, 'traced-1'), variables: { code: CODE } },
      {
        traceparent: `00-${TRACE}-${CALLER}-01`,
      },
    )
    expect(accepted.status).toBe(202)
    const { id } = accepted.body
    const delivered = await eventually(
      () =>
        receiver.received.find(({ body }) =>
          JSON.parse(body.toString('utf8')).some(
            (event: any) => event.type === 'message.delivered' && event.data.object.id === id,
          ),
        ),
      PATIENTLY,
    )
    // The receiver can go on with it.
    const [, trace, attempt] = String(delivered.headers['traceparent']).split('-')
    expect(trace).toBe(TRACE)

    const spanOf = (spanId: string | null | undefined): CollectedSpan | undefined =>
      collector.spans.find((span) => span.spanId === spanId)
    const webhook = await eventually(() => spanOf(attempt), PATIENTLY)
    /** From the webhook back to the first span. */
    const chain = await eventually(() => {
      const found = [webhook]
      for (let next = spanOf(webhook.parentSpanId); next !== undefined; next = spanOf(next.parentSpanId)) {
        found.push(next)
      }
      return found.at(-1)?.parentSpanId === CALLER ? found.toReversed() : undefined
    }, PATIENTLY)

    expect(chain.map(({ name, service }) => `${service}: ${name}`)).toEqual([
      'command-api: POST /v1/messages',
      'dispatcher: process hub.accepted.otp.v1',
      'projector: process hub.messages.v1',
      'webhook-fanout: POST',
    ])
    const handover = await eventually(
      () => collector.spans.find(({ name }) => name === 'hand over sandbox'),
      PATIENTLY,
    )
    expect(handover.parentSpanId).toBe(chain[1]?.spanId)
    expect(handover.attributes).toMatchObject({ 'hub.message_id': id, 'hub.outcome': 'accepted' })
    const sent = collector.spans.find(({ name }) => name === 'send hub.accepted.otp.v1')
    expect(sent?.parentSpanId).toBe(chain[0]?.spanId)
    expect(chain[0]?.attributes).toMatchObject({
      'http.request.method': 'POST',
      'http.route': '/v1/messages',
      'http.response.status_code': 202,
      'hub.message_id': id,
      'hub.request_id': accepted.headers.get('request-id'),
    })
    expect(webhook.attributes).toMatchObject({
      'http.request.method': 'POST',
      'http.response.status_code': 204,
      'server.address': '127.0.0.1',
    })
    // Nothing else was sampled, and nothing that was lacks its parent.
    expect(new Set(collector.spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]))
    for (const span of collector.spans) {
      expect(span.parentSpanId === CALLER || spanOf(span.parentSpanId) !== undefined, span.name).toBe(true)
      expect(span.endedAt).toBeGreaterThanOrEqual(span.startedAt)
    }
    // Nothing personal, and nothing secret: the number, the variable within its text, the key, what the webhook's address hides.
    const needles = [
      ...needlesOfNumber(NUMBER),
      ...[CODE, hub.describe().keys.test, 'do-not-tell', made.body.secret].flatMap(needlesOfText),
    ]
    expect(
      leaksIn(
        collector.bodies.map((bytes) => ({ where: 'spans', bytes })),
        needles,
      ),
    ).toEqual([])
  })
})
