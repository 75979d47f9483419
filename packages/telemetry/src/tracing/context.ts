/**
 * Span identity and its propagation in the headers `traceparent` and `tracestate`. Source: W3C Trace Context, 3.2 and
 * 3.3.
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
  /** The `tracestate` of the caller, if it sent one. The hub adds no member. */
  readonly tracestate?: string
}

export interface RemoteParent {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
  readonly tracestate?: string
}

/** The headers that continue a trace. */
export interface TraceHeaders {
  readonly traceparent: string
  readonly tracestate?: string
}

/** Version 00 and the common prefix of later versions. Version `ff` is forbidden. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/u
const ZEROS = /^0+$/u
/** A longer header is ignored, because clients can send any length. */
const MAX_LENGTH = 128

/** A key (also one of a tenant) and its value. Source: W3C Trace Context, 3.3.1.3. */
const STATE_MEMBER =
  /^(?<key>[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})=[ -+\--<>-~]{0,255}[!-+\--<>-~]$/u
/** Source: W3C Trace Context, 3.3.1.1. */
const MAX_STATE_MEMBERS = 32
/** What is passed on at least. Source: W3C Trace Context, 3.3.1.5. */
const MAX_STATE_LENGTH = 512
/** Longer members are removed first. Source: W3C Trace Context, 3.3.1.5. */
const LONG_STATE_MEMBER = 128
/** Optional white space, which is no part of a member. Source: RFC 9110, 5.6.3. */
const OUTER_SPACE = /^[ \t]+|[ \t]+$/gu

/**
 * Parses a `tracestate`, and returns it without members that are too many. Returns `undefined` for a missing, empty or
 * invalid list: nothing of it is passed on.
 */
export const readTracestate = (header: string | null | undefined): string | undefined => {
  if (header === null || header === undefined) return undefined
  const members = header
    .split(',')
    .map((member) => member.replaceAll(OUTER_SPACE, ''))
    .filter((member) => member !== '')
  if (members.length > MAX_STATE_MEMBERS) return undefined
  const keys = new Set(members.map((member) => STATE_MEMBER.exec(member)?.groups?.['key']))
  if (keys.has(undefined) || keys.size < members.length) return undefined
  const isTooLong = (): boolean => members.join(',').length > MAX_STATE_LENGTH
  for (let i = members.length - 1; i >= 0 && isTooLong(); i--) {
    if ((members[i]?.length ?? 0) > LONG_STATE_MEMBER) members.splice(i, 1)
  }
  while (isTooLong()) members.pop()
  return members.length === 0 ? undefined : members.join(',')
}

/** Parses a `traceparent`, and the `tracestate` beside it. Returns `null` for a missing or invalid `traceparent`. */
export const readTraceparent = (
  header: string | null | undefined,
  tracestate?: string | null,
): RemoteParent | null => {
  if (header === null || header === undefined || header.length > MAX_LENGTH) return null
  const [, version, traceId, spanId, flags, rest] = TRACEPARENT.exec(header) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return null
  if (ZEROS.test(traceId) || ZEROS.test(spanId) || (version === '00' && rest !== undefined)) return null
  return {
    traceId,
    spanId,
    sampled: (Number.parseInt(flags, 16) & 1) === 1,
    ...stateOf({ tracestate: readTracestate(tracestate) }),
  }
}

/** The `tracestate` of an object as a member of another. */
const stateOf = ({ tracestate }: { readonly tracestate?: string | undefined }) =>
  tracestate === undefined ? {} : { tracestate }

/** Returns the `traceparent` for the successors of a span. Every span is sampled. */
export const traceparentOf = ({ spanId, traceId }: Pick<Span, 'traceId' | 'spanId'>): string =>
  `00-${traceId}-${spanId}-01`

/** Returns the headers of a traced record; `null`: it has no `traceparent`. */
export const traceHeadersIn = (record: {
  readonly traceparent: string | null
  readonly tracestate?: string
}): TraceHeaders | null =>
  record.traceparent === null ? null : { traceparent: record.traceparent, ...stateOf(record) }

/** Returns the headers for the successors of a span. */
export const traceHeadersOf = (span: Pick<Span, 'traceId' | 'spanId' | 'tracestate'>): TraceHeaders => ({
  traceparent: traceparentOf(span),
  ...stateOf(span),
})

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
export const childSpan = (parent: Pick<Span, 'traceId' | 'spanId' | 'tracestate'>): Span => ({
  traceId: parent.traceId,
  spanId: randomHex(8),
  parentId: parent.spanId,
  ...stateOf(parent),
})
