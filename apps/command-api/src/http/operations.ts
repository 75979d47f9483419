/** The operations that need an API key, by their name in the API description. */
import {
  type ApiError,
  apiError,
  decodeDeliveriesQuery,
  decodeEstimate,
  decodeEventsQuery,
  decodeListQuery,
  decodeRender,
  decodeSecretRotation,
  decodeSenderCreate,
  decodeSendersQuery,
  decodeStatsQuery,
  decodeTemplateCreate,
  decodeTemplatesQuery,
  decodeWebhookEndpointCreate,
  decodeWebhookEndpointUpdate,
  type JsonObject,
  type Page,
  parseBody,
  type LongestTtl,
  parseBodyAsSent,
} from '@hub/contract'
import { decodeId, parseTemplate, render, toTimestamp } from '@hub/domain'
import type { TopicNames } from '@hub/kafka'
import { Sql, type StorageError } from '@hub/store'
import { Clock, type Duration, Effect, Result } from 'effect'
import { renderFailure } from '../accept/check/checked-send.ts'
import { estimateBody, templatesOf } from '../accept/check/estimate.ts'
import { accountBody, type Owner } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import { readEvents } from '../events/events.ts'
import { messageBody } from '../messages/message.ts'
import { Messages } from '../messages/messages.ts'
import type { ResourcePage } from '../paging/page.ts'
import { makeSenders } from '../senders/senders.ts'
import { prefersCsv, readStats, statsCsv } from '../stats/stats.ts'
import { makeTemplates } from '../templates/templates.ts'
import { makeSubscriptions } from '../subscriptions/subscriptions.ts'
import { jsonAnswer, listOfTexts, pageAnswer } from './answer.ts'
import { orNotFound, orUnknownCursor, templatesByName } from './lookups.ts'
import { messageOperations } from './message-operations.ts'
import type { AnswerDeadline } from './deadline.ts'
import type { Operation } from './pipeline.ts'

export interface OperationsOptions {
  /** The secret of the recipient hash. */
  readonly hashSecret: string | Uint8Array
  readonly topics: TopicNames
  /** The longest `ttl_seconds` of each class. */
  readonly longestTtl: LongestTtl
  /** A replaced webhook secret signs for this time. */
  readonly secretTransition: Duration.Duration
}

