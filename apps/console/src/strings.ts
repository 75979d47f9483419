/** The texts of the console in the language of this browser. */
import { language, type Language } from './language.ts'
import { en, type Strings } from './texts/en.ts'
import { ru } from './texts/ru.ts'

export const TEXTS: Readonly<Record<Language, Strings>> = { en, ru }

export const strings: Strings = TEXTS[language]
