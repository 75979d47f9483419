/** One printed line for an event. Each kind of object has other members, so none is required. */

interface PrintableEvent {
  readonly type: string
  readonly created_at: string
  readonly data: { readonly object: Readonly<Record<string, unknown>> }
}

/** The widest type is `webhook.endpoint_disabled`. */
const TYPE_WIDTH = 26

/** What an object says of itself: the counts of a batch, else its status and reason. */
const detailsOf = ({ counts, reason_code: reason, status }: PrintableEvent['data']['object']): string => {
  if (typeof counts === 'object' && counts !== null) {
    return Object.entries(counts)
      .filter(([, count]) => count !== 0)
      .map(([name, count]) => `${name} ${String(count)}`)
      .join(', ')
  }
  if (typeof status !== 'string') return ''
  return typeof reason === 'string' ? `${status} (${reason})` : status
}

export const lineOf = ({ created_at: createdAt, data, type }: PrintableEvent): string => {
  const { id } = data.object
  return [createdAt, type.padEnd(TYPE_WIDTH), typeof id === 'string' ? id : '', detailsOf(data.object)]
    .join('  ')
    .trimEnd()
}
