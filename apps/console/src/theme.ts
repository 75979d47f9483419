/** The theme and the shortcuts: choices of this browser. */
import { effect, signal } from '@preact/signals'
import { readChoice, writeChoice } from './storage.ts'

export const THEMES = ['system', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

export const theme = signal<Theme>(THEMES.find((name) => name === readChoice('theme')) ?? 'system')
export const shortcutsOn = signal(readChoice('shortcuts') !== 'off')

/** Applies the choices to the page, now and after each change. */
export const applyChoices = (): void => {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value
    writeChoice('theme', theme.value)
  })
  effect(() => writeChoice('shortcuts', shortcutsOn.value ? 'on' : 'off'))
}
