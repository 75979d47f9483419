/**
 * Where a span stands in its trace, and how that travels: the W3C header `traceparent`, over HTTP and Kafka alike.
 * Source: W3C Trace Context, 2.2 and 3.2.
 */
import { randomFillSync } from 'node:crypto'

/** A span of a trace that is recorded. What is not recorded has none, so that it costs nothing further on. */
export interface Span {
  /** 32 hexadecimal digits. */
  readonly traceId: string
  /** 16 hexadecimal digits. */
  readonly spanId: string
  /** `null` for the first one of a trace. */
  readonly parentId: string | null
}

export interface RemoteParent {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

/** Version 00, and what a later version still has in common with it. `ff` is forbidden. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/u
const ZEROS = /^0+$/u
/** The longest that is looked at: what comes from outside may be any length. */
const LONGEST = 128

/** Reads a `traceparent`; `null` where there is none, or none that can be read, which counts as none. */
export const readTraceparent = (header: string | null | undefined): RemoteParent | null => {
  if (header === null || header === undefined || header.length > LONGEST) return null
  const [, version, traceId, spanId, flags, rest] = TRACEPARENT.exec(header) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return null
  if (ZEROS.test(traceId) || ZEROS.test(spanId) || (version === '00' && rest !== undefined)) return null
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** The `traceparent` for what follows from a span. Who has a span is sampled. */
export const traceparentOf = ({ spanId, traceId }: Pick<Span, 'traceId' | 'spanId'>): string =>
  `00-${traceId}-${spanId}-01`

const randomHex = (bytes: number): string => {
  for (;;) {
    const id = randomFillSync(Buffer.allocUnsafe(bytes)).toString('hex')
    if (!ZEROS.test(id)) return id
  }
}

/** A span of its own trace. */
export const rootSpan = (): Span => ({ traceId: randomHex(16), spanId: randomHex(8), parentId: null })

/** A span under another one, of this process or another. */
export const childSpan = ({ spanId, traceId }: Pick<Span, 'traceId' | 'spanId'>): Span => ({
  traceId,
  spanId: randomHex(8),
  parentId: spanId,
})
