/** The export of spans to a receiver that answers, refuses, hangs, or is not reachable. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { assert, describe, it } from '@effect/vitest'
import { ConfigProvider, Effect, Exit, Layer, Logger, Metric, Scope } from 'effect'
import { readTraceparent, traceHeadersOf } from './context.ts'
import { Tracing, tracingLayer } from './tracing.ts'

interface Receiver {
  readonly url: string
  readonly spans: ReadonlyArray<Record<string, any>>
  readonly requests: () => number
  /** Sets the status of all later answers. */
  answer: (response: ServerResponse) => void
  /** Waits for the condition. Only the timeout of the test limits the wait. */
  readonly until: (condition: () => boolean) => Effect.Effect<void>
}

const receiver = Effect.gen(function* () {
  const spans: Array<Record<string, any>> = []
  let requests = 0
  const waiting = new Set<() => void>()
  const made = {
    answer: (response: ServerResponse): void => void response.writeHead(200).end('{}'),
  }
  const take = (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Array<Buffer> = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      requests++
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as any
      for (const { resource, scopeSpans } of body.resourceSpans) {
        for (const { spans: some } of scopeSpans)
          for (const span of some) spans.push({ ...span, resource, path: request.url })
      }
      made.answer(response)
      for (const check of waiting) check()
    })
  }
  const server = yield* Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>>((resume) => {
      const created = createServer(take)
      created.listen(0, '127.0.0.1', () => resume(Effect.succeed(created)))
    }),
    (one) =>
      Effect.callback<void>((resume) => {
        one.close(() => resume(Effect.void))
        one.closeAllConnections()
      }),
  )
  return Object.assign(made, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests: () => requests,
    until: (condition: () => boolean) =>
      Effect.callback<void>((resume) => {
        const check = () => {
          if (!condition()) return
          waiting.delete(check)
          resume(Effect.void)
        }
        waiting.add(check)
        check()
      }),
  }) satisfies Receiver
})

const tracingTo = (url: string, ratio = '1') =>
  tracingLayer('command-api').pipe(
    Layer.provide(Logger.layer([])),
    Layer.provide(
      ConfigProvider.layer(
        ConfigProvider.fromUnknown(url === '' ? {} : { HUB_OTLP_URL: url, HUB_TRACE_RATIO: ratio }),
      ),
    ),
  )

const END = {
  name: 'POST /v1/messages',
  kind: 'server',
  attributes: { 'http.route': '/v1/messages' },
} as const

const droppedBecause = (reason: string) =>
  Effect.map(
    Metric.snapshot,
    (all) =>
      (
        all.find(
          ({ attributes, id }) => id === 'hub_trace_spans_dropped_total' && attributes?.['reason'] === reason,
        )?.state as { readonly count: number | bigint } | undefined
      )?.count ?? 0,
  )

