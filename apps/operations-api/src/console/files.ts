/**
 * The built files of the console, read once and compressed once. Every path without a file is a page of
 * the console, so a link to it opens the console. The console loads nothing from other hosts.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { page } from '@hub/contract'
import { Effect } from 'effect'
import { type Answer, htmlAnswer } from '../http/answer.ts'

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.webmanifest': 'application/manifest+json',
  '.txt': 'text/plain; charset=utf-8',
}

/** Vite puts the hash of the content into the names of these files. */
const HASHED = /^\/assets\//u
const FOREVER = 'public, max-age=31536000, immutable'
/** The browser asks each time whether the file has changed. */
const REVALIDATE = 'no-cache'

/** Formats that contain compressed data. */
const COMPRESSED = new Set(['.png', '.woff2', '.ico'])

const START_PAGE = '/index.html'

interface StoredFile {
  readonly plain: Uint8Array
  /** `null`: it does not become smaller. */
  readonly gzip: Uint8Array | null
  readonly headers: Readonly<Record<string, string>>
}

const compress = promisify<Uint8Array, { level: number }, Buffer>(gzip)

const readStored = async (folder: string, path: string): Promise<readonly [string, StoredFile]> => {
  const plain = await readFile(join(folder, path))
  const route = `/${path.replaceAll('\\', '/')}`
  const extension = extname(path)
  const zipped = COMPRESSED.has(extension) ? plain : await compress(plain, { level: 9 })
  return [
    route,
    {
      plain,
      gzip: zipped.length < plain.length ? zipped : null,
      headers: {
        'content-type': TYPES[extension] ?? 'application/octet-stream',
        'content-security-policy': POLICY,
        'cache-control': HASHED.test(route) ? FOREVER : REVALIDATE,
        etag: `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`,
        vary: 'Accept-Encoding',
      },
    },
  ]
}

const NOT_BUILT = htmlAnswer(
  503,
  page(
    'The console is not built',
    '<h1>The console is not built</h1>\n<p>The operations API works. To build the console: <code>node apps/console/build/main.ts</code>. Then restart this process.</p>',
  ),
)

/** The headers of a request that select an answer. */
export interface FileRequest {
  readonly path: string
  readonly acceptEncoding: string | undefined
  readonly ifNoneMatch: string | undefined
}

export interface ConsoleFiles {
  /** `null`: nothing is under this path. */
  readonly answer: (request: FileRequest) => Answer | null
  readonly isBuilt: boolean
}

const answerOf = ({ gzip: zipped, headers, plain }: StoredFile, request: FileRequest): Answer => {
  const { acceptEncoding = '', ifNoneMatch } = request
  if (ifNoneMatch !== undefined && ifNoneMatch === headers['etag']) return { status: 304, body: '', headers }
  return zipped !== null && /\bgzip\b/u.test(acceptEncoding)
    ? { status: 200, body: zipped, headers: { ...headers, 'content-encoding': 'gzip' } }
    : { status: 200, body: plain, headers }
}

/** Reads the files of a folder. Without `index.html`, every path is a page that says so. */
export const readConsoleFiles = (folder: string): Effect.Effect<ConsoleFiles> =>
  Effect.promise(async () => {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
    const paths = entries
      .filter((entry) => entry.isFile() && extname(entry.name) !== '.map')
      .map((entry) => join(entry.parentPath, entry.name).slice(join(folder, '/').length))
    const files = new Map(await Promise.all(paths.map((path) => readStored(folder, path))))
    const start = files.get(START_PAGE)
    return {
      isBuilt: start !== undefined,
      answer: (request) => {
        const file = files.get(request.path === '/' ? START_PAGE : request.path)
        if (file !== undefined) return answerOf(file, request)
        // A missing file is not a page: a page has no extension.
        if (extname(request.path) !== '') return null
        return start === undefined ? NOT_BUILT : answerOf(start, request)
      },
    }
  })
