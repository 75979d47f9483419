/** Choices of this browser, in its local storage. Storage can be forbidden: then a choice lasts until the page is closed. */

export const readChoice = (key: string): string | null => {
  try {
    return globalThis.localStorage.getItem(key)
  } catch {
    return null
  }
}

export const writeChoice = (key: string, value: string): void => {
  try {
    globalThis.localStorage.setItem(key, value)
  } catch {
    // See above.
  }
}
