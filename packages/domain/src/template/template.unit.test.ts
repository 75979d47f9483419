import { Result } from 'effect'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { countParts } from '../sms/sms.ts'
import { admitTemplate, type AdmissibleTemplate } from './admission.ts'
import { foreignPlaceholders, parseTemplate, render, type RenderError } from './template.ts'

const template = (body: string) => Result.getOrThrow(parseTemplate(body))
const given = (body: string, variables: Record<string, unknown> = {}) => {
  const result = render(template(body), variables)
  return {
    thenText: (text: string) =>
      expect(Result.getOrThrow(result)).toMatchObject({ text, ...countParts(text) }),
    thenFails: (code: RenderError['code'], details: object = {}) =>
      expect(Result.isFailure(result) ? result.failure : result).toMatchObject({ code, ...details }),
  }
}
/** Parses JSON like a request, so that `{"__proto__": …}` makes an own property. */
const json = (text: string) => JSON.parse(text) as Record<string, unknown>

describe('a template', () => {
  // Rules: TPL-3, TPL-5
  it.each([
    ['no placeholder', 'Hello', []],
    ['one', 'Code {{code}}', ['code']],
    ['spaces inside the braces', 'Code {{  code }}', ['code']],
    ['the same twice', '{{a}} and {{a}} and {{b}}', ['a', 'b']],
    ['two in a row', '{{a}}{{b}}', ['a', 'b']],
    ['single braces', 'a { b } c', []],
    ['closing braces alone', 'a }} b', []],
    ['a brace after a placeholder', '{{a}}}', ['a']],
    ['a name of 64 characters', `{{${'n'.repeat(64)}}}`, ['n'.repeat(64)]],
    [
      'names of JavaScript',
      '{{__proto__}}{{constructor}}{{toString}}',
      ['__proto__', 'constructor', 'toString'],
    ],
  ])('has its names in order of first use: %s', (_, body, names) => {
    expect([...template(body).names]).toEqual(names)
  })

  // Rules: TPL-3, TPL-4
  it.each([
    ['not closed', 'Code {{code', 5],
    ['closed once', 'Code {{code}', 5],
    ['empty', '{{}}', 0],
    ['only spaces', '{{  }}', 0],
    ['three braces', 'a {{{code}}}', 2],
    ['a line feed inside', '{{code\n}}', 0],
    ['a tab inside', '{{\tcode}}', 0],
    ['a space within the name', '{{my code}}', 0],
    ['a leading digit', '{{1code}}', 0],
    ['a letter that is not Latin', '{{код}}', 0],
    ['a dash', '{{my-code}}', 0],
    ['a name of 65 characters', `{{${'n'.repeat(65)}}}`, 0],
    ['one placeholder in another', '{{a{{b}}}}', 0],
    ['a good one before a bad one', '{{a}} {{', 6],
  ])('is invalid: %s', (_, body, offset) => {
    expect(Result.getOrThrow(Result.flip(parseTemplate(body)))).toMatchObject({
      code: 'template_invalid',
      offset,
    })
  })

  it('either parses or has an error with the position', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('{', '}', ' ', 'a', '\n', '1', '_') }), (body) => {
        const parsed = parseTemplate(body)
        if (Result.isFailure(parsed)) {
          expect(body.slice(parsed.failure.offset)).toMatch(/^\{\{/)
          return
        }
        const { literals, placeholders } = parsed.success
        expect(literals).toHaveLength(placeholders.length + 1)
        expect(literals.join('')).not.toContain('{{{')
        for (const literal of literals) expect(literal).not.toContain('{{')
      }),
    )
  })
})

