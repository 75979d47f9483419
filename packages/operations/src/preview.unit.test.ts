import { assert, describe, it } from 'vitest'
import { previewOf } from './preview.ts'

describe('the preview of a template', () => {
  it('renders the text with example values, and counts the parts', () => {
    assert.deepStrictEqual(previewOf('Your code is {{ code }}, {{user_name}}. {{x}}'), {
      text: 'Your code is 4821, Anna. [x]',
      encoding: 'gsm7',
      // [ and ] take two septets each.
      characters: 30,
      parts: 1,
      examples: { code: '4821', user_name: 'Anna', x: '[x]' },
      parts_at_least: 1,
      parts_at_most: 10,
    })
  })

  it('counts a text in Cyrillic by 70 characters', () => {
    const preview = previewOf(`Заказ ${'а'.repeat(70)}`)
    assert.deepInclude(preview, {
      encoding: 'ucs2',
      characters: 76,
      parts: 2,
      parts_at_least: 2,
      parts_at_most: 2,
    })
  })

  it('has no preview of a body that is no template', () => {
    assert.isNull(previewOf('Your code is {{ code'))
  })

  it('has no preview of a text that is too long for a send', () => {
    assert.isNull(previewOf('a'.repeat(1531)))
  })
})
