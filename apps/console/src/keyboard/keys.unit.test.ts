import { describe, expect, it } from 'vitest'
import { GO_TO, type KeyPress, type KeyState, onKey, type Shortcut } from './keys.ts'

/** Presses keys 100 ms after each other. Returns what they triggered. */
const press = (keys: ReadonlyArray<string | Partial<KeyPress>>): ReadonlyArray<Shortcut | null> => {
  let state: KeyState = null
  return keys.map((key, i) => {
    const one = typeof key === 'string' ? { key } : key
    const result = onKey(state, { key: '', modified: false, typing: false, at: i * 100, ...one })
    state = result.state
    return result.shortcut
  })
}

describe('keyboard shortcuts', () => {
  it('/ opens the search and ? the help', () => {
    expect(press(['/', '?'])).toEqual(['search', 'help'])
  })

  it('g and a letter open a page', () => {
    expect(press(['g', 'm'])).toEqual([null, { go: '/messages' }])
    expect(press(['g', 'g', 'm'])).toEqual([null, null, { go: '/messages' }])
    for (const [letter, page] of GO_TO) expect(press(['g', letter])[1]).toEqual({ go: page })
  })

  it('g alone, a slow second key and an unknown letter do nothing', () => {
    expect(press(['g', 'x', 'm'])).toEqual([null, null, null])
    expect(press(['g', { key: 'm', at: 1_501 }])).toEqual([null, null])
    expect(press(['g', { key: 'm', at: 1_500 }])[1]).toEqual({ go: '/messages' })
  })

  it('do nothing while the user types text or with a modifier', () => {
    expect(
      press([
        { key: '/', typing: true },
        { key: '?', typing: true },
      ]),
    ).toEqual([null, null])
    expect(press([{ key: 'g', typing: true }, 'm'])).toEqual([null, null])
    expect(press(['g', { key: 'm', modified: true }, 'm'])).toEqual([null, null, null])
    expect(press([{ key: '/', modified: true }])).toEqual([null])
  })

  it('have one letter for each page', () => {
    expect(new Set(GO_TO.map(([letter]) => letter)).size).toBe(GO_TO.length)
  })
})
