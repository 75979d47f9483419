/**
 * Span identity and its propagation in the header `traceparent`. Source: W3C Trace Context, 2.2,
 * 3.2.
 */
import { randomFillSync } from 'node:crypto'

/** A sampled span. Work that is not sampled has no span, so it costs nothing later. */
export interface Span {
  /** 32 hexadecimal digits. */
  readonly traceId: string
  /** 16 hexadecimal digits. */
  readonly spanId: string
  /** `null` for the root span. */
  readonly parentId: string | null
}

export interface RemoteParent {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

/** Version 00 and the common prefix of later versions. Version `ff` is forbidden. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/u
const ZEROS = /^0+$/u
/** A longer header is ignored, because clients can send any length. */
const MAX_LENGTH = 128

/** Parses a `traceparent`. Returns `null` for a missing or invalid one. */
export const readTraceparent = (header: string | null | undefined): RemoteParent | null => {
  if (header === null || header === undefined || header.length > MAX_LENGTH) return null
  const [, version, traceId, spanId, flags, rest] = TRACEPARENT.exec(header) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return null
  if (ZEROS.test(traceId) || ZEROS.test(spanId) || (version === '00' && rest !== undefined)) return null
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** Returns the `traceparent` for the successors of a span. Every span is sampled. */
export const traceparentOf = ({ spanId, traceId }: Pick<Span, 'traceId' | 'spanId'>): string =>
  `00-${traceId}-${spanId}-01`

const randomHex = (bytes: number): string => {
  for (;;) {
    const id = randomFillSync(Buffer.allocUnsafe(bytes)).toString('hex')
    if (!ZEROS.test(id)) return id
  }
}

export const newTraceId = (): string => randomHex(16)

/** Makes the root span of a new trace. */
export const rootSpan = (traceId: string = newTraceId()): Span => ({
  traceId,
  spanId: randomHex(8),
  parentId: null,
})

/** Makes a child of a span of this or another process. */
export const childSpan = ({ spanId, traceId }: Pick<Span, 'traceId' | 'spanId'>): Span => ({
  traceId,
  spanId: randomHex(8),
  parentId: spanId,
})
