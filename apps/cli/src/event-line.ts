/** One printed line for an event. Each kind of object has other members, so none is required. */
import { onOneLine } from '@hub/text'
import type { HubEvent } from '@sms-delivery-hub/client'

/** The widest type is `webhook.endpoint_disabled`. */
const TYPE_WIDTH = 26

/** What an object says of itself: the counts of a batch, else its status and reason. */
const detailsOf = ({ counts, reason_code: reason, status }: Readonly<Record<string, unknown>>): string => {
  if (typeof counts === 'object' && counts !== null) {
    return Object.entries(counts)
      .filter(([, count]) => count !== 0)
      .map(([name, count]) => `${name} ${String(count)}`)
      .join(', ')
  }
  if (typeof status !== 'string') return ''
  return typeof reason === 'string' ? `${status} (${reason})` : status
}

export const lineOf = ({ created_at: createdAt, data, id, type }: HubEvent): string => {
  const object = data.object as Readonly<Record<string, unknown>>
  const { client_ref: reference, id: subject } = object
  return onOneLine(
    [
      createdAt,
      id,
      type.padEnd(TYPE_WIDTH),
      typeof subject === 'string' ? subject : '',
      detailsOf(object),
      typeof reference === 'string' ? reference : '',
    ]
      .join('  ')
      .trimEnd(),
  )
}
