import { describe, expect, it } from 'vitest'
import { sqlArray, sqlBytesArray } from './sql-array.ts'

describe('arrays for PostgreSQL', () => {
  it('are written without quotes, with NULL for what is missing', () => {
    expect(sqlArray([])).toBe('{}')
    expect(sqlArray(['a', null, 3])).toBe('{a,NULL,3}')
  })

  it('of bytes are hexadecimal text, its backslash escaped', () => {
    expect(sqlBytesArray([])).toBe('{}')
    expect(sqlBytesArray(['00ff', ''])).toBe('{\\\\x00ff,\\\\x}')
  })
})
