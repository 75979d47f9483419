/**
 * CPU cost of tracing per request in command-api: the request span and the spans of its records,
 * with tracing off, with a ratio of 0.01 and with a ratio of 1. The variants take turns, so that
 * other work on the machine affects all of them. Exporting is included; the OTLP receiver is a
 * separate process.
 *
 *     node scripts/run.mjs benchmarks/tracing.ts
 */
import './end-on-signal.ts'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { makeTracedAppend, observe } from '@hub/command-api'
import { EventLog, type OutgoingRecord } from '@hub/kafka'
import { Tracing, tracingLayer, type TracingShape } from '@hub/telemetry'
import { ConfigProvider, Context, Effect, Layer } from 'effect'
import { tied } from './child-process.ts'
import { median } from './numbers.ts'

const ROUNDS = 12
const REQUESTS = 20_000
/** Requests per acceptance batch. */
const TOGETHER = 50

const RECEIVER = `
const server = require('node:http').createServer((request, response) => {
  request.resume().on('end', () => response.end('{}'))
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))`

const log = Layer.succeed(EventLog)({ append: () => Effect.succeed([]), partitionOf: () => 0 })

const record: OutgoingRecord = {
  topic: 'hub.accepted.otp.v1',
  key: 'k',
  type: 'MessageAccepted',
  id: 'i',
  occurredAt: 0,
  value: new Uint8Array(600),
}

interface Variant {
  readonly name: string
  readonly tracing: TracingShape
  readonly append: EventLog['Service']['append']
  readonly microseconds: Array<number>
}

const variant = Effect.fnUntraced(function* (name: string, environment: Record<string, string>) {
  const context = yield* Layer.build(
    tracingLayer('command-api').pipe(
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))),
    ),
  )
  const tracing = Context.get(context, Tracing)
  const append = yield* makeTracedAppend.pipe(Effect.provideService(Tracing, tracing), Effect.provide(log))
  return { name, tracing, append, microseconds: [] } satisfies Variant as Variant
})

const round = Effect.fnUntraced(function* ({ append, microseconds, tracing }: Variant) {
  const before = process.cpuUsage()
  for (let i = 0; i < REQUESTS; i += TOGETHER) {
    const observed = Array.from({ length: TOGETHER }, (_, at) =>
      observe(tracing, { method: 'POST', route: '/v1/messages', traceparent: undefined }, `req_${i + at}`),
    )
    yield* append(
      observed.map(({ trace }) => (trace === null ? record : { ...record, traceparent: trace.traceparent })),
    )
    for (const { ended } of observed) ended(202)
  }
  // Wait for the exporter, which sends within a second. Its CPU time belongs to the round.
  if (tracing.isOn) yield* Effect.sleep('1500 millis')
  const used = process.cpuUsage(before)
  microseconds.push((used.user + used.system) / REQUESTS)
})

const program = Effect.gen(function* () {
  const receiver = tied(spawn(process.execPath, ['-e', RECEIVER], { stdio: ['ignore', 'pipe', 'inherit'] }))
  yield* Effect.addFinalizer(() => Effect.sync(() => receiver.kill()))
  const [port] = yield* Effect.promise(() => once(receiver.stdout, 'data') as Promise<[Buffer]>)
  const HUB_OTLP_URL = `http://127.0.0.1:${String(port).trim()}`
  const off = yield* variant('off', {})
  const variants = [
    off,
    yield* variant('ratio 0.01', { HUB_OTLP_URL, HUB_TRACE_RATIO: '0.01' }),
    yield* variant('ratio 1', { HUB_OTLP_URL, HUB_TRACE_RATIO: '1' }),
  ]
  for (const one of variants) yield* round(one)
  for (const one of variants) one.microseconds.length = 0
  for (let i = 0; i < ROUNDS; i++) for (const one of variants) yield* round(one)
  for (const { microseconds, name } of variants) {
    const more = median(microseconds.map((value, i) => value - (off.microseconds[i] ?? 0)))
    yield* Effect.sync(() =>
      process.stdout.write(
        `${name.padEnd(12)} ${median(microseconds).toFixed(2)} µs a request, ${more.toFixed(2)} more than off\n`,
      ),
    )
  }
})

await Effect.runPromise(Effect.scoped(program))
