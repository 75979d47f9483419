/**
 * Operations without an API key: the API description, the pages for people, the schema registry.
 */
import {
  type CachedDocument,
  descriptionDocument,
  ERROR_PAGE_PATH,
  CHANGELOG_PATH,
  changelogPage,
  errorPage,
  REFERENCE_PATH,
  referencePage,
} from '@hub/contract'
import { readsBody, registryAnswer, REGISTRY_CONTENT_TYPE } from '@hub/kafka'
import { Effect } from 'effect'
import { type Answer, jsonAnswer } from './answer.ts'
import type { OpenOperation } from './pipeline.ts'

/** Whether the client accepts gzip: named or by `*`, and not with the weight 0. */
const acceptsGzip = (accepted: string | undefined): boolean => {
  const weights = new Map(
    (accepted ?? '').split(',').map((part): [string, number] => {
      const [coding = '', ...parameters] = part.toLowerCase().split(';')
      const weight = parameters.map((text) => /^\s*q=([\d.]+)\s*$/u.exec(text)?.[1]).find(Boolean)
      return [coding.trim(), Number(weight ?? 1)]
    }),
  )
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0
}

/** Whether `If-None-Match` names the document. Weak comparison: RFC 9110, 13.1.2. */
const hasDocument = (ifNoneMatch: string | undefined, etag: string): boolean =>
  ifNoneMatch !== undefined &&
  ifNoneMatch
    .split(',')
    .map((tag) => tag.trim())
    .some((tag) => tag === '*' || tag.replace(/^W\//u, '') === etag.replace(/^W\//u, ''))

/** A document, compressed if the client accepts it, and 304 if the client has it already. */
const serveDocument =
  (makeDocument: Effect.Effect<CachedDocument>): OpenOperation =>
  ({ headers: requestHeaders }) =>
    Effect.map(makeDocument, (document): Answer => {
      const headers = Object.fromEntries(
        Object.entries(document.headers).map(([name, value]) => [name.toLowerCase(), value]),
      )
      const contentType = headers['content-type'] ?? 'text/html; charset=utf-8'
      if (hasDocument(requestHeaders['if-none-match'], headers['etag'] ?? '')) {
        return { status: 304, contentType, headers, body: '' }
      }
      return acceptsGzip(requestHeaders['accept-encoding'] as string | undefined)
        ? {
            status: 200,
            contentType,
            headers: { ...headers, 'content-encoding': 'gzip' },
            body: document.gzip,
          }
        : { status: 200, contentType, headers, body: document.plain() }
    })

const SCHEMA_REGISTRY_PATH = '/schema-registry'

/** The read-only part of the Confluent schema registry API that Avro consumers use. */
const schemaRegistry: OpenOperation = ({ body, method, path, query }) => {
  const request = { method, path: path.slice(SCHEMA_REGISTRY_PATH.length), query }
  return Effect.map(readsBody(request) ? body : Effect.succeed(''), (text) => {
    const answer = registryAnswer({ ...request, body: text })
    return { ...jsonAnswer(answer.status, answer.body), contentType: REGISTRY_CONTENT_TYPE }
  })
}

/** Operations of the contract without a key, by name. */
export const openOperations: Readonly<Record<string, OpenOperation>> = {
  'description.openapi': serveDocument(descriptionDocument),
}

/** Operations beside the contract. */
interface OpenPath {
  readonly methods: ReadonlyArray<string>
  readonly operation: OpenOperation
}

const forReading = (operation: OpenOperation): OpenPath => ({ methods: ['GET'], operation })

/** Paths beside the contract. The schema registry refuses changes with an error of its own format. */
export const openPaths: Readonly<Record<`/${string}`, OpenPath>> = {
  [REFERENCE_PATH]: forReading(serveDocument(referencePage)),
  [ERROR_PAGE_PATH]: forReading(serveDocument(errorPage)),
  [CHANGELOG_PATH]: forReading(serveDocument(changelogPage)),
  [`${SCHEMA_REGISTRY_PATH}/*`]: { methods: ['GET', 'POST', 'PUT', 'DELETE'], operation: schemaRegistry },
}
