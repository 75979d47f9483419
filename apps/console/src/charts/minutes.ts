/** The minutes of the last hour from the minutes that have messages. Pure. */
import type { Overview } from '../api/types.ts'
import type { Minute } from './traffic.ts'

const MINUTE_MS = 60_000
const MINUTES = 60

/** One row for each minute, oldest first, of one class and mode. The last one is that of `at`. */
export const lastHour = (
  { at, minutes }: Pick<Overview, 'at' | 'minutes'>,
  mode: string,
  messageClass: string,
): ReadonlyArray<Minute> => {
  const last = Math.floor(Date.parse(at) / MINUTE_MS) * MINUTE_MS
  const found = new Map(
    minutes
      .filter((minute) => minute.mode === mode && minute.class === messageClass)
      .map((minute) => [Date.parse(minute.minute), minute]),
  )
  return Array.from({ length: MINUTES }, (_, i) => {
    const time = last - (MINUTES - 1 - i) * MINUTE_MS
    const { delivered = 0, failed = 0, sent = 0 } = found.get(time) ?? {}
    return { at: new Date(time).toISOString(), sent, delivered, failed }
  })
}
