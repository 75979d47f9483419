/** The language of the console: the choice of this browser, or the first language of the browser that it has. */
import { readChoice } from './storage.ts'

export const LANGUAGES = ['en', 'ru'] as const
export type Language = (typeof LANGUAGES)[number]

/** The names of the languages, each in its own language. */
export const LANGUAGE_NAMES: Readonly<Record<Language, string>> = { en: 'English', ru: 'Русский' }

/** `chosen`: from the menu. `preferred`: of the browser, the best first, such as `ru-RU`. */
export const chooseLanguage = (chosen: string | null, preferred: ReadonlyArray<string>): Language => {
  const [known] = [chosen ?? '', ...preferred].flatMap((tag) =>
    LANGUAGES.filter((language) => language === tag.toLowerCase().split('-')[0]),
  )
  return known ?? 'en'
}

/** The name of the choice in the storage. */
export const LANGUAGE = 'language'

/** It does not change while the page is open. */
export const language: Language = chooseLanguage(readChoice(LANGUAGE), navigator.languages)

/** Makes something of a language once: the formats of a language take longer to make than to use. */
export const perLanguage = <A>(make: (of: Language) => A): ((of: Language) => A) => {
  const made: Partial<Record<Language, A>> = {}
  return (of) => (made[of] ??= make(of))
}
