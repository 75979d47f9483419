import { describe, expect, it } from 'vitest'
import {
  ageText,
  dateText,
  durationText,
  fieldOfUtc,
  localMinute,
  localText,
  monthText,
  relativeText,
  shortDate,
  utcOfField,
  utcText,
} from './time.ts'

const AT = '2026-11-21T09:30:00.040Z'

describe('times', () => {
  it('are shown in the zone of the viewer, and in UTC for the hover text', () => {
    expect(localText(AT, { zone: 'Europe/Moscow' })).toBe('2026-11-21 12:30:00')
    expect(localText(AT, { zone: 'Asia/Kolkata', precise: true })).toBe('2026-11-21 15:00:00.040')
    expect(localMinute(AT, 'America/New_York')).toBe('04:30')
    expect(utcText(AT)).toBe('2026-11-21 09:30:00.040 UTC')
  })

  it('show midnight as 00, and follow the change to daylight saving time', () => {
    expect(localText('2026-11-20T21:00:00.000Z', { zone: 'Europe/Moscow' })).toBe('2026-11-21 00:00:00')
    expect(localText('2026-03-29T00:59:59.000Z', { zone: 'Europe/Berlin' })).toBe('2026-03-29 01:59:59')
    expect(localText('2026-03-29T01:00:00.000Z', { zone: 'Europe/Berlin' })).toBe('2026-03-29 03:00:00')
  })

  it('follow the language', () => {
    expect(localText(AT, { zone: 'Europe/Moscow' }, 'ru')).toBe('21.11.2026 12:30:00')
    expect(dateText('2026-11-21')).toBe('2026-11-21')
    expect(dateText('2026-11-21', 'ru')).toBe('21.11.2026')
    expect(shortDate('2026-11-21')).toBe('11-21')
    expect(shortDate('2026-11-21', 'ru')).toBe('21.11')
    expect(monthText('2026-11')).toBe('November 2026')
    expect(monthText('2026-11', 'ru')).toBe('ноябрь 2026 г.')
    expect(monthText('soon')).toBe('soon')
  })

  // Source: Unicode CLDR, relative times of the short form.
  it.each([
    [0, 'now', 'сейчас'],
    [-5_000, '5 sec. ago', '5 сек. назад'],
    [-59_999, '59 sec. ago', '59 сек. назад'],
    [-60_000, '1 min. ago', '1 мин. назад'],
    [3 * 3_600_000, 'in 3 hr.', 'через 3 ч'],
    [-26 * 3_600_000, 'yesterday', 'вчера'],
    [-5 * 86_400_000, '5 days ago', '5 дн. назад'],
    [-31 * 86_400_000, 'Oct 21, 2026', '21 окт. 2026 г.'],
  ])('%d ms from now are words', (distance, english, russian) => {
    const at = new Date(Date.parse(AT) + distance).toISOString()
    expect(relativeText(at, Date.parse(AT))).toBe(english)
    expect(relativeText(at, Date.parse(AT), 'ru')).toBe(russian)
  })

  it('show text that is no time unchanged', () => {
    expect(relativeText('soon', 0)).toBe('soon')
    expect(localText('soon')).toBe('soon')
    expect(utcText('soon')).toBe('soon')
  })

  it('of a form field become UTC and back', () => {
    const iso = utcOfField('2026-11-21T12:30')
    expect(iso).not.toBeNull()
    expect(fieldOfUtc(iso!)).toBe('2026-11-21T12:30')
    expect(utcOfField('')).toBeNull()
    expect(utcOfField('yesterday')).toBeNull()
  })
})

describe('durations', () => {
  it.each([
    [-5, '0 ms'],
    [0, '0 ms'],
    [999.4, '999 ms'],
    [1_000, '1 s'],
    [2_340, '2.3 s'],
    [59_960, '59.9 s'],
    [60_000, '1 min'],
    [3_599_000, '59 min 59 s'],
    [3_600_000, '1 h'],
    [3_900_000, '1 h 5 min'],
    [47 * 3_600_000, '47 h'],
    [50 * 3_600_000, '2 d 2 h'],
    [72 * 3_600_000, '3 d'],
  ])('%d ms is %s', (ms, text) => {
    expect(durationText(ms)).toBe(text)
  })

  it('count from a time until now', () => {
    expect(ageText(AT, Date.parse(AT) + 90_000)).toBe('1 min 30 s')
  })
})
