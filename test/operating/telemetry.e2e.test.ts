/** Checks the telemetry of a running hub: traces, metrics, and the queries of the dashboards. */
import { eventually } from '@hub/testkit'
import { startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dashboards } from '../../infra/observability/src/dashboards.ts'
import { definedMetrics, seriesOf } from '../../infra/observability/src/metrics.ts'
import { type Client, client, send } from '../support/client.ts'
import { eventsIn, startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'
import { findLeaks, needlesOfNumber, needlesOfText } from '../support/secret-search.ts'
import { unavailableReason, type Prometheus, startPrometheus } from '../support/prometheus.ts'
import { type CollectedSpan, type SpanCollector, startSpanCollector } from '../support/span-collector.ts'

console.log(
  'The OpenTelemetry Collector takes minutes to compile, so it is not here: npm run interop -- otel-collector',
)

const EVENTUALLY = { everyMs: 50 } as const

let hub: TestHub
let collector: SpanCollector
let receiver: WebhookReceiver
let test: Client
/** The secret of the subscription to all events. */
let secret: string
const TOKEN = 'do-not-tell'

beforeAll(async () => {
  collector = await startSpanCollector()
  receiver = await startWebhookReceiver(204)
  hub = await startHub({
    operations: true,
    environment: {
      ...receiver.environment,
      HUB_OTLP_URL: collector.url,
      // Only requests with a sampled parent are traced.
      HUB_TRACE_RATIO: '0',
    },
  })
  const { base_url, keys } = hub.describe()
  test = client(base_url, keys.test)
  // The request waits for the fan-out, and returns 503 if that takes too long on a busy machine.
  secret = await eventually(async () => {
    const made = await test.post('/v1/webhook_endpoints', { url: receiver.url(`/hook?token=${TOKEN}`) })
    return made.status === 201 ? (made.body.secret as string) : null
  }, EVENTUALLY)
})
afterAll(async () => {
  await hub?.stop()
  await receiver?.close()
  await collector?.stop()
})

describe('a send with a traceparent', () => {
  const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
  const CALLER = '00f067aa0ba902b7'
  const STATE = 'rojo=00f067aa0ba902b7'
  const NUMBER = '+79001234567'
  const CODE = '4821390765'

  it('creates one trace over four processes, from the request to the webhook', async () => {
    const accepted = await test.post(
      '/v1/messages',
      { ...send('otp', NUMBER, 'traced-1'), variables: { code: CODE } },
      {
        traceparent: `00-${TRACE}-${CALLER}-01`,
        tracestate: `${STATE} , congo=t61rcWkgMzE`,
      },
    )
    expect(accepted.status).toBe(202)
    const { id } = accepted.body
    const delivered = await eventually(
      () =>
        receiver.received.find((request) =>
          eventsIn([request]).some(
            (event) => event.type === 'message.delivered' && event.data.object.id === id,
          ),
        ),
      EVENTUALLY,
    )
    // The webhook passes the trace on to the receiver.
    const [, trace, attempt] = String(delivered.headers['traceparent']).split('-')
    expect(trace).toBe(TRACE)
    expect(delivered.headers['tracestate']).toBe(`${STATE},congo=t61rcWkgMzE`)

    const spanOf = (spanId: string | null | undefined): CollectedSpan | undefined =>
      collector.spans.find((span) => span.spanId === spanId)
    const webhook = await eventually(() => spanOf(attempt), EVENTUALLY)
    /** The spans from the first one to the webhook. */
    const chain = await eventually(() => {
      const found = [webhook]
      for (let next = spanOf(webhook.parentSpanId); next !== undefined; next = spanOf(next.parentSpanId)) {
        found.push(next)
      }
      return found.at(-1)?.parentSpanId === CALLER ? found.toReversed() : undefined
    }, EVENTUALLY)

    expect(chain.map(({ name, service }) => `${service}: ${name}`)).toEqual([
      'command-api: POST /v1/messages',
      'dispatcher: process hub.accepted.otp.v1',
      'projector: process hub.messages.v1',
      'webhook-fanout: POST',
    ])
    const handover = await eventually(
      () => collector.spans.find(({ name }) => name === 'hand over sandbox'),
      EVENTUALLY,
    )
    expect(handover.parentSpanId).toBe(chain[1]?.spanId)
    expect(handover.attributes).toMatchObject({ 'hub.message_id': id, 'hub.outcome': 'accepted' })
    const sent = collector.spans.find(({ name }) => name === 'send hub.accepted.otp.v1')
    expect(sent?.parentSpanId).toBe(chain[0]?.spanId)
    // A request that was answered with 503 is repeated, and the message belongs to the trace of the first one.
    const requested = await eventually(
      () =>
        collector.spans.find(
          (span) => span.attributes['hub.request_id'] === accepted.headers.get('request-id'),
        ),
      EVENTUALLY,
    )
    expect(requested.attributes).toMatchObject({
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
    // No other trace was sampled, and no span lacks its parent.
    expect(new Set(collector.spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]))
    for (const span of collector.spans) {
      expect(span.parentSpanId === CALLER || spanOf(span.parentSpanId) !== undefined, span.name).toBe(true)
      expect(span.endedAt).toBeGreaterThanOrEqual(span.startedAt)
      expect(span.traceState).toBe(`${STATE},congo=t61rcWkgMzE`)
    }
    // The spans contain no personal data and no secret: not the number, the variable, the API key,
    // or the query of the webhook address.
    const needles = [
      ...needlesOfNumber(NUMBER),
      ...[CODE, hub.describe().keys.test, TOKEN, secret].flatMap(needlesOfText),
    ]
    expect(
      findLeaks(
        collector.bodies.map((bytes) => ({ where: 'spans', bytes })),
        needles,
      ),
    ).toEqual([])
  })
})

describe('the metrics of a running hub', () => {
  /** The admin ports by the names of the apps in dashboards and alerts. */
  const adminPorts = (): Readonly<Record<string, number>> => ({
    'command-api': hub.ports.commandApiAdmin,
    dispatcher: hub.ports.dispatcherAdmin,
    projector: hub.ports.projectorAdmin,
    'webhook-fanout': hub.ports.webhookFanoutAdmin,
    'operations-api': hub.ports.operationsApiAdmin,
  })

  /** Signs a person in, who keeps the overview open, until the returned function is called. */
  const openOverview = async (): Promise<() => void> => {
    const login = await fetch(hub.loginLink('Anna', ['viewer']), { redirect: 'manual' })
    const cookie = login.headers.getSetCookie()[0]?.split(';', 1)[0] ?? ''
    const page = new AbortController()
    const stream = await fetch(`${hub.describe().operations_url}/v1/overview/stream`, {
      headers: { cookie },
      signal: page.signal,
    })
    expect(stream.status).toBe(200)
    return () => page.abort()
  }

  it('are in the catalogue, with its labels and without personal data', async () => {
    const defined = new Map(
      definedMetrics().flatMap((one) => seriesOf(one).map((name) => [name, one] as const)),
    )
    const { account } = (await test.get('/v1/account')).body
    for (const [app, port] of Object.entries(adminPorts())) {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      const series = text.split('\n').filter((line) => line.startsWith('hub_'))
      expect(series.length, app).toBeGreaterThan(5)
      for (const line of series) {
        const { labels = '', name = '' } = /^(?<name>\w+)(?:\{(?<labels>.*)\})? /u.exec(line)?.groups ?? {}
        const metric = defined.get(name)
        expect(metric, line).toBeDefined()
        for (const [, label] of labels.matchAll(/(?:^|,)(\w+)="/gu)) {
          expect([...Object.keys(metric?.labels ?? {}), 'le'], line).toContain(label)
        }
        // No id, phone number or address.
        expect(labels).not.toMatch(/\b(?:msg|acc|evt|evb|we|req|bat|key)_|\d{8}|127\.0\.0\.1/u)
        if (typeof account === 'string') expect(labels).not.toContain(account)
      }
    }
  })

  it('contain the series that each panel of each dashboard queries', async (context) => {
    const reason = await unavailableReason('prometheus')
    if (reason !== null) {
      console.log(`Skipped, because Prometheus is not available: ${reason}`)
      context.skip(reason)
      return
    }
    const ports = adminPorts()
    const prometheus: Prometheus = await startPrometheus(ports)
    let closeOverview = () => {}
    try {
      // Some panels show only what has risen since a scrape, so every app is scraped before the sends.
      await eventually(async () => {
        const scraped = await prometheus.query('up == 1')
        return scraped.status === 'success' && scraped.series === Object.keys(ports).length ? true : null
      }, EVENTUALLY)
      const { base_url, keys } = hub.describe()
      const live = client(base_url, keys.live)
      const sent = [
        await test.post('/v1/messages', send('service', '+79001234568')),
        await live.post('/v1/messages', send('otp', '+79001234569')),
        await live.post('/v1/messages', send('service', '+79001234570')),
      ]
      expect(sent.map(({ status }) => status)).toEqual([202, 202, 202])
      closeOverview = await openOverview()
      const queries = dashboards.flatMap(({ panels, title }) =>
        panels.flatMap((panel) =>
          panel.queries.map(({ expr, mayBeEmpty }) => ({
            what: `${title}, ${panel.title}: ${expr}`,
            promql: expr.replaceAll('$__rate_interval', '1m'),
            mayBeEmpty: mayBeEmpty !== undefined,
          })),
        ),
      )
      // Some series exist only after a few scrapes and after the sent messages are final.
      let withoutSeries = queries
      await eventually(
        async () => {
          const answers = await Promise.all(withoutSeries.map(({ promql }) => prometheus.query(promql)))
          for (const [i, answer] of answers.entries()) {
            expect(answer, withoutSeries[i]!.what).toMatchObject({ status: 'success' })
          }
          withoutSeries = withoutSeries.filter(({ mayBeEmpty }, i) => {
            const answer = answers[i]!
            return !mayBeEmpty && answer.status === 'success' && answer.series === 0
          })
          expect(withoutSeries.map(({ what }) => what)).toEqual([])
          return true
        },
        { ...EVENTUALLY, everyMs: 1000 },
      )
    } finally {
      closeOverview()
      await prometheus.stop()
    }
  })
})
