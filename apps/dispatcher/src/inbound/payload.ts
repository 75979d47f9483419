/** What of a report or an inbound message travels sealed, and what each seal belongs to. */
import { Result, Schema } from 'effect'

interface Named {
  readonly operator: string
  readonly operatorId: string
}

/** The additional data of a sealed report: its box opens for no other. */
export const reportSeal = ({ operator, operatorId }: Named): string => `report:${operator}:${operatorId}`
/** The same for an inbound message. */
export const inboundSeal = ({ operator, operatorId }: Named): string => `inbound:${operator}:${operatorId}`

/**
 * An operator's own words beyond this are cut off. A PDU is at most 64 KiB and a usual report a few hundred bytes; a record must
 * stay far below what Kafka takes at once.
 */
const MAX_RAW_BYTES = 32 * 1024

export const withinLimit = (raw: Uint8Array): Uint8Array =>
  raw.length > MAX_RAW_BYTES ? raw.subarray(0, MAX_RAW_BYTES) : raw

const Payload = Schema.fromJsonString(
  Schema.Struct({
    /** E.164. */
    from: Schema.String,
    text: Schema.String,
    /** When it was written according to the operator, milliseconds since the epoch. */
    at: Schema.Number,
    /** The operator's own words, base64. */
    raw: Schema.NullOr(Schema.String),
  }),
)
const decodePayload = Schema.decodeUnknownResult(Payload)

/** What `InboundMessageReceived.sealed` holds, before it is sealed. */
export interface InboundPayload {
  readonly from: string
  readonly text: string
  readonly at: number
  readonly raw: Uint8Array | null
}

export const encodeInbound = ({ at, from, raw, text }: InboundPayload): Buffer =>
  Buffer.from(
    JSON.stringify({
      from,
      text,
      at,
      raw: raw === null ? null : Buffer.from(withinLimit(raw)).toString('base64'),
    }),
  )

/** `null` when it is not what `encodeInbound` has made. */
export const decodeInbound = (plain: Uint8Array): InboundPayload | null => {
  const payload = decodePayload(Buffer.from(plain).toString('utf8'))
  if (Result.isFailure(payload)) return null
  const { raw, ...rest } = payload.success
  return { ...rest, raw: raw === null ? null : Buffer.from(raw, 'base64') }
}
