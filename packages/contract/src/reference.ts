/**
 * Documents without an API key: the API description, the reference at `/docs`, the changelog, and
 * the error list at `/docs/errors`, to which every `doc_url` points. The pages load nothing from other hosts. Their
 * content security policies allow exactly their own scripts and styles.
 */
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gunzipSync, gzip } from 'node:zlib'
import { Effect, Layer } from 'effect'
import { HttpRouter, HttpServer } from 'effect/http'
import { HttpApiScalar, OpenApi } from 'effect/http-api'
import { changelogHtml } from './changelog.ts'
import { HubApi } from './api/hub-api.ts'
import { description, descriptionText } from './describe.ts'
import { type ErrorEntry, ERROR_CODES, ERRORS } from './errors.ts'
import { escapeHtml, page } from './html.ts'

export const REFERENCE_PATH = '/docs'

/** Path of the error list; the `docBase` of `toErrorBody` ends with it. */
export const ERROR_PAGE_PATH = '/docs/errors'

/** A cached document: compressed once, with its response headers. */
export interface CachedDocument {
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

const documentOf = Effect.fnUntraced(function* (text: string, headers: Readonly<Record<string, string>>) {
  const compressed = yield* Effect.promise(() => compress(text))
  const document: CachedDocument = {
    gzip: compressed,
    plain: () => gunzipSync(compressed),
    headers: {
      ...headers,
      'Cache-Control': 'no-cache',
      ETag: `W/"${sha256(text)}"`,
      Vary: 'Accept-Encoding',
      'X-Content-Type-Options': 'nosniff',
      'Referrer-Policy': 'no-referrer',
    },
  }
  return document
})

/** The policy of a page that `page` has made: only its own scripts and styles. */
export const pagePolicy = (html: string): string => policy(html, 'hashed')

const pageOf = (html: string, styles: 'inline' | 'hashed') =>
  documentOf(html, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': policy(html, styles),
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

/** The API description as JSON. */
export const descriptionDocument: Effect.Effect<CachedDocument> = once(
  Effect.suspend(() => documentOf(descriptionText(), { 'Content-Type': 'application/json' })),
)

export const referencePage: Effect.Effect<CachedDocument> = once(
  Effect.flatMap(scalarHtml, (html) => pageOf(html, 'inline')),
)

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
<p>${escapeHtml(entry.message)}</p>
<dl><dt>Status</dt><dd>${status}</dd>
<dt>param</dt><dd>${WITH[entry.param]}</dd>
<dt>retry_after</dt><dd>${WITH[entry.retryAfter]}</dd>
<dt>A retry</dt><dd>${escapeHtml(entry.retry)}</dd></dl>
</section>`
  })
  return page(
    'Errors',
    `<h1>Errors</h1>
<p>A failed request has a status of 400 or above and a body <code>{"error": {…}}</code> with one of these codes.
New codes may be added: treat one that you do not know by its status. <a href="${REFERENCE_PATH}">Reference</a></p>
${sections.join('\n')}`,
  )
}

export const errorPage: Effect.Effect<CachedDocument> = once(
  Effect.suspend(() => pageOf(renderErrorPage(), 'hashed')),
)

export const changelogPage: Effect.Effect<CachedDocument> = once(
  Effect.suspend(() => pageOf(changelogHtml(), 'hashed')),
)
