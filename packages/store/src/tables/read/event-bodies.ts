/**
 * The stored form of the texts of events, in `read.event_journal`. All events of messages have one shape. So a row
 * stores the parts in which their texts differ, without what the other columns of the row say. An event of another
 * shape is stored as it is, and so are the rows of earlier versions. See docs/decisions/events.md#stored-texts.
 */
import { encodeId, fromTimestamp, type Mode, toTimestamp } from '@hub/domain'
import type { Queries, SqlFragment } from '../../sql.ts'

/** An event; `id` is a UUID, `createdAt` in milliseconds since the epoch. */
interface RecordedEvent {
  readonly id: string
  readonly type: string
  readonly mode: Mode
  readonly createdAt: number
  /** Its JSON text, which contains no tab: JSON escapes it. */
  readonly body: string
}

/** The parts in their order in the text. Those that can be `null` are empty for it. */
const SHAPE = new RegExp(
  String.raw`"data":\{"object":\{"id":"msg_(\w+)","object":"message","status":"\w+","final":\w+,"class":"(\w+)",` +
    String.raw`"reason_code":(?:null|"(\w+)"),"client_ref":(?:null|("(?:[^"\\]|\\.)*")),"batch":(?:null|"bat_(\w+)"),` +
    String.raw`"template":"((?:[^"\\]|\\.)*)","created_at":"([^"]+)","parts":(\d+),"price":\{"amount":"([^"]+)","currency":"(\w+)"\}\}\}\}$`,
  'u',
)
/** The part that is stored as the time since then, milliseconds. */
const AGE = 6

/** An expression: a row of the table, for `textOf`. */
export const storedRow = (q: Queries): SqlFragment =>
  q`concat_ws(E'\t', id, type, (extract(epoch FROM created_at) * 1000)::bigint, body)`

const quoted = (prefix: string, part: string | undefined): string => (part ? `"${prefix}${part}"` : 'null')

/**
 * The text of an event, byte for byte as it was recorded. `row`: `storedRow`. Never change what it makes of stored
 * parts: another shape needs another form, whose first character is no digit and not `{`. `read.event_text` of
 * PostgreSQL does the same.
 */
export const textOf = (mode: Mode, row: string): string => {
  const [
    id = '',
    type = '',
    at,
    message = '',
    of,
    reason,
    reference,
    batch,
    template,
    age,
    parts,
    amount,
    currency,
  ] = row.split('\t')
  if (message.startsWith('{')) return message
  const status = type === 'message.seen' ? 'delivered' : type.slice('message.'.length)
  return (
    `{"id":"${encodeId('evt', id)}","object":"event","type":"${type}","created_at":"${toTimestamp(Number(at))}",` +
    `"mode":"${mode}","data":{"object":{"id":"msg_${message}","object":"message","status":"${status}",` +
    `"final":${status !== 'accepted' && status !== 'sent'},"class":"${of}",` +
    `"reason_code":${quoted('', reason)},"client_ref":${reference || 'null'},"batch":${quoted('bat_', batch)},` +
    `"template":"${template}","created_at":"${toTimestamp(Number(at) - Number(age))}","parts":${parts},` +
    `"price":{"amount":"${amount}","currency":"${currency}"}}}}`
  )
}

/** The form that a row stores. */
export const storedBody = ({ body, createdAt, id, mode, type }: RecordedEvent): string => {
  const parts = SHAPE.exec(body)?.slice(1)
  const acceptedAt = fromTimestamp(parts?.[AGE] ?? '')
  if (parts === undefined || acceptedAt === null) return body
  const stored = parts.with(AGE, String(createdAt - acceptedAt)).join('\t')
  // Whatever the shape overlooks, the stored form gives back the same text.
  return textOf(mode, [id, type, createdAt, stored].join('\t')) === body ? stored : body
}
