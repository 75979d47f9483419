/**
 * The OpenTelemetry Collector takes the spans of a running hub by OTLP. What it has understood is compared with the page
 * of telemetry: services, names, kinds and attributes. The hub sends no metrics by OTLP: Prometheus reads them.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePortBase, ROOT } from '@hub/local-stack'
import { accepts, eventually } from '@hub/testkit'
import { client, send } from '../support/client.ts'
import { goProgram, runTool } from '../support/external-tools.ts'
import { startHub } from '../support/hub.ts'
import { freshNumber } from '../support/hub-admin.ts'
import { startProgram } from '../support/program.ts'
import { type CollectedSpan, spansOf } from '../support/span-collector.ts'
import { eventsIn, startWebhookReceiver } from '../support/webhook-receiver.ts'

const SOURCE = join(import.meta.dirname, 'otel-collector')
const WITHIN_MS = 60_000
/** Only ends a wait that hangs: a busy machine can be ten times as slow as a quiet one. */
const SLOWLY = { withinMs: 600_000, everyMs: 100 } as const
const PAGE = readFileSync(join(ROOT, 'docs/telemetry.md'), 'utf8')
/** Source: OTLP, `SpanKind`. */
const KINDS = ['unspecified', 'internal', 'server', 'client', 'producer', 'consumer']
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CALLER = '00f067aa0ba902b7'
const STATE = 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE'

/** The tree of the page, as `<service>: <name> (<kind>)`. */
const documentedSpans = (): ReadonlyArray<string> =>
  [
    ...PAGE.matchAll(/^(?<app>[a-z-]+) +[│├└─ ]*(?<name>[A-Za-z][^│├└─\n]*?) {2,}(?<kind>[a-z]+) {2,}/gmu),
  ].map(({ groups }) => `${groups?.['app']}: ${groups?.['name']} (${groups?.['kind']})`)

/** The attributes of the hub that the page lists. */
const documentedAttributes = (): ReadonlyArray<string> =>
  [
    ...new Set([...PAGE.matchAll(/`(?<name>hub\.[a-z_]+)`/gu)].map(({ groups }) => groups?.['name'] ?? '')),
  ].toSorted()

/** The semantic conventions, in the module of OpenTelemetry that the Collector uses. */
const CONVENTIONS = 'semconv/v1.43.0/attribute_group.go'

/** The attributes of the semantic conventions. */
const conventionalAttributes = async (): Promise<ReadonlySet<string>> => {
  const args = ['list', '-m', '-f', '{{.Dir}}', 'go.opentelemetry.io/otel']
  const { code, text } = await runTool('go', args, { cwd: SOURCE, withinMs: WITHIN_MS })
  equal(code, 0, text)
  const source = readFileSync(join(text.trim(), CONVENTIONS), 'utf8')
  return new Set(
    [...source.matchAll(/attribute\.Key\("(?<name>[^"]+)"\)/gu)].map(({ groups }) => groups?.['name'] ?? ''),
  )
}

export const judgeOtelCollector = async (): Promise<void> => {
  const found = await goProgram(SOURCE)
  if ('missing' in found) return console.log(`skipped, because ${found.missing}`)
  const port = await freePortBase()
  const collector = startProgram(found.program, [`127.0.0.1:${port}`])
  const spans = (): ReadonlyArray<CollectedSpan> =>
    collector.lines.filter((line) => line.startsWith('{')).flatMap((line) => spansOf(JSON.parse(line)))
  const receiver = await startWebhookReceiver(204)
  let hub: Awaited<ReturnType<typeof startHub>> | null = null
  try {
    await eventually(() => accepts(port), SLOWLY)
    hub = await startHub({
      environment: {
        ...receiver.environment,
        HUB_OTLP_URL: `http://127.0.0.1:${port}`,
        HUB_TRACE_RATIO: '0',
      },
    })
    const { base_url, keys } = hub.describe()
    const live = client(base_url, keys.live)
    await eventually(async () => {
      const made = await live.post('/v1/webhook_endpoints', { url: receiver.url() })
      return made.status === 201
    }, SLOWLY)
    // On a busy machine a code can expire before the operator has it. The next one belongs to the same trace.
    await eventually(async () => {
      const accepted = await live.post('/v1/messages', send('otp', freshNumber()), {
        traceparent: `00-${TRACE}-${CALLER}-01`,
        tracestate: STATE,
      })
      if (accepted.status !== 202) return false
      const final = await eventually(
        () =>
          eventsIn(receiver.received).find(
            ({ data }) => data.object.id === accepted.body.id && data.object.final === true,
          ),
        SLOWLY,
      )
      return final.type === 'message.delivered'
    }, SLOWLY)
    const expected = documentedSpans()
    ok(expected.length > 5)
    const nameOf = ({ kind, name, service }: CollectedSpan): string => `${service}: ${name} (${KINDS[kind]})`
    const names = () => [...new Set(spans().map(nameOf))].toSorted()
    await eventually(() => expected.every((name) => names().includes(name)), SLOWLY).catch(() => {})
    deepEqual(names(), [...new Set(expected)].toSorted())

    const all = spans()
    const ids = new Set(all.map(({ spanId }) => spanId))
    for (const { endedAt, name, parentSpanId, startedAt, traceId, traceState } of all) {
      equal(traceId, TRACE)
      equal(traceState, STATE)
      ok(parentSpanId === CALLER || ids.has(parentSpanId ?? ''), `${name} has no parent`)
      ok(endedAt >= startedAt)
    }
    const attributes = [...new Set(all.flatMap((span) => Object.keys(span.attributes)))].toSorted()
    deepEqual(
      attributes.filter((name) => name.startsWith('hub.')),
      documentedAttributes(),
    )
    const conventional = await conventionalAttributes()
    deepEqual(
      attributes.filter((name) => !name.startsWith('hub.') && !conventional.has(name)),
      [],
    )
    console.log(
      `OpenTelemetry Collector: ${all.length} spans of ${names().length} kinds, and ${attributes.length} attributes`,
    )
  } finally {
    await hub?.stop()
    await receiver.close()
    await collector.stop()
  }
}
