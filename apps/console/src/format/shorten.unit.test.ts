import { describe, expect, it } from 'vitest'
import { shorten } from './shorten.ts'

describe('a shortened text', () => {
  it('keeps the prefix and the end of an id, and its middle apart', () => {
    expect(shorten('msg_01m7yt89qhe54swwc8wkxj6n8e')).toEqual(['msg_01m7', 'yt89qhe54swwc8wk', 'xj6n8e'])
  })

  it('is the whole text if that is not longer', () => {
    expect(shorten('order-4711')).toEqual(['order-4711', '', ''])
    expect(shorten('a'.repeat(18))).toEqual(['a'.repeat(18), '', ''])
    expect(shorten('')).toEqual(['', '', ''])
  })

  it('does not divide a character', () => {
    expect(shorten('😀'.repeat(20)).join('')).toBe('😀'.repeat(20))
  })
})