export const makeOperations = Effect.fnUntraced(function* (options: OperationsOptions) {
  const accounts = yield* Accounts
  const messages = yield* Messages
  const subscriptions = yield* makeSubscriptions(options)
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
      Result.flatMap(parseBody(body), (json) => decodeEstimate(json, settings.batchMax, options.longestTtl)),
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
      // A resource is returned as sent, also its numbers.
      const wanted = yield* Effect.fromResult(Result.flatMap(parseBodyAsSent(body), decode))
      return jsonAnswer(201, yield* create(caller, wanted))
    })

  /** A page of the caller's resources. */
  const list = <T extends { readonly id: string }, P extends Page>(
    decode: (query: URLSearchParams) => Result.Result<P, ApiError>,
    readPage: (owner: Owner, page: P) => Effect.Effect<ResourcePage<T> | null, StorageError>,
  ): Operation =>
    Effect.fnUntraced(function* ({ caller, query }) {
      const page = yield* Effect.fromResult(decode(query))
      return pageAnswer(yield* Effect.flatMap(readPage(caller, page), orUnknownCursor), page.startingAfter)
    })

  /** Acts on the resource in the path, or only reads it. */
  const onResource =
    (act: (owner: Owner, id: string) => Effect.Effect<object | null, ApiError | StorageError>): Operation =>
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

  const statsOfPeriod: Operation = Effect.fnUntraced(function* ({ accept, caller, query }) {
    const today = toTimestamp(yield* Clock.currentTimeMillis).slice(0, 10)
    const wanted = yield* Effect.fromResult(decodeStatsQuery(query, today))
    const stats = yield* readStats(sql, caller, wanted)
    return prefersCsv(accept)
      ? { status: 200, body: statsCsv(stats, wanted.groupBy), contentType: 'text/csv; charset=utf-8' }
      : jsonAnswer(200, stats)
  })

  /**
   * An operation on a subscription. A missing subscription is reported before a bad body. `decode`
   * checks the body; a request without one is like one with an empty object.
   */
  const onSubscription = <Wanted, A>(
    decode: (body: JsonObject) => Result.Result<Wanted, ApiError>,
    act: (owner: Owner, id: string, wanted: Wanted) => Effect.Effect<A | null, ApiError | StorageError>,
  ): Operation =>
    Effect.fnUntraced(function* (call) {
      const id = call.params['id'] ?? ''
      yield* Effect.flatMap(subscriptions.read(call.caller, id), orNotFound)
      const body = call.body.length === 0 ? Result.succeed<JsonObject>({}) : parseBody(call.body)
      const wanted = yield* Effect.fromResult(Result.flatMap(body, decode))
      return jsonAnswer(200, yield* Effect.flatMap(act(call.caller, id, wanted), orNotFound))
    })
  const ignoreBody = () => Result.succeed(null)

  const updateSubscription: Operation = (call) =>
    onSubscription(
      // Unlike the other operations, this one needs a body.
      (body) =>
        call.body.length === 0
          ? Result.map(parseBody(call.body), () => ({}))
          : decodeWebhookEndpointUpdate(body),
      subscriptions.update,
    )(call)

  const resendDelivery: Operation = (call) =>
    onSubscription(ignoreBody, (owner, id) => subscriptions.resend(owner, id, call.params['delivery'] ?? ''))(
      call,
    )

  const listDeliveries: Operation = Effect.fnUntraced(function* ({ caller, params, query }) {
    const id = params['id'] ?? ''
    yield* Effect.flatMap(subscriptions.read(caller, id), orNotFound)
    const page = yield* Effect.fromResult(decodeDeliveriesQuery(query))
    const found = yield* Effect.flatMap(subscriptions.deliveries(caller, id, page), orNotFound)
    return pageAnswer(found, page.startingAfter)
  })

  const listEvents: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const page = yield* Effect.fromResult(decodeEventsQuery(query))
    const { hasMore, lastId, texts } = yield* Effect.flatMap(readEvents(sql, caller, page), orUnknownCursor)
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
    'templates.list': list(decodeTemplatesQuery, templateService.page),
    'templates.read': onResource(templateService.read),
    'templates.delete': onResource(templateService.remove),
    'templates.render': renderTemplate,
    'senders.create': creation(decodeSenderCreate, senders.create),
    'senders.list': list(decodeSendersQuery, senders.page),
    'senders.read': onResource(senders.read),
    'senders.delete': onResource(senders.remove),
    'stats.read': statsOfPeriod,
    'webhook_endpoints.create': creation(decodeWebhookEndpointCreate, subscriptions.create),
    'webhook_endpoints.list': list(decodeListQuery, subscriptions.page),
    'webhook_endpoints.read': onResource(subscriptions.read),
    'webhook_endpoints.delete': onResource(subscriptions.remove),
    'webhook_endpoints.update': updateSubscription,
    'webhook_endpoints.rotateSecret': onSubscription(decodeSecretRotation, (owner, id, { expirePrevious }) =>
      subscriptions.rotateSecret(owner, id, expirePrevious),
    ),
    'webhook_endpoints.test': onSubscription(ignoreBody, subscriptions.test),
    'webhook_endpoints.enable': onSubscription(ignoreBody, subscriptions.enable),
    'webhook_endpoints.resend': resendDelivery,
    'webhook_endpoints.deliveries': listDeliveries,
    'events.list': listEvents,
    'account.read': readAccount,
  }
  return operations
})

/** Operations with another deadline than the default. */
export const ANSWER_DEADLINES: Readonly<Record<string, AnswerDeadline>> = {
  'messages.sendBatch': 'batch',
  'webhook_endpoints.test': 'receiver',
  'webhook_endpoints.resend': 'receiver',
}
