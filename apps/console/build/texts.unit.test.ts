/** Every language has every text. Sources: the texts in English, and the description of the operations API. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { TEXTS } from '../src/strings.ts'

const SOURCES = join(import.meta.dirname, '../src')
const DESCRIPTION = join(import.meta.dirname, '../../operations-api/openapi.json')

/** Names of the product and of its parts, which no language translates. */
const SAME = new Set([
  'product',
  'columns.clientRef',
  'columns.id',
  'performers.command-api',
  'performers.dispatcher',
  'performers.projector',
  'performers.webhook-fanout',
  // People type them to confirm.
  'hub.name',
  'people.eraseName',
])

type Leaf = string | ((...given: ReadonlyArray<never>) => string)

/** The texts by their path. */
const leavesOf = (texts: object, path = ''): ReadonlyArray<readonly [string, Leaf]> =>
  Object.entries(texts).flatMap(([name, value]: [string, Leaf | object]) => {
    const full = path === '' ? name : `${path}.${name}`
    return typeof value === 'object' ? leavesOf(value, full) : [[full, value] as const]
  })

const withoutWords = (language: keyof typeof TEXTS) => {
  const { words: _, ...texts } = TEXTS[language]
  return leavesOf(texts)
}

/** The properties of answers whose values the console shows as words. */
const SHOWN = new Set(['status', 'sender_status', 'outcome', 'mode', 'class', 'change', 'type', 'reason'])

interface Schema {
  readonly enum?: ReadonlyArray<unknown>
}

/** The values that the description of the API lists for such a property or parameter. */
const codesIn = (node: unknown, name: string | null): ReadonlyArray<string> => {
  if (Array.isArray(node)) return node.flatMap((one) => codesIn(one, name))
  if (typeof node !== 'object' || node === null) return []
  const parameter = 'in' in node && 'name' in node ? String(node.name) : null
  const { enum: values = [] } = node as Schema
  const own = name !== null && SHOWN.has(name) ? values.filter((value) => typeof value === 'string') : []
  return [
    ...own,
    ...Object.entries(node).flatMap(([key, value]) =>
      codesIn(
        value,
        parameter ?? (['anyOf', 'items', 'schema', 'oneOf', 'allOf'].includes(key) ? name : key),
      ),
    ),
  ]
}

describe('the texts in Russian', () => {
  const english = new Map(withoutWords('en'))
  const russian = new Map(withoutWords('ru'))

  it('are those of English, none is missing, and none is empty', () => {
    expect([...russian.keys()].toSorted()).toEqual([...english.keys()].toSorted())
    const empty = [...russian].filter(([, text]) => typeof text === 'string' && text.trim() === '')
    expect(empty).toEqual([])
  })

  it('are in Russian', () => {
    const untranslated = [...russian].filter(([path, text]) => {
      if (SAME.has(path) || typeof text !== 'string') return false
      return !/[а-яё]/iu.test(text) || text === english.get(path)
    })
    expect(untranslated).toEqual([])
  })

  it('take the same values', () => {
    for (const [path, text] of english) {
      const other = russian.get(path)
      if (typeof text === 'function') expect([path, typeof other]).toEqual([path, 'function'])
    }
  })

  it('have a word for every code of the API that the console shows', () => {
    const codes = new Set(codesIn(JSON.parse(readFileSync(DESCRIPTION, 'utf8')), null))
    expect(codes.size).toBeGreaterThan(30)
    expect([...codes].filter((code) => TEXTS.ru.words[code] === undefined)).toEqual([])
  })
})

describe('the sentences about a message', () => {
  /** The sentences in the sources of the API, with a value for each variable. */
  const sentences = ['entries.ts', 'timeline.ts'].flatMap((name) => {
    const source = readFileSync(
      join(import.meta.dirname, '../../../packages/operations/src/messages', name),
      'utf8',
    )
    const found = [
      // Sentences, and the names and reasons of what is not shown.
      ...source.matchAll(/(?<!description:\s*)'([A-Z][^'\n]* [^'\n]*\.)'/gu),
      ...source.matchAll(/(?<!description:\s*)`([A-Z][^`\n]* [^`\n]*\.)`/gu),
      ...source.matchAll(/\b(?:what|why): (?:'([^'\n]+)'|"([^"\n]+)")/gu),
    ]
    return found.map(([, one, other]) =>
      (one ?? other ?? '').replaceAll(/\$\{(?:[^{}]|\{[^{}]*\})*\}/gu, 'x'),
    )
  })

  it('are in Russian', () => {
    expect(sentences.length).toBeGreaterThan(25)
    expect(sentences.filter((one) => !/[а-яё]/iu.test(TEXTS.ru.sentence(one)))).toEqual([])
  })

  it('keep their values', () => {
    expect(TEXTS.ru.sentence('The hub recorded the event message.sent.')).toBe(
      'Хаб записал событие message.sent.',
    )
    expect(TEXTS.ru.sentence('Attempt 2 to deliver message.sent failed: HTTP 503.')).toBe(
      'Попытка 2 доставить message.sent не удалась: HTTP 503.',
    )
    expect(TEXTS.ru.sentence('Something new.')).toBe('Something new.')
  })
})

describe('the pages', () => {
  it('have all their texts from the texts of the languages', () => {
    const found = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.tsx'))
      .flatMap((name) => {
        const source = readFileSync(join(SOURCES, name), 'utf8').replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gmu, '')
        // A text between two tags, and a label in an attribute.
        const texts = [
          ...source.matchAll(/(?<=[a-z"}]>)\s*([A-Za-z][a-z]+(?:[ .,][^<>{}]*)?)\s*<\//gu),
          ...source.matchAll(/\b(?:aria-label|title|placeholder|alt)="([^"]*[A-Za-z]{2}[^"]*)"/gu),
        ]
        return texts.map(([, text]) => `${name}: ${text}`)
      })
    // Examples of values, the same in every language.
    expect(found.filter((one) => !/192\.0\.2\.0/u.test(one))).toEqual([])
  })
})
