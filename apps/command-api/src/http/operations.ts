/** The operations that need an API key, by their name in the API description. */
import {
  type ApiError,
  apiError,
  decodeEstimate,
  decodeEventsQuery,
  decodeListQuery,
  decodeRender,
  decodeSenderCreate,
  decodeStatsQuery,
  decodeTemplateCreate,
  decodeWebhookEndpointCreate,
  type JsonObject,
  type Page,
  parseBody,
} from '@hub/contract'
import { decodeId, parseTemplate, render, toTimestamp } from '@hub/domain'
import type { TopicNames } from '@hub/kafka'
import { Sql, type StorageError } from '@hub/store'
import { Clock, Effect, Result } from 'effect'
import { renderFailure } from '../accept/checked-send.ts'
import { estimateBody, templatesOf } from '../accept/estimate.ts'
import { accountBody, type Owner } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import { readEvents } from '../events/events.ts'
import { messageBody } from '../messages/message.ts'
import { Messages } from '../messages/messages.ts'
import type { ResourcePage } from '../paging/page.ts'
import { makeSenders } from '../senders/senders.ts'
import { readStats } from '../stats/stats.ts'
import { makeTemplates } from '../templates/templates.ts'
import { makeWebhookEndpoints } from '../webhook-endpoints/webhook-endpoints.ts'
import { jsonAnswer, listOfTexts, pageAnswer } from './answer.ts'
import { orNotFound, templatesByName } from './lookups.ts'
import { messageOperations } from './message-operations.ts'
import type { Operation } from './pipeline.ts'

export interface OperationsOptions {
  /** The secret of the recipient hash. */
  readonly hashSecret: string | Uint8Array
  readonly topics: TopicNames
}

