import { describe, expect, it } from 'vitest'
import { compact, readPage, withPoints } from './page.ts'

describe('the page of the crash matrix', () => {
  it('lists all crash points', () => {
    expect(compact(readPage()), 'run npm run generate').toBe(compact(withPoints(readPage())))
  })
})
