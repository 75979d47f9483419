/**
 * Keyboard shortcuts: `/`, `?`, and `g` followed by a letter. Pure: the caller passes the time and
 * whether the user types text.
 */

export type Shortcut = 'search' | 'help' | { readonly go: string }

/** The letter after `g`, and the page that it opens. */
export const GO_TO = [
  ['h', '/'],
  ['i', '/insights'],
  ['m', '/messages'],
  ['t', '/moderation/templates'],
  ['w', '/webhooks'],
  ['s', '/stuck'],
  ['a', '/accounts'],
  ['o', '/opt-outs'],
  ['l', '/audit'],
  ['v', '/views'],
] as const

/** A `g` that nothing follows must not change the meaning of a later key. */
const SECOND_KEY_WITHIN_MS = 1_500

/** When `g` was pressed, or `null`. */
export type KeyState = number | null

export interface KeyPress {
  readonly key: string
  /** With Ctrl, Alt or Meta it is a command of the browser. */
  readonly modified: boolean
  /** The focus is in a field for text. */
  readonly typing: boolean
  /** Milliseconds, from any monotonic clock. */
  readonly at: number
}

export const onKey = (
  state: KeyState,
  { at, key, modified, typing }: KeyPress,
): { readonly state: KeyState; readonly shortcut: Shortcut | null } => {
  if (modified || typing) return { state: null, shortcut: null }
  if (state !== null && at - state <= SECOND_KEY_WITHIN_MS) {
    const target = GO_TO.find(([letter]) => letter === key)
    if (target !== undefined) return { state: null, shortcut: { go: target[1] } }
  }
  if (key === 'g') return { state: at, shortcut: null }
  if (key === '/') return { state: null, shortcut: 'search' }
  if (key === '?') return { state: null, shortcut: 'help' }
  return { state: null, shortcut: null }
}
