import { describe, expect, it } from 'vitest'
import { countOf } from './plural.ts'

// Source: Unicode CLDR, plural rules of the languages.
describe('a number with its word', () => {
  it.each([
    [0, '0 rows'],
    [1, '1 row'],
    [2, '2 rows'],
    [1234, '1,234 rows'],
  ])('in English: %d', (value, expected) => {
    expect(countOf('en')(value, { one: 'row', other: 'rows' })).toBe(expected)
  })

  it.each([
    [0, '0 строк'],
    [1, '1 строка'],
    [3, '3 строки'],
    [5, '5 строк'],
    [11, '11 строк'],
    [12, '12 строк'],
    [21, '21 строка'],
    [22, '22 строки'],
    [25, '25 строк'],
    [101, '101 строка'],
    [111, '111 строк'],
    [1.5, '1,5 строки'],
  ])('in Russian: %d', (value, expected) => {
    const forms = { one: 'строка', few: 'строки', many: 'строк', other: 'строки' }
    expect(countOf('ru')(value, forms)).toBe(expected)
  })
})