describe('rendering', () => {
  it('inserts the values', () => {
    given('Code {{code}}', { code: '1234' }).thenText('Code 1234')
    given('Заказ {{order}} готов', { order: 17 }).thenText('Заказ 17 готов')
    given('{{a}}{{ a }}-{{b}}', { b: 'y', a: 'x' }).thenText('xx-y')
    given('no variables').thenText('no variables')
    given('{{a}}', { a: '' }).thenText('')
  })

  // Rules: TPL-20
  it.each([
    [0, '0'],
    [-0, '0'],
    [1.5, '1.5'],
    [1e21, '1e+21'],
    [1e-7, '1e-7'],
    [123456789012345680000, '123456789012345680000'],
  ])('writes numbers as JSON does: %d', (value, text) => {
    given('{{n}}', { n: value }).thenText(text)
  })

  // Rules: TPL-23
  it('does not parse a value as a template', () => {
    given('{{a}} {{b}}', { a: '{{b}}', b: '$&' }).thenText('{{b}} $&')
  })

  it('returns the used names, sorted', () => {
    const rendered = Result.getOrThrow(render(template('{{b}}{{a}}{{C}}'), { b: 1, a: 2, C: 3 }))
    expect(rendered.variables).toEqual(['C', 'a', 'b'])
  })

  it('replaces every placeholder with its value, for any names and values', () => {
    const name = fc.constantFrom('a', 'b', '_c1', '__proto__', 'constructor')
    const piece = fc.oneof(
      name.map((n) => ({ source: `{{${n}}}`, name: n })),
      fc
        .string({ unit: fc.constantFrom('x', 'я', '}', ' ', '$'), maxLength: 5 })
        .map((s) => ({ source: s, name: null })),
    )
    const value = fc.oneof(
      fc.string({ unit: fc.constantFrom('{', '}', 'a', '$', '&', '\n', '😀'), maxLength: 8 }),
      fc.double({ noDefaultInfinity: true, noNaN: true }),
    )
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 8 }),
        fc.array(value, { minLength: 5, maxLength: 5 }),
        (pieces, values) => {
          const used = [...new Set(pieces.flatMap((p) => (p.name === null ? [] : [p.name])))]
          const texts = new Map(used.map((n, i) => [n, values[i]!]))
          const variables = Object.fromEntries(texts)
          // Object.fromEntries also defines `__proto__` as an own property.
          expect(Object.keys(variables)).toHaveLength(used.length)
          const expected = pieces
            .map((p) => {
              if (p.name === null) return p.source
              const given = texts.get(p.name)!
              return typeof given === 'number' ? JSON.stringify(given) : given
            })
            .join('')
          given(pieces.map((p) => p.source).join(''), variables).thenText(expected)
        },
      ),
    )
  })
})

describe('variables', () => {
  // Rules: TPL-19
  it('that are missing are reported first, in the order of the template', () => {
    given('{{a}} {{b}}', {}).thenFails('template_variable_missing', { param: 'variables.a' })
    given('{{a}} {{b}}', { a: null, unknown: 1 }).thenFails('template_variable_missing', {
      param: 'variables.b',
    })
  })

  // Rules: TPL-19
  it('that are unknown are reported next', () => {
    given('{{a}}', { a: null, x: 1 }).thenFails('template_variable_unknown', { param: 'variables.x' })
    given('no variables', { x: 1 }).thenFails('template_variable_unknown', { param: 'variables.x' })
  })

  // Rules: TPL-20
  it.each([
    ['null', null],
    ['a boolean', true],
    ['an object', {}],
    ['a list', ['1']],
    ['no number', Number.NaN],
    ['an infinite number', Number('1e400')],
  ])('are strings or finite numbers, not %s', (_, value) => {
    given('{{a}}', { a: value }).thenFails('template_variable_invalid', {
      param: 'variables.a',
      reason: 'type',
    })
  })

  // Rules: TPL-20, GEN-7
  it('have at most 500 characters, counted as code points', () => {
    given('{{a}}', { a: 'x'.repeat(500) }).thenText('x'.repeat(500))
    given('{{a}}', { a: 'x'.repeat(501) }).thenFails('template_variable_invalid', { reason: 'length' })
    given('{{a}}', { a: '😀'.repeat(300) }).thenText('😀'.repeat(300))
    given('{{a}}', { a: '😀'.repeat(501) }).thenFails('template_variable_invalid', { reason: 'length' })
  })

  // Rules: TPL-20, GEN-8
  it('contain no control characters except the line feed, and no lone surrogate', () => {
    given('{{a}}', { a: 'one\ntwo' }).thenText('one\ntwo')
    for (const bad of ['\0', '\t', '\r', '\u007f', '\u009f', '\ud800', '\udc00x']) {
      given('{{a}}', { a: `x${bad}` }).thenFails('template_variable_invalid', { reason: 'characters' })
    }
  })

  // Rules: HTTP-16
  it('can have the names of JavaScript built-ins', () => {
    given('{{__proto__}}', json('{"__proto__": "p"}')).thenText('p')
    given('{{constructor}}', { constructor: 'c' }).thenText('c')
    given('{{__proto__}}').thenFails('template_variable_missing', { param: 'variables.__proto__' })
    given('{{constructor}}').thenFails('template_variable_missing', { param: 'variables.constructor' })
    given('{{toString}}').thenFails('template_variable_missing', { param: 'variables.toString' })
    given('x', json('{"__proto__": "p"}')).thenFails('template_variable_unknown', {
      param: 'variables.__proto__',
    })
    given(
      '{{a}}',
      Object.assign(Object.create(null) as Record<string, unknown>, { a: 'null prototype' }),
    ).thenText('null prototype')
  })

  it('do not appear in errors', () => {
    const result = render(template('{{a}}'), { a: 'private\0value' })
    const error = Result.getOrThrow(Result.flip(result))
    expect([String(error), JSON.stringify(error), error.stack].join(' ')).not.toContain('private')
  })
})

