/** What each operation of the contract does, by its name in the description. */
import {
  type ApiError,
  apiError,
  decodeEventsQuery,
  decodeListQuery,
  decodeSendRequest,
  decodeWebhookEndpointCreate,
  descriptionText,
  ERROR_PAGE_PATH,
  errorPage,
  type HtmlPage,
  parseBody,
  REFERENCE_PATH,
  referencePage,
} from '@hub/contract'
import { decodeId, toTimestamp } from '@hub/domain'
import { registryAnswer, REGISTRY_CONTENT_TYPE } from '@hub/kafka'
import { Effect, Result } from 'effect'
import { candidateOf } from '../accept/candidate.ts'
import { Flusher } from '../accept/flush.ts'
import { accountBody } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import { Events } from '../events/events.ts'
import { acceptedBody, messageBody } from '../messages/message.ts'
import { Messages } from '../messages/store.ts'
import { WebhookEndpoints } from '../webhook-endpoints/endpoints.ts'
import { type Answer, jsonAnswer, listAnswer } from './answer.ts'
import type { OpenOperation, Operation } from './pipeline.ts'

const notFound: Effect.Effect<never, ApiError> = Effect.fail(apiError('not_found'))

const orNotFound = <A>(found: A | null): Effect.Effect<A, ApiError> =>
  found === null ? notFound : Effect.succeed(found)

export interface OperationsOptions {
  /** Secret of the recipient hash. */
  readonly hashSecret: string | Uint8Array
}

/** The operations that need a key. */
export const makeOperations = Effect.fnUntraced(function* (options: OperationsOptions) {
  const accounts = yield* Accounts
  const flusher = yield* Flusher
  const messages = yield* Messages
  const events = yield* Events
  const endpoints = yield* WebhookEndpoints

  const sendMessage: Operation = Effect.fnUntraced(function* ({ body, caller }) {
    const send = yield* Effect.fromResult(Result.flatMap(parseBody(body), (json) => decodeSendRequest(json)))
    const settings = yield* accounts.settings(caller)
    const template = yield* accounts.template(caller, send.template)
    const candidate = candidateOf(send, { owner: caller, settings, template, hashSecret: options.hashSecret })
    // A refusal of a send without a reference can be no duplicate: it needs no look at the ledger.
    if (candidate.clientRef === null && Result.isFailure(candidate.draft)) {
      return yield* candidate.draft.failure
    }
    const [outcome] = yield* flusher.accept([candidate])
    if (outcome === undefined) return yield* apiError('internal_error')
    const { duplicate, view } = yield* Effect.fromResult(outcome)
    return jsonAnswer(202, acceptedBody(view, duplicate))
  })

  const readMessage: Operation = Effect.fnUntraced(function* ({ caller, params }) {
    const id = yield* orNotFound(decodeId('msg', params['id'] ?? ''))
    const { content, view } = yield* Effect.flatMap(messages.read(caller, id), orNotFound)
    return jsonAnswer(200, messageBody(view, content))
  })

  const createEndpoint: Operation = Effect.fnUntraced(function* ({ body, caller }) {
    const wanted = yield* Effect.fromResult(Result.flatMap(parseBody(body), decodeWebhookEndpointCreate))
    return jsonAnswer(201, yield* endpoints.create(caller, wanted))
  })

  const listEndpoints: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const page = yield* Effect.fromResult(decodeListQuery(query))
    const { data, hasMore } = yield* Effect.flatMap(endpoints.page(caller, page), orNotFound)
    return listAnswer({
      elements: data.map((endpoint) => JSON.stringify(endpoint)),
      hasMore,
      lastId: data.at(-1)?.id ?? null,
      startingAfter: page.startingAfter,
    })
  })

  const readEndpoint: Operation = Effect.fnUntraced(function* ({ caller, params }) {
    const found = yield* endpoints.read(caller, params['id'] ?? '')
    return jsonAnswer(200, yield* orNotFound(found))
  })

  const listEvents: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const page = yield* Effect.fromResult(decodeEventsQuery(query))
    const { bodies, hasMore, lastId } = yield* Effect.flatMap(events.page(caller, page), orNotFound)
    return listAnswer({ elements: bodies, hasMore, lastId, startingAfter: page.startingAfter })
  })

  const readAccount: Operation = Effect.fnUntraced(function* ({ caller }) {
    const settings = yield* accounts.settings(caller)
    if (caller.mode === 'test' || settings.spendLimit === null) {
      return jsonAnswer(200, accountBody(caller, settings, null))
    }
    const { amount, from, to } = yield* accounts.spending(caller)
    return jsonAnswer(
      200,
      accountBody(caller, settings, {
        spent: { amount, currency: settings.spendLimit.currency },
        from: toTimestamp(from),
        to: toTimestamp(to),
      }),
    )
  })

  const operations: Readonly<Record<string, Operation>> = {
    'messages.send': sendMessage,
    'messages.read': readMessage,
    'webhook_endpoints.create': createEndpoint,
    'webhook_endpoints.list': listEndpoints,
    'webhook_endpoints.read': readEndpoint,
    'events.list': listEvents,
    'account.read': readAccount,
  }
  return operations
})

/** A page for people: compressed where the client takes it, and not sent again to one that has it. */
const page =
  (made: Effect.Effect<HtmlPage>): OpenOperation =>
  ({ headers }) =>
    Effect.map(made, (html): Answer => {
      const fixed = Object.fromEntries(
        Object.entries(html.headers).map(([name, value]) => [name.toLowerCase(), value]),
      )
      const contentType = fixed['content-type'] ?? 'text/html; charset=utf-8'
      const etag = fixed['etag']
      if (etag !== undefined && headers['if-none-match'] === etag) {
        return { status: 304, contentType, headers: fixed, body: '' }
      }
      return /\bgzip\b/i.test(String(headers['accept-encoding'] ?? ''))
        ? { status: 200, contentType, headers: { ...fixed, 'content-encoding': 'gzip' }, body: html.gzip }
        : { status: 200, contentType, headers: fixed, body: html.plain() }
    })

const SCHEMA_REGISTRY_PATH = '/schema-registry'

/** What a stock Avro consumer asks a schema registry for. */
const schemaRegistry: OpenOperation = ({ path }) => {
  const { body, status } = registryAnswer(path.slice(SCHEMA_REGISTRY_PATH.length))
  return Effect.succeed({ ...jsonAnswer(status, body), contentType: REGISTRY_CONTENT_TYPE })
}

/** The operations of the contract that need no key. */
export const openOperations: Readonly<Record<string, OpenOperation>> = {
  'description.openapi': () =>
    Effect.sync(() => ({ status: 200, contentType: 'application/json', body: descriptionText() })),
}

/** What is served beside the contract, all of it by GET. */
export const openPaths: Readonly<Record<`/${string}`, OpenOperation>> = {
  [REFERENCE_PATH]: page(referencePage),
  [ERROR_PAGE_PATH]: page(errorPage),
  [`${SCHEMA_REGISTRY_PATH}/*`]: schemaRegistry,
}
