/** Times: the API sends UTC (ISO 8601). The console shows them in the time zone and the language of the viewer. */
import { type Language, language, perLanguage } from '../language.ts'
import { strings } from '../strings.ts'
import { rateText } from './number.ts'

const pad = (value: number, length = 2): string => String(value).padStart(length, '0')

/** `2026-11-21 09:30:00.040 UTC`, for the hover text and for copies. */
export const utcText = (iso: string): string => {
  const at = new Date(iso)
  return Number.isNaN(at.getTime()) ? iso : `${at.toISOString().slice(0, 23).replace('T', ' ')} UTC`
}

/** `zone` is an IANA name. The browser's own zone is the default. */
const digits = (zone?: string): Intl.DateTimeFormat =>
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
const OWN_ZONE = digits()

const partsOf = (at: Date, zone: string | undefined): Record<string, string> =>
  Object.fromEntries(
    (zone === undefined ? OWN_ZONE : digits(zone)).formatToParts(at).map(({ type, value }) => [type, value]),
  )

interface Options {
  /** With milliseconds. */
  readonly precise?: boolean
  readonly zone?: string
}

/** The date (`2026-11-21`) and the time (`12:30:00`) in the time zone of the viewer. `null`: the text is no time. */
const localParts = (iso: string, { precise = false, zone }: Options) => {
  const at = new Date(iso)
  if (Number.isNaN(at.getTime())) return null
  const p = partsOf(at, zone)
  const seconds = precise ? `${p['second']}.${pad(at.getUTCMilliseconds(), 3)}` : p['second']
  return { date: `${p['year']}-${p['month']}-${p['day']}`, time: `${p['hour']}:${p['minute']}:${seconds}` }
}

/** A date of the calendar (`2026-11-21`) as the language writes it. English has the order of ISO 8601: nobody mistakes it. */
export const dateText = (date: string, of: Language = language): string =>
  of === 'ru' ? date.split('-').toReversed().join('.') : date

/** The month and the day of a date (`2026-11-21`), for the axis of a chart: `11-21`, and in Russian `21.11`. */
export const shortDate = (date: string, of: Language = language): string =>
  of === 'ru' ? dateText(date, of).slice(0, 'DD.MM'.length) : date.slice('YYYY-'.length)

/** `2026-11-21 12:30:00`, or with `precise` also milliseconds, in the time zone of the viewer. */
export const localText = (iso: string, options: Options = {}, of: Language = language): string => {
  const parts = localParts(iso, options)
  return parts === null ? iso : `${dateText(parts.date, of)} ${parts.time}`
}

/** `12:30`, for the axis of a chart. */
export const localMinute = (iso: string, zone?: string): string =>
  localParts(iso, zone === undefined ? {} : { zone })?.time.slice(0, 5) ?? iso

const SECOND_MS = 1000
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** From this distance on, a date says more than a number of days. */
const FAR_MS = 30 * DAY_MS

const STEPS = [
  ['day', DAY_MS],
  ['hour', HOUR_MS],
  ['minute', MINUTE_MS],
] as const

const farDates = perLanguage((of) => new Intl.DateTimeFormat(of, { dateStyle: 'medium' }))
const distances = perLanguage((of) => new Intl.RelativeTimeFormat(of, { numeric: 'auto', style: 'short' }))
const months = perLanguage(
  (of) => new Intl.DateTimeFormat(of, { timeZone: 'UTC', year: 'numeric', month: 'long' }),
)

/** The time from `now` (milliseconds) to `iso` in words, `2 min. ago` or `in 3 hr.`; far times are dates. */
export const relativeText = (iso: string, now: number, of: Language = language): string => {
  const at = new Date(iso)
  if (Number.isNaN(at.getTime())) return iso
  const distance = at.getTime() - now
  if (Math.abs(distance) >= FAR_MS) return farDates(of).format(at)
  const [unit, length] = STEPS.find(([, step]) => Math.abs(distance) >= step) ?? ['second', SECOND_MS]
  return distances(of).format(Math.trunc(distance / length), unit)
}

/** `2026-11` as `November 2026`. */
export const monthText = (month: string, of: Language = language): string => {
  const at = new Date(`${month}-01T00:00:00Z`)
  if (Number.isNaN(at.getTime())) return month
  return months(of).format(at)
}

/** From two days on, hours are hard to read. */
const HOURS_AS_DAYS = 48

const twoUnits = (large: number, unit: string, small: number, smallUnit: string): string =>
  small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${smallUnit}`

/** `1 h 5 min`, `2.3 s`, `40 ms`: at most two units. */
export const durationText = (milliseconds: number): string => {
  const { units } = strings
  const ms = Math.max(0, Math.round(milliseconds))
  if (ms < 1000) return `${ms} ${units.ms}`
  const seconds = Math.floor(ms / 1000)
  if (seconds < 60) return `${rateText(Math.floor(ms / 100) / 10)} ${units.s}`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return twoUnits(minutes, units.min, seconds % 60, units.s)
  const hours = Math.floor(minutes / 60)
  if (hours < HOURS_AS_DAYS) return twoUnits(hours, units.h, minutes % 60, units.min)
  return twoUnits(Math.floor(hours / 24), units.d, hours % 24, units.h)
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
  const parts = localParts(iso, {})
  return parts === null ? '' : `${parts.date}T${parts.time.slice(0, 5)}`
}
