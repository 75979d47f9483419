/**
 * HTML pages: the API reference at `/docs` and the error list at `/docs/errors`, to which every
 * `doc_url` points. Both need no API key and load nothing from other hosts. Their content security
 * policies allow exactly their own scripts and styles.
 */
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gunzipSync, gzip } from 'node:zlib'
import { Effect, Layer } from 'effect'
import { HttpRouter, HttpServer } from 'effect/http'
import { HttpApiScalar, OpenApi } from 'effect/http-api'
import { HubApi } from './api/hub-api.ts'
import { description } from './describe.ts'
import { type ErrorEntry, ERROR_CODES, ERRORS } from './errors.ts'

export const REFERENCE_PATH = '/docs'

/** Path of the error list; the `docBase` of `toErrorBody` ends with it. */
export const ERROR_PAGE_PATH = '/docs/errors'

/** A cached page: compressed once, with its response headers. */
export interface HtmlPage {
  /** For clients that accept gzip; add `Content-Encoding: gzip`. */
  readonly gzip: Uint8Array
  /** For other clients. Decompressed at each call: such clients are rare, and the page is large. */
  readonly plain: () => Uint8Array
  /** All but `Content-Encoding` and `Content-Length`. Both forms share the weak `ETag`. */
  readonly headers: Readonly<Record<string, string>>
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64')

const sources = (html: string, tag: 'script' | 'style'): string =>
  [...html.matchAll(new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`, 'gu'))]
    .map((match) => `'sha256-${sha256(match[1] ?? '')}'`)
    .join(' ')

/**
 * Only scripts of the page may run, and connect only to the hub. The reference viewer creates
 * styles at run time; the rest of the policy prevents a style from sending data.
 */
const policy = (html: string, styles: 'inline' | 'hashed'): string =>
  [
    `default-src 'none'`,
    `script-src ${sources(html, 'script') || `'none'`}`,
    `style-src ${styles === 'inline' ? `'unsafe-inline'` : sources(html, 'style')}`,
    `img-src 'self' data:`,
    `font-src data:`,
    `connect-src 'self'`,
    `base-uri 'none'`,
    `form-action 'none'`,
    `frame-ancestors 'none'`,
  ].join('; ')

const compress = promisify<string, Buffer>((text, done) => gzip(text, { level: 9 }, done))

const pageOf = Effect.fnUntraced(function* (html: string, styles: 'inline' | 'hashed') {
  const compressed = yield* Effect.promise(() => compress(html))
  const page: HtmlPage = {
    gzip: compressed,
    plain: () => gunzipSync(compressed),
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': policy(html, styles),
      'Cache-Control': 'no-cache',
      ETag: `W/"${sha256(html)}"`,
      Vary: 'Accept-Encoding',
      'X-Content-Type-Options': 'nosniff',
      'Referrer-Policy': 'no-referrer',
    },
  }
  return page
})

/** Computes a value at its first use and caches it: a page takes 0.1 s and has 1 MB compressed. */
const once = <A>(make: Effect.Effect<A>): Effect.Effect<A> => {
  let made: A | undefined
  return Effect.suspend(() =>
    made === undefined ? Effect.map(make, (value) => (made = value)) : Effect.succeed(made),
  )
}

/** Only used to ask a router in this process; nothing connects to it. */
const DOCS = 'http://hub.invalid'

/** Disables everything that loads from or links to the viewer's vendor. */
const VIEWER: HttpApiScalar.ScalarConfig & Readonly<Record<string, unknown>> = {
  withDefaultFonts: false,
  theme: 'default',
  defaultOpenAllTags: true,
  authentication: { preferredSecurityScheme: 'bearer' },
  showDeveloperTools: 'never',
  hideClientButton: true,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
}

/** The page of the bundled viewer, with our description instead of the generated one. */
const scalarHtml = Effect.acquireUseRelease(
  Effect.sync(() =>
    HttpRouter.toWebHandler(
      HttpApiScalar.layer(
        HubApi.annotate(OpenApi.Transform, () => structuredClone(description())),
        { path: REFERENCE_PATH, scalar: VIEWER },
      ).pipe(Layer.provideMerge(HttpServer.layerServices)),
      { disableLogger: true },
    ),
  ),
  ({ handler }) =>
    Effect.promise(async () => (await handler(new Request(`${DOCS}${REFERENCE_PATH}`))).text()),
  ({ dispose }) => Effect.promise(dispose),
)

export const referencePage: Effect.Effect<HtmlPage> = once(
  Effect.flatMap(scalarHtml, (html) => pageOf(html, 'inline')),
)

const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 46rem; margin: 0 auto; padding: 2rem 1rem 6rem }
section { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); padding: 1rem 0 }
section:target { outline: 2px solid; outline-offset: .5rem; border-radius: .25rem }
h2 { font-size: 1.1rem; margin: 0; font-family: ui-monospace, monospace }
dt { font-weight: 600; float: left; clear: left; width: 7rem }
dd { margin: 0 0 .25rem 7rem }
`

const WITH: Readonly<Record<ErrorEntry['retryAfter'], string>> = {
  always: 'always',
  optional: 'where it can be known',
  never: 'never',
}

/** The error list as HTML: one section for each code, to which `doc_url` links. */
export const renderErrorPage = (): string => {
  const sections = ERROR_CODES.map((code) => {
    const entry = ERRORS[code]
    const status = code === 'internal_error' ? '503, or 500 without retry_after' : String(entry.status)
    return `<section id="${code}">
<h2><a href="#${code}">${code}</a></h2>
<p>${escape(entry.message)}</p>
<dl><dt>Status</dt><dd>${status}</dd>
<dt>param</dt><dd>${WITH[entry.param]}</dd>
<dt>retry_after</dt><dd>${WITH[entry.retryAfter]}</dd>
<dt>A retry</dt><dd>${escape(entry.retry)}</dd></dl>
</section>`
  })
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Errors – SMS Delivery Hub</title>
<style>${STYLE}</style>
</head>
<body>
<h1>Errors</h1>
<p>A failed request has a status of 400 or above and a body <code>{"error": {…}}</code> with one of these codes.
New codes may be added: treat one that you do not know by its status. <a href="${REFERENCE_PATH}">Reference</a></p>
${sections.join('\n')}
</body>
</html>
`
}

export const errorPage: Effect.Effect<HtmlPage> = once(
  Effect.suspend(() => pageOf(renderErrorPage(), 'hashed')),
)
