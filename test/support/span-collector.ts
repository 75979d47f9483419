/** Receives traces for tests: OTLP over HTTP, in JSON. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface CollectedSpan {
  readonly traceId: string
  readonly spanId: string
  /** `null` for a root span. */
  readonly parentSpanId: string | null
  /** `null`: there is none. */
  readonly traceState: string | null
  readonly name: string
  /** OpenTelemetry's `SpanKind`: 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  /** `service.name`. */
  readonly service: string
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly endedAt: number
}

export interface SpanCollector {
  readonly url: string
  readonly spans: ReadonlyArray<CollectedSpan>
  /** The unparsed request bodies. */
  readonly bodies: ReadonlyArray<Buffer>
  readonly stop: () => Promise<void>
}

const valueOf = (value: Record<string, unknown>): string | number | boolean =>
  (value['stringValue'] ?? value['boolValue'] ?? value['doubleValue'] ?? Number(value['intValue'])) as
    | string
    | number
    | boolean

const attributesOf = (attributes: ReadonlyArray<any>) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]))

/** The spans of a request: `ExportTraceServiceRequest` of OTLP in JSON. */
export const spansOf = (body: any): ReadonlyArray<CollectedSpan> =>
  body.resourceSpans.flatMap(({ resource, scopeSpans }: any) =>
    scopeSpans.flatMap(({ spans }: any) =>
      spans.map((span: any) => ({
        traceId: span.traceId,
        spanId: span.spanId,
        // Empty fields may be absent.
        parentSpanId: span.parentSpanId || null,
        traceState: span.traceState || null,
        name: span.name,
        kind: span.kind,
        attributes: attributesOf(span.attributes ?? []),
        service: attributesOf(resource.attributes)['service.name'],
        startedAt: Number(BigInt(span.startTimeUnixNano) / 1000n) / 1000,
        endedAt: Number(BigInt(span.endTimeUnixNano) / 1000n) / 1000,
      })),
    ),
  )

export const startSpanCollector = async (): Promise<SpanCollector> => {
  const spans: Array<CollectedSpan> = []
  const bodies: Array<Buffer> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      bodies.push(body)
      spans.push(...spansOf(JSON.parse(body.toString('utf8'))))
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    bodies,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
