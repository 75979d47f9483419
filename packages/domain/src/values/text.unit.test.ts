/** Length and control characters of texts, on generated texts. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { characterCount, hasControlCharacters } from './text.ts'

describe('texts', () => {
  // Rules: GEN-7
  it('are measured in code points', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(characterCount(text)).toBe(Array.from(text).length)
      }),
    )
    expect(characterCount('😀\ud800')).toBe(2)
  })

  // Rules: GEN-8
  it('contain control characters of both Unicode blocks, except the line feed', () => {
    expect(hasControlCharacters('one\ntwo — три\u2028😀')).toBe(false)
    for (const control of ['\0', '\t', '\r', '\f', '\u001b', '\u007f', '\u0085', '\u009f']) {
      expect(hasControlCharacters(`a${control}b`)).toBe(true)
    }
  })
})
