import { describe, expect, it } from 'vitest'
import { sqlArray, sqlBytesArray } from './sql-array.ts'

describe('array literals', () => {
  it('have no quotes, and NULL for null', () => {
    expect(sqlArray([])).toBe('{}')
    expect(sqlArray(['a', null, 3])).toBe('{a,NULL,3}')
  })

  it('contain bytes as hexadecimal text with an escaped backslash', () => {
    expect(sqlBytesArray([])).toBe('{}')
    expect(sqlBytesArray(['00ff', ''])).toBe('{\\\\x00ff,\\\\x}')
  })
})