describe('a text', () => {
  // Rules: TPL-22
  it('has at most ten parts', () => {
    given('x'.repeat(1530)).thenText('x'.repeat(1530))
    given('x'.repeat(1531)).thenFails('template_text_too_long', { parts: 11 })
    given('{{a}}{{a}}', { a: 'я'.repeat(335) }).thenText('я'.repeat(670))
    given('{{a}}{{a}}!', { a: 'я'.repeat(335) }).thenFails('template_text_too_long', { parts: 11 })
  })
})

describe('admitTemplate', () => {
  const good: AdmissibleTemplate = { status: 'approved', class: 'otp', senderStatus: 'registered' }
  const live = { class: 'otp', mode: 'live' } as const
  const test = { class: 'otp', mode: 'test' } as const
  const bad = { status: 'pending_moderation', class: 'service', senderStatus: 'pending' } as const

  it('admits an approved template of the same class with a registered sender', () => {
    expect(Result.getOrThrow(admitTemplate(good, live))).toBe(good)
  })

  // Rules: TPL-8, SND-4
  it('does not wait for moderation or registration in test mode', () => {
    expect(Result.isSuccess(admitTemplate({ ...bad, class: 'otp' }, test))).toBe(true)
  })

  // Rules: TPL-15, TPL-16, TPL-17, SND-10
  it.each([
    ['template_not_found', null, live],
    ['template_declined', { ...bad, status: 'declined' } as const, live],
    ['template_declined', { ...good, status: 'declined' } as const, test],
    ['template_not_approved', bad, live],
    ['template_class_mismatch', { ...bad, status: 'approved' } as const, live],
    ['template_class_mismatch', bad, test],
    ['sender_not_registered', { ...good, senderStatus: 'pending' } as const, live],
    ['sender_not_registered', { ...good, senderStatus: 'declined' } as const, live],
    ['sender_not_registered', { ...good, senderStatus: 'declined' } as const, test],
  ] as const)('else reports the first failed check: %s', (code, candidate, send) => {
    expect(Result.getOrThrow(Result.flip(admitTemplate(candidate, send)))).toMatchObject({
      code,
      param: 'template',
    })
  })
})

describe('foreignPlaceholders', () => {
  // Rules: TPL-10
  it.each<[string, ReadonlyArray<string>]>([
    ['Заказ ${order}, {code} и {{name}}', ['${order}', '{code}']],
    ['{ a } ${ a } {a} {a}', ['{ a }', '${ a }', '{a}']],
    ['{{a}} {} {1} {a b} {а} a}} {', []],
  ])('finds in %j names in single braces: %j', (body, found) => {
    expect(foreignPlaceholders(template(body))).toEqual(found)
  })
})
