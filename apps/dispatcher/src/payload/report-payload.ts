/** The encrypted payloads of delivery reports and inbound messages. */
import { Result, Schema } from 'effect'

/**
 * The maximum size of an operator's original data. Longer data is truncated, so that the record
 * stays far below Kafka's maximum message size. A PDU has at most 64 KiB. A usual report has a few
 * hundred bytes.
 */
const MAX_RAW_BYTES = 32 * 1024

export const truncateRaw = (raw: Uint8Array): Uint8Array =>
  raw.length > MAX_RAW_BYTES ? raw.subarray(0, MAX_RAW_BYTES) : raw

const Payload = Schema.fromJsonString(
  Schema.Struct({
    from: Schema.String,
    text: Schema.String,
    /** The operator's time of the message, in ms since the epoch. */
    at: Schema.Number,
    /** The operator's original data, base64. */
    raw: Schema.NullOr(Schema.String),
  }),
)
const decodePayload = Schema.decodeUnknownResult(Payload)

/** The content of `InboundMessageReceived.ciphertext` before encryption. */
type InboundPayload = Omit<typeof Payload.Type, 'raw'> & { readonly raw: Uint8Array | null }

export const encodeInbound = ({ at, from, raw, text }: InboundPayload): Buffer =>
  Buffer.from(
    JSON.stringify({
      from,
      text,
      at,
      raw: raw === null ? null : Buffer.from(truncateRaw(raw)).toString('base64'),
    }),
  )

export const decodeInbound = (plain: Uint8Array): InboundPayload | null => {
  const payload = decodePayload(Buffer.from(plain).toString('utf8'))
  if (Result.isFailure(payload)) return null
  const { raw, ...rest } = payload.success
  return { ...rest, raw: raw === null ? null : Buffer.from(raw, 'base64') }
}
