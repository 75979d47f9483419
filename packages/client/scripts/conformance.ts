/**
 * Generates `conformance/signatures.json`: webhooks with their signatures, valid and invalid ones, for
 * tests of receivers in any language. It shares no code with the verification of the client.
 *
 *   node scripts/run.mjs packages/client/scripts/conformance.ts
 */
import { createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'

/** The clock of the receiver, in seconds since the epoch. */
const NOW = 1_800_000_000
const TOLERANCE_SECONDS = 300

/** The secret that the receiver has. */
const SECRET = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='
const OTHER = 'whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8='

const EVENT = {
  id: 'evt_1m7n3p0q2s6tw06e9c2v5k4r8x',
  object: 'event',
  type: 'message.delivered',
  created_at: '2027-01-15T08:00:00.000Z',
  mode: 'test',
  data: { object: { id: 'msg_06e9c2v5k4r8x1m7n3p0q2s6tw', object: 'message', client_ref: 'заказ-1001 😀' } },
}
const TEXT = JSON.stringify([EVENT])
const BODY = Buffer.from(TEXT)

interface Signed {
  readonly secret?: string | Buffer
  readonly t?: number | string
  readonly body?: Buffer
}

const hmac = ({ body = BODY, secret = SECRET, t = NOW }: Signed = {}): Buffer =>
  createHmac('sha256', secret).update(`${t}.`).update(body).digest()
const v1 = (signed: Signed = {}): string => `v1=${hmac(signed).toString('hex')}`
/** The header of the hub, for one secret. */
const header = (signed: Signed = {}): string => `t=${signed.t ?? NOW},${v1(signed)}`

/** The last character of a signature, changed. */
const withAnotherEnd = (text: string): string => `${text.slice(0, -1)}${text.endsWith('0') ? '1' : '0'}`

/** Windows-1251 of the Cyrillic letters of the body; other characters become question marks. */
const inWindows1251 = (text: string): Buffer =>
  Buffer.from(
    Array.from(text, (character) => {
      const code = character.codePointAt(0) ?? 0
      if (code < 0x80) return code
      return code >= 0x410 && code <= 0x44f ? code - 0x350 : 0x3f
    }),
  )

const withEscapes = (text: string): string =>
  text.replaceAll(/[\u0080-\uffff]/gu, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

interface Vector {
  readonly group: 'valid' | 'rotated' | 'expired' | 'tampered' | 'wrong encoding' | 'malformed'
  readonly name: string
  /** The value of `Hub-Signature`; `null`: the request has no such header. */
  readonly header: string | null
  readonly body: Buffer
  /** Why the webhook is invalid, as the `code` of the client; `null`: it is valid. */
  readonly problem: string | null
}

const vector = (
  group: Vector['group'],
  name: string,
  problem: string | null,
  value: string | null,
  body: Buffer = BODY,
): Vector => ({ group, name, header: value, body, problem })

const BINARY = Buffer.from([0, 255, 254, 10, 13])
const EMPTY = Buffer.from('[]')

const VECTORS: ReadonlyArray<Vector> = [
  vector('valid', 'one signature', null, header()),
  vector('valid', 'an empty list of events', null, header({ body: EMPTY }), EMPTY),
  vector('valid', 'spaces after the commas', null, header().replace(',', ', ')),
  vector('valid', 'an element of a future scheme', null, `${header()},v2=anything`),
  vector('valid', 'exactly as old as allowed', null, header({ t: NOW - TOLERANCE_SECONDS })),
  vector('valid', 'exactly as far in the future as allowed', null, header({ t: NOW + TOLERANCE_SECONDS })),
  vector('rotated', 'the known secret is the new one', null, `${header()},${v1({ secret: OTHER })}`),
  vector(
    'rotated',
    'the known secret is the previous one',
    null,
    `${header({ secret: OTHER })},${v1({ secret: SECRET })}`,
  ),
  vector(
    'rotated',
    'the known secret is the oldest of three',
    null,
    `${header({ secret: OTHER })},${v1({ secret: `${OTHER}2` })},${v1()}`,
  ),
  vector('rotated', 'the known secret no longer signs', 'no_match', header({ secret: OTHER })),
  vector('expired', 'a second too old', 'timestamp_too_old', header({ t: NOW - TOLERANCE_SECONDS - 1 })),
  vector('expired', 'a day old', 'timestamp_too_old', header({ t: NOW - 86_400 })),
  vector(
    'expired',
    'a second too far in the future',
    'timestamp_too_new',
    header({ t: NOW + TOLERANCE_SECONDS + 1 }),
  ),
  vector(
    'expired',
    'an old signature under a new time',
    'no_match',
    `t=${NOW},${v1({ t: NOW - TOLERANCE_SECONDS - 1 })}`,
  ),
  vector(
    'tampered',
    'another body',
    'no_match',
    header(),
    Buffer.from(TEXT.replace('delivered', 'rejected')),
  ),
  vector('tampered', 'a space behind the body', 'no_match', header(), Buffer.from(`${TEXT} `)),
  vector('tampered', 'no body', 'no_match', header(), Buffer.alloc(0)),
  vector('tampered', 'another signature', 'no_match', withAnotherEnd(header())),
  vector('tampered', 'bytes that are not a text', 'no_match', header(), BINARY),
  vector(
    'wrong encoding',
    'the signature in Base64',
    'header_malformed',
    `t=${NOW},v1=${hmac().toString('base64')}`,
  ),
  vector(
    'wrong encoding',
    'the signature in upper case',
    'header_malformed',
    `t=${NOW},v1=${v1().slice(3).toUpperCase()}`,
  ),
  vector('wrong encoding', 'the time in milliseconds', 'header_malformed', header({ t: NOW * 1000 })),
  vector(
    'wrong encoding',
    'the secret decoded from Base64',
    'no_match',
    header({ secret: Buffer.from(SECRET.slice('whsec_'.length), 'base64') }),
  ),
  vector(
    'wrong encoding',
    'the secret without its prefix',
    'no_match',
    header({ secret: SECRET.slice('whsec_'.length) }),
  ),
  vector('wrong encoding', 'the body in UTF-16', 'no_match', header(), Buffer.from(TEXT, 'utf16le')),
  vector('wrong encoding', 'the body in Windows-1251', 'no_match', header(), inWindows1251(TEXT)),
  vector(
    'wrong encoding',
    'a byte order mark before the body',
    'no_match',
    header(),
    Buffer.from(`\ufeff${TEXT}`),
  ),
  vector(
    'wrong encoding',
    'the JSON parsed and written with escapes',
    'no_match',
    header(),
    Buffer.from(withEscapes(TEXT)),
  ),
  vector(
    'wrong encoding',
    'the JSON parsed and written with spaces',
    'no_match',
    header(),
    Buffer.from(JSON.stringify([EVENT], null, 2)),
  ),
  vector('malformed', 'no header', 'header_missing', null),
  vector('malformed', 'no time', 'header_malformed', v1()),
  vector('malformed', 'no signature', 'header_malformed', `t=${NOW}`),
  vector('malformed', 'two times', 'header_malformed', `t=${NOW},${header()}`),
  vector('malformed', 'a time that is not a number', 'header_malformed', header({ t: 'now' })),
  vector('malformed', 'only another scheme', 'header_malformed', `t=${NOW},v0=${v1().slice(3)}`),
]

/** The headers of Standard Webhooks: an HMAC over the id, the time and the body, with the decoded secret as key. */
interface StandardSigned extends Signed {
  readonly id?: string
}
const ID = 'evb_1m7n3p0q2s6tw06e9c2v5k4r8x'
const decoded = (secret: string): Buffer => Buffer.from(secret.slice('whsec_'.length), 'base64')
const standard = ({ body = BODY, id = ID, secret = decoded(SECRET), t = NOW }: StandardSigned = {}): string =>
  `v1,${createHmac('sha256', secret).update(`${id}.${t}.`).update(body).digest('base64')}`

interface StandardVector {
  readonly group: Vector['group']
  readonly name: string
  /** The values of `webhook-id`, `webhook-timestamp` and `webhook-signature`; `null`: the request has no such header. */
  readonly headers: readonly [id: string | null, timestamp: string | null, signature: string | null]
  readonly body: Buffer
  /** As that of a vector above. */
  readonly problem: string | null
}

const standardVector = (
  group: Vector['group'],
  name: string,
  problem: string | null,
  headers: StandardVector['headers'],
  body: Buffer = BODY,
): StandardVector => ({ group, name, headers, body, problem })

const at = (t: number, signature = standard({ t })): StandardVector['headers'] => [ID, String(t), signature]
const OTHER_KEY = decoded(OTHER)

const STANDARD_VECTORS: ReadonlyArray<StandardVector> = [
  standardVector('valid', 'one signature', null, at(NOW)),
  standardVector('valid', 'an empty list of events', null, at(NOW, standard({ body: EMPTY })), EMPTY),
  standardVector('valid', 'a signature of a future scheme', null, at(NOW, `v2,anything ${standard()}`)),
  standardVector('valid', 'exactly as old as allowed', null, at(NOW - TOLERANCE_SECONDS)),
  standardVector('valid', 'exactly as far in the future as allowed', null, at(NOW + TOLERANCE_SECONDS)),
  standardVector(
    'rotated',
    'the known secret is the previous one',
    null,
    at(NOW, `${standard({ secret: OTHER_KEY })} ${standard()}`),
  ),
  standardVector(
    'rotated',
    'the known secret no longer signs',
    'no_match',
    at(NOW, standard({ secret: OTHER_KEY })),
  ),
  standardVector('expired', 'a second too old', 'timestamp_too_old', at(NOW - TOLERANCE_SECONDS - 1)),
  standardVector(
    'expired',
    'a second too far in the future',
    'timestamp_too_new',
    at(NOW + TOLERANCE_SECONDS + 1),
  ),
  standardVector(
    'expired',
    'an old signature under a new time',
    'no_match',
    at(NOW, standard({ t: NOW - 301 })),
  ),
  standardVector(
    'tampered',
    'another body',
    'no_match',
    at(NOW),
    Buffer.from(TEXT.replace('delivered', 'rejected')),
  ),
  standardVector('tampered', 'another id', 'no_match', at(NOW, standard({ id: `${ID}2` }))),
  standardVector('tampered', 'no body', 'no_match', at(NOW), Buffer.alloc(0)),
  standardVector(
    'wrong encoding',
    'the whole secret as key',
    'no_match',
    at(NOW, standard({ secret: Buffer.from(SECRET) })),
  ),
  standardVector('malformed', 'no id', 'header_missing', [null, String(NOW), standard()]),
  standardVector('malformed', 'no time', 'header_missing', [ID, null, standard()]),
  standardVector('malformed', 'no signature', 'header_missing', [ID, String(NOW), null]),
  standardVector('malformed', 'a time that is not a number', 'header_malformed', [
    ID,
    'now',
    standard({ t: 'now' }),
  ]),
  standardVector(
    'malformed',
    'only another scheme',
    'header_malformed',
    at(NOW, standard().replace('v1', 'v1a')),
  ),
]

const document = {
  description:
    'Webhooks of the SMS Delivery Hub for tests of receivers. A receiver with this secret and this ' +
    'clock accepts exactly the vectors with "valid": true. "problem" is the reason that the clients ' +
    'for TypeScript and Python report. "vectors" have the header Hub-Signature, and ' +
    '"standard_vectors" the headers of Standard Webhooks.',
  secret: SECRET,
  now: NOW,
  tolerance_seconds: TOLERANCE_SECONDS,
  vectors: VECTORS.map(({ body, header: value, ...rest }) => ({
    ...rest,
    valid: rest.problem === null,
    header: value,
    body_base64: body.toString('base64'),
  })),
  standard_vectors: STANDARD_VECTORS.map(({ body, headers: [id, timestamp, signature], ...rest }) => ({
    ...rest,
    valid: rest.problem === null,
    headers: Object.fromEntries(
      [
        ['webhook-id', id],
        ['webhook-timestamp', timestamp],
        ['webhook-signature', signature],
      ].filter(([, value]) => value !== null),
    ),
    body_base64: body.toString('base64'),
  })),
}

writeFileSync(
  new URL('../conformance/signatures.json', import.meta.url),
  `${JSON.stringify(document, null, 2)}\n`,
)