describe('traces', () => {
  it.live('are off without a receiver', () =>
    Effect.gen(function* () {
      const tracing = yield* Tracing
      assert.isFalse(tracing.isOn)
      assert.isNull(tracing.startRequest(null))
      assert.isNull(
        tracing.startRequest(readTraceparent('00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01')),
      )
      assert.isNull(tracing.continueTrace('00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'))
    }).pipe(Effect.provide(tracingTo(''))),
  )

  it.live('follow the decision of the caller, and sample a share of the other requests', () =>
    Effect.gen(function* () {
      const { url } = yield* receiver
      const sampled = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
      const unsampled = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00'
      yield* Effect.gen(function* () {
        const tracing = yield* Tracing
        assert.isNull(tracing.startRequest(null))
        assert.strictEqual(tracing.startRequest(readTraceparent(sampled))?.parentId, '00f067aa0ba902b7')
      }).pipe(Effect.provide(tracingTo(url, '0')))
      yield* Effect.gen(function* () {
        const tracing = yield* Tracing
        assert.isNull(tracing.startRequest(null)?.parentId)
        assert.isNull(tracing.startRequest(readTraceparent(unsampled)))
        assert.isNull(tracing.continueTrace(unsampled))
        assert.strictEqual(tracing.continueTrace(sampled)?.traceId, '4bf92f3577b34da6a3ce929d0e0e4736')
        assert.strictEqual(tracing.continueTrace(sampled, 'rojo=1')?.tracestate, 'rojo=1')
      }).pipe(Effect.provide(tracingTo(url, '1')))
    }).pipe(Effect.scoped),
  )

  it.live('arrive with their parents, times, attributes and links', () =>
    Effect.gen(function* () {
      const { spans, until, url } = yield* receiver
      const context = yield* Layer.build(tracingTo(url))
      const tracing = yield* Effect.provide(Tracing, context)
      const root = tracing.startRequest(null)!
      const child = tracing.childOf({ ...root, tracestate: 'rojo=1' })
      tracing.record(root, { ...END, startedAt: 1_700_000_000_000.25, endedAt: 1_700_000_000_001 })
      tracing.record(child, {
        name: 'send',
        kind: 'producer',
        startedAt: 1_700_000_000_000.5,
        endedAt: 1_700_000_000_000,
        attributes: { 'messaging.batch.message_count': 2, 'hub.flag': true },
        error: 'timeout',
        links: [{ ...traceHeadersOf(root), tracestate: 'rojo=2' }],
      })
      yield* until(() => spans.length === 2)
      const [one, other] = spans
      assert.strictEqual(one?.path, '/v1/traces')
      assert.include(
        JSON.stringify(one?.['resource']),
        '"service.name","value":{"stringValue":"command-api"}',
      )
      assert.deepInclude(one, {
        traceId: root.traceId,
        spanId: root.spanId,
        name: 'POST /v1/messages',
        kind: 2,
        startTimeUnixNano: '1700000000000250000',
        endTimeUnixNano: '1700000000001000000',
        status: { code: 0 },
        attributes: [{ key: 'http.route', value: { stringValue: '/v1/messages' } }],
      })
      assert.deepInclude(other, {
        traceId: root.traceId,
        parentSpanId: root.spanId,
        kind: 4,
        traceState: 'rojo=1',
        // A clock that was set back gives no negative duration.
        endTimeUnixNano: '1700000000000500000',
        status: { code: 2 },
        attributes: [
          { key: 'messaging.batch.message_count', value: { intValue: 2 } },
          { key: 'hub.flag', value: { boolValue: true } },
          { key: 'error.type', value: { stringValue: 'timeout' } },
        ],
      })
      assert.isFalse(Object.hasOwn(one!, 'traceState'))
      assert.deepInclude(other?.['links'][0], { spanId: root.spanId, traceState: 'rojo=2' })
    }).pipe(Effect.scoped),
  )

  it.live('stay queued while the receiver is unavailable, and are exported later', () =>
    Effect.gen(function* () {
      const target = yield* receiver
      target.answer = (response) => response.writeHead(503).end()
      const tracing = yield* Effect.provide(Tracing, yield* Layer.build(tracingTo(target.url)))
      tracing.record(tracing.startRequest(null)!, { ...END, startedAt: 1 })
      yield* target.until(() => target.requests() === 1)
      target.answer = (response) => response.writeHead(200).end()
      yield* target.until(() => target.requests() === 2)
      const [first, again] = target.spans
      assert.strictEqual(again?.['spanId'], first?.['spanId'])
    }).pipe(Effect.scoped),
  )

  it.live(
    'wait in a bounded queue while the receiver hangs, and delay neither the work nor the shutdown',
    () =>
      Effect.gen(function* () {
        const target = yield* receiver
        target.answer = () => {}
        const before = Number(yield* droppedBecause('queue_full'))
        const scope = yield* Scope.make()
        const tracing = yield* Effect.provide(
          Tracing,
          yield* Layer.build(tracingTo(target.url)).pipe(Scope.provide(scope)),
        )
        for (let i = 0; i < 10_000; i++) tracing.record(tracing.startRequest(null)!, { ...END, startedAt: 1 })
        // The queue holds 8192 spans, including those of the unanswered request.
        assert.strictEqual(Number(yield* droppedBecause('queue_full')) - before, 10_000 - 8192)
        yield* target.until(() => target.requests() === 1)
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual(target.requests(), 1)
      }).pipe(Effect.scoped),
  )

  it.live('that are refused permanently are dropped and counted, and later ones are exported', () =>
    Effect.gen(function* () {
      const target = yield* receiver
      const before = Number(yield* droppedBecause('refused'))
      target.answer = (response) => response.writeHead(400).end()
      const tracing = yield* Effect.provide(Tracing, yield* Layer.build(tracingTo(target.url)))
      tracing.record(tracing.startRequest(null)!, { ...END, startedAt: 1 })
      yield* target.until(() => target.requests() === 1)
      target.answer = (response) => response.writeHead(200).end()
      const next = tracing.startRequest(null)!
      tracing.record(next, { ...END, startedAt: 1 })
      yield* target.until(() => target.spans.at(-1)?.['spanId'] === next.spanId)
      assert.strictEqual(Number(yield* droppedBecause('refused')) - before, 1)
    }).pipe(Effect.scoped),
  )

  it.live('that remain are exported at shutdown', () =>
    Effect.gen(function* () {
      const target = yield* receiver
      const scope = yield* Scope.make()
      const tracing = yield* Effect.provide(
        Tracing,
        yield* Layer.build(tracingTo(target.url)).pipe(Scope.provide(scope)),
      )
      tracing.record(tracing.startRequest(null)!, { ...END, startedAt: 1 })
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(target.spans.length, 1)
    }).pipe(Effect.scoped),
  )
})
