import { describe, expect, it } from 'vitest'
import { array, bytesArray } from './sql-array.ts'

describe('arrays for PostgreSQL', () => {
  it('are written without quotes, with NULL for what is missing', () => {
    expect(array([])).toBe('{}')
    expect(array(['a', null, 3])).toBe('{a,NULL,3}')
  })

  it('of bytes are hexadecimal text, its backslash escaped', () => {
    expect(bytesArray([])).toBe('{}')
    expect(bytesArray(['00ff', ''])).toBe('{\\\\x00ff,\\\\x}')
  })
})
