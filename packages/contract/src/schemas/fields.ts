/** Fields, examples and helpers that several schemas share, only for this folder. */
import { type IdPrefix, TEXT_MAX_PARTS } from '@hub/domain'
import { Schema } from 'effect'
import { MAX_CLIENT_REF_LENGTH } from '../limits.ts'

export const AT = '2026-11-21T09:30:00.000Z'
export const MESSAGE_ID = 'msg_06e9c2v5k4r8x1m7n3p0q2s6tw'
export const EARLIER_MESSAGE_ID = 'msg_06e9c2v5k4r8x1m7n3p0q2s6tv'
export const BATCH_ID = 'bat_06e9c2v5k4r8x1m7n3p0q2s6tw'
export const TEMPLATE_ID = 'tpl_06e9c2v5k4r8x1m7n3p0q2s6tw'
export const SENDER_ID = 'snd_06e9c2v5k4r8x1m7n3p0q2s6tw'
export const REQUEST_ID = 'req_06e9c2v5k4r8x1m7n3p0q2s6tw'
export const DOCS = 'https://hub.example.com/docs/errors'
export const ENDPOINT_ID = 'we_06e9c2v5k4r8x1m7n3p0q2s6tw'
export const EVENT_ID = 'evt_1m7n3p0q2s6tw06e9c2v5k4r8x'
export const EVENT_BATCH_ID = 'evb_2q2s6tw06e9c2v5k4r8x1m7n3p'

/** 128 bits in 26 digits of Crockford's base32: the first one is at most 7. Source: GEN-1. */
const ID_DIGITS = '[0-7][0-9a-hjkmnp-tv-z]{25}'

type IdStart = `${IdPrefix}_`

export const idPattern = (prefix: IdStart): RegExp => new RegExp(`^${prefix}${ID_DIGITS}$`, 'u')

/** An identifier that the hub sends. One that a client sends has no pattern: it is not found, whatever it is. */
export const anyId = (prefix: IdStart) => Schema.String.check(Schema.isPattern(idPattern(prefix)))

export const id = (prefix: IdStart, of: string) =>
  anyId(prefix).annotate({ description: `Identifier of ${of}: \`${prefix}\` and opaque characters.` })

export const constant = <const L extends string | true>(value: L) =>
  Schema.Literal(value).annotate({ description: `Always \`${value}\`.` })

export const atLeast = (minimum: number) => Schema.Int.check(Schema.isGreaterThanOrEqualTo(minimum))

export const name = (description: string, example: string) =>
  Schema.String.annotate({ description, examples: [example] })

export const ClientRef = Schema.NullOr(Schema.String).annotate({
  description: 'Your own record identifier, as you sent it.',
})

export const ClientRefToSend = Schema.String.check(
  Schema.isMinLength(1),
  Schema.isMaxLength(MAX_CLIENT_REF_LENGTH),
)

export const resultFields = {
  index: atLeast(0).annotate({ description: 'Place of the element in the request, from 0.' }),
}

export const encoding = Schema.Literals(['gsm7', 'ucs2']).annotate({
  description:
    '`gsm7` where every character is in GSM 03.38 (160 in a single part, 153 in each of several), else `ucs2` (70 and 67).',
})
export const characters = atLeast(0).annotate({
  description:
    'Length of the text: septets for `gsm7`, where characters of the extension table are two; UTF-16 code units for `ucs2`.',
})
export const parts = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: TEXT_MAX_PARTS })).annotate({
  description: 'Number of SMS parts.',
})
