import { describe, expect, it } from 'vitest'
import { chooseLanguage } from './language.ts'

describe('the language', () => {
  it.each([
    [null, ['ru-RU', 'en-US'], 'ru'],
    [null, ['de-DE', 'ru', 'en'], 'ru'],
    [null, ['en-GB', 'ru'], 'en'],
    ['ru', ['en-GB'], 'ru'],
    ['en', ['ru'], 'en'],
    // A choice that another version of the console has stored.
    ['xx', ['ru'], 'ru'],
    [null, ['de'], 'en'],
    [null, [], 'en'],
  ] as const)('with the choice %s and the browser languages %j is %s', (chosen, preferred, expected) => {
    expect(chooseLanguage(chosen, preferred)).toBe(expected)
  })
})
