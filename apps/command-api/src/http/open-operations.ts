/**
 * Operations without an API key: the API description, the pages for people, the schema registry.
 */
import {
  descriptionText,
  ERROR_PAGE_PATH,
  errorPage,
  type HtmlPage,
  REFERENCE_PATH,
  referencePage,
} from '@hub/contract'
import { registryAnswer, REGISTRY_CONTENT_TYPE } from '@hub/kafka'
import { Effect } from 'effect'
import { type Answer, jsonAnswer } from './answer.ts'
import type { OpenOperation } from './pipeline.ts'

/** An HTML page, compressed if the client accepts it, and 304 if the client has it already. */
const serveHtml =
  (makePage: Effect.Effect<HtmlPage>): OpenOperation =>
  ({ headers: requestHeaders }) =>
    Effect.map(makePage, (html): Answer => {
      const headers = Object.fromEntries(
        Object.entries(html.headers).map(([name, value]) => [name.toLowerCase(), value]),
      )
      const contentType = headers['content-type'] ?? 'text/html; charset=utf-8'
      const etag = headers['etag']
      if (etag !== undefined && requestHeaders['if-none-match'] === etag) {
        return { status: 304, contentType, headers, body: '' }
      }
      return /\bgzip\b/i.test(String(requestHeaders['accept-encoding'] ?? ''))
        ? { status: 200, contentType, headers: { ...headers, 'content-encoding': 'gzip' }, body: html.gzip }
        : { status: 200, contentType, headers, body: html.plain() }
    })

const SCHEMA_REGISTRY_PATH = '/schema-registry'

/** The read-only part of the Confluent schema registry API that Avro consumers use. */
const schemaRegistry: OpenOperation = ({ path }) => {
  const { body, status } = registryAnswer(path.slice(SCHEMA_REGISTRY_PATH.length))
  return Effect.succeed({ ...jsonAnswer(status, body), contentType: REGISTRY_CONTENT_TYPE })
}

/** Operations of the contract without a key, by name. */
export const openOperations: Readonly<Record<string, OpenOperation>> = {
  'description.openapi': () =>
    Effect.sync(() => ({ status: 200, contentType: 'application/json', body: descriptionText() })),
}

/** Paths beside the contract, all of them for GET. */
export const openPaths: Readonly<Record<`/${string}`, OpenOperation>> = {
  [REFERENCE_PATH]: serveHtml(referencePage),
  [ERROR_PAGE_PATH]: serveHtml(errorPage),
  [`${SCHEMA_REGISTRY_PATH}/*`]: schemaRegistry,
}
