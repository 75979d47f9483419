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
  parseBody,
} from '@hub/contract'
import { decodeId, parseTemplate, render, toTimestamp } from '@hub/domain'
import type { StorageError } from '@hub/store'
import { Clock, Effect, Result } from 'effect'
import { renderFailure } from '../accept/checked-send.ts'
import { estimateBody, templatesOf } from '../accept/estimate.ts'
import { accountBody } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import { Events } from '../events/events.ts'
import { messageBody } from '../messages/message.ts'
import { Messages } from '../messages/messages.ts'
import { Senders } from '../senders/senders.ts'
import { Stats } from '../stats/stats.ts'
import { Templates } from '../templates/templates.ts'
import { WebhookEndpoints } from '../webhook-endpoints/webhook-endpoints.ts'
import { jsonAnswer, listOfTexts, pageAnswer } from './answer.ts'
import { orNotFound, templatesByName } from './lookups.ts'
import { messageOperations } from './message-operations.ts'
import type { Call, Operation } from './pipeline.ts'

export interface OperationsOptions {
  /** The secret of the recipient hash. */
  readonly hashSecret: string | Uint8Array
}

export const makeOperations = Effect.fnUntraced(function* (options: OperationsOptions) {
  const accounts = yield* Accounts
  const messages = yield* Messages
  const events = yield* Events
  const endpoints = yield* WebhookEndpoints
  const templateService = yield* Templates
  const senders = yield* Senders
  const stats = yield* Stats

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

  const createTemplate: Operation = Effect.fnUntraced(function* ({ body, caller }) {
    const wanted = yield* Effect.fromResult(Result.flatMap(parseBody(body), decodeTemplateCreate))
    return jsonAnswer(201, yield* templateService.create(caller, wanted))
  })

  const listTemplates: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const page = yield* Effect.fromResult(decodeListQuery(query))
    const found = yield* Effect.flatMap(templateService.page(caller, page), orNotFound)
    return pageAnswer(found, page.startingAfter)
  })

  const readTemplate: Operation = Effect.fnUntraced(function* ({ caller, params }) {
    return jsonAnswer(
      200,
      yield* Effect.flatMap(templateService.read(caller, params['id'] ?? ''), orNotFound),
    )
  })

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

  const createSender: Operation = Effect.fnUntraced(function* ({ body, caller }) {
    const wanted = yield* Effect.fromResult(Result.flatMap(parseBody(body), decodeSenderCreate))
    return jsonAnswer(201, yield* senders.create(caller, wanted))
  })

  const listSenders: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const page = yield* Effect.fromResult(decodeListQuery(query))
    const found = yield* Effect.flatMap(senders.page(caller, page), orNotFound)
    return pageAnswer(found, page.startingAfter)
  })

  const readSender: Operation = Effect.fnUntraced(function* ({ caller, params }) {
    return jsonAnswer(200, yield* Effect.flatMap(senders.read(caller, params['id'] ?? ''), orNotFound))
  })

  const readStats: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const today = toTimestamp(yield* Clock.currentTimeMillis).slice(0, 10)
    const wanted = yield* Effect.fromResult(decodeStatsQuery(query, today))
    return jsonAnswer(200, yield* stats.read(caller, wanted))
  })

  const createEndpoint: Operation = Effect.fnUntraced(function* ({ body, caller }) {
    const wanted = yield* Effect.fromResult(Result.flatMap(parseBody(body), decodeWebhookEndpointCreate))
    return jsonAnswer(201, yield* endpoints.create(caller, wanted))
  })

  const listEndpoints: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const page = yield* Effect.fromResult(decodeListQuery(query))
    const found = yield* Effect.flatMap(endpoints.page(caller, page), orNotFound)
    return pageAnswer(found, page.startingAfter)
  })

  const readEndpoint: Operation = Effect.fnUntraced(function* ({ caller, params }) {
    const found = yield* endpoints.read(caller, params['id'] ?? '')
    return jsonAnswer(200, yield* orNotFound(found))
  })

  const deleteEndpoint: Operation = Effect.fnUntraced(function* ({ caller, params }) {
    return jsonAnswer(200, yield* Effect.flatMap(endpoints.remove(caller, params['id'] ?? ''), orNotFound))
  })

  /**
   * An operation on a subscription without a body. A missing subscription is reported before a bad
   * body.
   */
  const onEndpoint = <A>(
    act: (call: Call, id: string) => Effect.Effect<A | null, ApiError | StorageError>,
  ): Operation =>
    Effect.fnUntraced(function* (call) {
      const id = call.params['id'] ?? ''
      yield* Effect.flatMap(endpoints.read(call.caller, id), orNotFound)
      if (call.body.length > 0) yield* Effect.fromResult(parseBody(call.body))
      return jsonAnswer(200, yield* Effect.flatMap(act(call, id), orNotFound))
    })

  const rotateSecret = onEndpoint(({ caller }, id) => endpoints.rotateSecret(caller, id))
  const enableEndpoint = onEndpoint(({ caller }, id) => endpoints.enable(caller, id))
  const testEndpoint = onEndpoint(({ caller }, id) => endpoints.test(caller, id))

  const listDeliveries: Operation = Effect.fnUntraced(function* (call) {
    const id = call.params['id'] ?? ''
    yield* Effect.flatMap(endpoints.read(call.caller, id), orNotFound)
    const page = yield* Effect.fromResult(decodeListQuery(call.query))
    const found = yield* Effect.flatMap(endpoints.deliveries(call.caller, id, page), orNotFound)
    return pageAnswer(found, page.startingAfter)
  })

  const listEvents: Operation = Effect.fnUntraced(function* ({ caller, query }) {
    const page = yield* Effect.fromResult(decodeEventsQuery(query))
    const { hasMore, lastId, texts } = yield* Effect.flatMap(events.page(caller, page), orNotFound)
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
    'templates.create': createTemplate,
    'templates.list': listTemplates,
    'templates.read': readTemplate,
    'templates.render': renderTemplate,
    'senders.create': createSender,
    'senders.list': listSenders,
    'senders.read': readSender,
    'stats.read': readStats,
    'webhook_endpoints.create': createEndpoint,
    'webhook_endpoints.list': listEndpoints,
    'webhook_endpoints.read': readEndpoint,
    'webhook_endpoints.delete': deleteEndpoint,
    'webhook_endpoints.rotateSecret': rotateSecret,
    'webhook_endpoints.test': testEndpoint,
    'webhook_endpoints.enable': enableEndpoint,
    'webhook_endpoints.deliveries': listDeliveries,
    'events.list': listEvents,
    'account.read': readAccount,
  }
  return operations
})

/** Operations that wait for a server of the client: the receiver of a test delivery. */
export const operationsAwaitingReceiver: ReadonlySet<string> = new Set(['webhook_endpoints.test'])
