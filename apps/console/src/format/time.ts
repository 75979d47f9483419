/** Times: the API sends UTC (ISO 8601). The console shows them in the time zone of the viewer. */

const pad = (value: number, length = 2): string => String(value).padStart(length, '0')

/** `2026-11-21 09:30:00.040 UTC`, for the hover text and for copies. */
export const utcText = (iso: string): string => {
  const at = new Date(iso)
  return Number.isNaN(at.getTime()) ? iso : `${at.toISOString().slice(0, 23).replace('T', ' ')} UTC`
}

/** `zone` is an IANA name. The browser's own zone is the default. */
const partsOf = (at: Date, zone: string | undefined): Record<string, string> =>
  Object.fromEntries(
    new Intl.DateTimeFormat('en-GB', {
      ...(zone === undefined ? {} : { timeZone: zone }),
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      hourCycle: 'h23',
    })
      .formatToParts(at)
      .map(({ type, value }) => [type, value]),
  )

/** `2026-11-21 12:30:00`, or with `precise` also milliseconds, in the time zone of the viewer. */
export const localText = (iso: string, options: { precise?: boolean; zone?: string } = {}): string => {
  const at = new Date(iso)
  if (Number.isNaN(at.getTime())) return iso
  const p = partsOf(at, options.zone)
  const seconds = options.precise === true ? `${p['second']}.${pad(at.getUTCMilliseconds(), 3)}` : p['second']
  return `${p['year']}-${p['month']}-${p['day']} ${p['hour']}:${p['minute']}:${seconds}`
}

/** `12:30`, for the axis of a chart. */
export const localMinute = (iso: string, zone?: string): string =>
  localText(iso, zone === undefined ? {} : { zone }).slice(11, 16)

/** From two days on, hours are hard to read. */
const HOURS_AS_DAYS = 48

const twoUnits = (large: number, unit: string, small: number, smallUnit: string): string =>
  small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${smallUnit}`

/** `1 h 5 min`, `2.3 s`, `40 ms`: at most two units. */
export const durationText = (milliseconds: number): string => {
  const ms = Math.max(0, Math.round(milliseconds))
  if (ms < 1000) return `${ms} ms`
  const seconds = Math.floor(ms / 1000)
  if (seconds < 60) return `${Math.floor(ms / 100) / 10} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return twoUnits(minutes, 'min', seconds % 60, 's')
  const hours = Math.floor(minutes / 60)
  if (hours < HOURS_AS_DAYS) return twoUnits(hours, 'h', minutes % 60, 'min')
  return twoUnits(Math.floor(hours / 24), 'd', hours % 24, 'h')
}

/** The time from `iso` to `now`, as a duration. */
export const ageText = (iso: string, now: number): string => durationText(now - new Date(iso).getTime())

/**
 * The value of a `datetime-local` field (`2026-11-21T12:30`, the viewer's zone) as UTC, or `null` if
 * it is empty or no time.
 */
export const utcOfField = (value: string): string | null => {
  if (value === '') return null
  const at = new Date(value)
  return Number.isNaN(at.getTime()) ? null : at.toISOString()
}

/** The inverse of `utcOfField`, to the minute. */
export const fieldOfUtc = (iso: string): string => {
  const text = localText(iso)
  return text === iso ? '' : `${text.slice(0, 10)}T${text.slice(11, 16)}`
}
