/** The theme and the shortcuts: choices of this browser, in its local storage. */
import { effect, signal } from '@preact/signals'

export const THEMES = ['system', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

/** Storage can be forbidden. Then a choice lasts until the page is closed. */
const read = (key: string): string | null => {
  try {
    return window.localStorage.getItem(key)
  } catch {
    return null
  }
}
const write = (key: string, value: string): void => {
  try {
    window.localStorage.setItem(key, value)
  } catch {
    // See `read`.
  }
}

export const theme = signal<Theme>(THEMES.find((name) => name === read('theme')) ?? 'system')
export const shortcutsOn = signal(read('shortcuts') !== 'off')

/** Applies the choices to the page, now and after each change. */
export const applyChoices = (): void => {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value
    write('theme', theme.value)
  })
  effect(() => write('shortcuts', shortcutsOn.value ? 'on' : 'off'))
}