export const makeOperations = Effect.fnUntraced(function* (options: OperationsOptions) {
  const accounts = yield* Accounts
  const messages = yield* Messages
  const endpoints = yield* makeWebhookEndpoints(options.topics)
  const templateService = yield* makeTemplates
  const senders = yield* makeSenders
  const sql = yield* Sql

  const readMessage: Operation = Effect.fnUntraced(function* ({ caller, params }) {
    const id = yield* orNotFound(decodeId('msg', params['id'] ?? ''))
    const { content, view } = yield* Effect.flatMap(messages.read(caller, id), orNotFound)
    return jsonAnswer(200, messageBody(view, content))
  })

  const estimate: Operation = Effect.fnUntraced(function* ({ body, caller, errorObject }) {
    const settings = yield* accounts.settings(caller)
    const wanted = yield* Effect.fromResult(
      Result.flatMap(parseBody(body), (json) => decodeEstimate(json, settings.batchMax)),
    )
    const templates = yield* templatesByName(accounts, caller, templatesOf(wanted))
    const template = (name: string) => templates.get(name) ?? null
    return jsonAnswer(
      200,
      yield* Effect.fromResult(estimateBody(wanted, { owner: caller, settings, template }, errorObject)),
    )
  })

  /** Creates the resource in the body. */
  const creation = <Wanted>(
    decode: (body: JsonObject) => Result.Result<Wanted, ApiError>,
    create: (owner: Owner, wanted: Wanted) => Effect.Effect<object, ApiError | StorageError>,
  ): Operation =>
    Effect.fnUntraced(function* ({ body, caller }) {
      const wanted = yield* Effect.fromResult(Result.flatMap(parseBody(body), decode))
      return jsonAnswer(201, yield* create(caller, wanted))
    })

  /** A page of the caller's resources. */
  const list = <T extends { readonly id: string }>(
    readPage: (owner: Owner, page: Page) => Effect.Effect<ResourcePage<T> | null, StorageError>,
  ): Operation =>
    Effect.fnUntraced(function* ({ caller, query }) {
      const page = yield* Effect.fromResult(decodeListQuery(query))
      return pageAnswer(yield* Effect.flatMap(readPage(caller, page), orNotFound), page.startingAfter)
    })

  /** Acts on the resource in the path, or only reads it. */
  const onResource =
    (act: (owner: Owner, id: string) => Effect.Effect<object | null, StorageError>): Operation =>
    ({ caller, params }) =>
      Effect.map(Effect.flatMap(act(caller, params['id'] ?? ''), orNotFound), (found) =>
        jsonAnswer(200, found),
      )

  const renderTemplate: Operation = Effect.fnUntraced(function* ({ body, caller, params }) {
    const template = yield* Effect.flatMap(templateService.read(caller, params['id'] ?? ''), orNotFound)
    const variables = yield* Effect.fromResult(Result.flatMap(parseBody(body), decodeRender))
    // Creation validates the body, so only a row from another source can fail here.
    const parsed = yield* Effect.fromResult(
      Result.mapError(parseTemplate(template.body), () => apiError('template_invalid')),
    )
    const { characters, encoding, parts, text } = yield* Effect.fromResult(
      Result.mapError(render(parsed, variables), (error) =>
        // The body of a preview has no template. Only its variables can be shortened.
        error._tag === 'TemplateTextTooLong'
          ? apiError('template_text_too_long', { param: 'variables' })
          : renderFailure(error, ''),
      ),
    )
    return jsonAnswer(200, { text, encoding, parts, characters })
  })

  const statsOfPeriod: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const today = toTimestamp(yield* Clock.currentTimeMillis).slice(0, 10)
    const wanted = yield* Effect.fromResult(decodeStatsQuery(query, today))
    return jsonAnswer(200, yield* readStats(sql, caller, wanted))
  })

  /** An operation without a body. A missing subscription is reported before a bad body. */
  const onEndpoint = <A>(
    act: (owner: Owner, id: string) => Effect.Effect<A | null, ApiError | StorageError>,
  ): Operation =>
    Effect.fnUntraced(function* (call) {
      const id = call.params['id'] ?? ''
      yield* Effect.flatMap(endpoints.read(call.caller, id), orNotFound)
      if (call.body.length > 0) yield* Effect.fromResult(parseBody(call.body))
      return jsonAnswer(200, yield* Effect.flatMap(act(call.caller, id), orNotFound))
    })

  const listDeliveries: Operation = Effect.fnUntraced(function* (call) {
    const id = call.params['id'] ?? ''
    yield* Effect.flatMap(endpoints.read(call.caller, id), orNotFound)
    return yield* list((owner, page) => endpoints.deliveries(owner, id, page))(call)
  })

  const listEvents: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const page = yield* Effect.fromResult(decodeEventsQuery(query))
    const { hasMore, lastId, texts } = yield* Effect.flatMap(readEvents(sql, caller, page), orNotFound)
    return listOfTexts({ texts, hasMore, lastId, startingAfter: page.startingAfter })
  })

  const readAccount: Operation = Effect.fnUntraced(function* ({ caller }) {
    const settings = yield* accounts.settings(caller)
    const spending =
      caller.mode === 'live' && settings.spendLimit !== null ? yield* accounts.spending(caller) : null
    return jsonAnswer(200, accountBody(caller, settings, spending))
  })

  const operations: Readonly<Record<string, Operation>> = {
    ...(yield* messageOperations(options)),
    'messages.read': readMessage,
    'messages.estimate': estimate,
    'templates.create': creation(decodeTemplateCreate, templateService.create),
    'templates.list': list(templateService.page),
    'templates.read': onResource(templateService.read),
    'templates.render': renderTemplate,
    'senders.create': creation(decodeSenderCreate, senders.create),
    'senders.list': list(senders.page),
    'senders.read': onResource(senders.read),
    'stats.read': statsOfPeriod,
    'webhook_endpoints.create': creation(decodeWebhookEndpointCreate, endpoints.create),
    'webhook_endpoints.list': list(endpoints.page),
    'webhook_endpoints.read': onResource(endpoints.read),
    'webhook_endpoints.delete': onResource(endpoints.remove),
    'webhook_endpoints.rotateSecret': onEndpoint(endpoints.rotateSecret),
    'webhook_endpoints.test': onEndpoint(endpoints.test),
    'webhook_endpoints.enable': onEndpoint(endpoints.enable),
    'webhook_endpoints.deliveries': listDeliveries,
    'events.list': listEvents,
    'account.read': readAccount,
  }
  return operations
})

/** Operations that wait for a server of the client: the receiver of a test delivery. */
export const operationsAwaitingReceiver: ReadonlySet<string> = new Set(['webhook_endpoints.test'])
