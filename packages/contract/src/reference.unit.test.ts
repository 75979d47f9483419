import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { it } from '@effect/vitest'
import { Effect } from 'effect'
import { describe, expect } from 'vitest'
import { description } from './describe.ts'
import { apiError, ERROR_CODES, toErrorBody } from './errors.ts'
import { renderChangelog } from './changelog.ts'
import {
  changelogPage,
  ERROR_PAGE_PATH,
  errorPage,
  type CachedDocument,
  REFERENCE_PATH,
  referencePage,
} from './reference.ts'

const text = (page: CachedDocument) => gunzipSync(page.gzip).toString('utf8')

const directive = (page: CachedDocument, name: string): string =>
  page.headers['Content-Security-Policy']?.split('; ').find((one) => one.startsWith(`${name} `)) ?? ''

/**
 * The content of every script element, the way a browser takes it: to the next end tag, whatever is
 * between.
 */
const scripts = (html: string): ReadonlyArray<string> =>
  [...html.matchAll(/<script[^>]*>([\s\S]*?)<\/script/giu)].map((match) => match[1] ?? '')

describe.each([
  ['the reference', referencePage],
  ['the list of errors', errorPage],
  ['the changelog', changelogPage],
] as const)('%s', (_, page) => {
  it.effect('is cached, and equal in compressed and plain form', () =>
    Effect.gen(function* () {
      const first = yield* page
      expect(Buffer.from(first.plain()).toString('utf8')).toBe(text(first))
      expect(text(first)).toMatch(/^<!doctype html>/u)
      expect(yield* page).toBe(first)
    }),
  )

  it.effect('allows only its own scripts and connections to the hub', () =>
    Effect.gen(function* () {
      const made = yield* page
      const allowed = directive(made, 'script-src')
      expect(allowed).not.toMatch(/unsafe|https?:|\*/u)
      const inside = scripts(text(made))
      for (const script of inside) {
        expect(allowed.includes(`'sha256-${createHash('sha256').update(script).digest('base64')}'`)).toBe(
          true,
        )
      }
      expect(allowed.split(' ')).toHaveLength(1 + Math.max(1, inside.length))
      expect(directive(made, 'default-src')).toBe(`default-src 'none'`)
      expect(directive(made, 'connect-src')).toBe(`connect-src 'self'`)
      // Nothing loads from another host: the policy would block it.
      expect(text(made)).not.toMatch(/<(?:script|img|iframe)[^>]*\ssrc=|<link[^>]*\shref=/u)
    }),
  )
})

describe('the reference', () => {
  it.effect('contains our description, not the generated one', () =>
    Effect.gen(function* () {
      const html = text(yield* referencePage)
      const content = /^\s*content: (.*)$/mu.exec(html)?.[1] ?? ''
      expect(JSON.parse(content.replace(/,$/u, ''))).toEqual(description())
      expect(html).toContain('"withDefaultFonts":false')
    }),
  )
})

describe('the error page', () => {
  // Rules: ERR-3
  it.effect('has a section for each doc_url', () =>
    Effect.gen(function* () {
      const html = text(yield* errorPage)
      for (const code of ERROR_CODES) {
        const url = new URL(
          toErrorBody(apiError(code), 'req_1', `https://hub.example${ERROR_PAGE_PATH}`).error.doc_url,
        )
        expect(url.pathname).toBe(ERROR_PAGE_PATH)
        expect(html.split(`<section id="${url.hash.slice(1)}">`)).toHaveLength(2)
      }
      expect(html).toContain(`href="${REFERENCE_PATH}"`)
    }),
  )
})

describe('the changelog', () => {
  // Rules: VER-7
  it.effect('contains every change of docs/changelog.md', () =>
    Effect.gen(function* () {
      const html = text(yield* changelogPage)
      const source = readFileSync(new URL('../../../docs/changelog.md', import.meta.url), 'utf8')
      expect(html.match(/<li>/gu)?.length).toBe(source.match(/^- /gmu)?.length)
      expect(html).toContain('<h2 id="0.4.0">0.4.0</h2>')
    }),
  )

  it('renders headings, paragraphs, lists, code and links, and escapes everything else', () => {
    const html = renderChangelog(
      '# C\n\nOne\ntwo <b>.\n\n## 1.0.0\n\n- `a<b` and **c**\n  d\n- [e](https://e.example) [f](f.md)\n',
    )
    expect(/<body>\n(?<body>[\s\S]*)\n<\/body>/u.exec(html)?.groups?.['body']).toBe(
      '<h1>C</h1>\n<p>One two &lt;b&gt;.</p>\n<h2 id="1.0.0">1.0.0</h2>\n<ul>\n' +
        '<li><code>a&lt;b</code> and <strong>c</strong> d</li>\n' +
        '<li><a href="https://e.example">e</a> f</li>\n</ul>',
    )
  })
})
