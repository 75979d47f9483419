/** A typed client of the hub's API: a method for each operation, and methods for paths. */
import { makeCursorCheck } from './answer.ts'
import type { components, paths } from './contract.ts'
import { makeFollow, makeFollowPages } from './follow.ts'
import {
  type Call,
  type HubClientOptions,
  makeCall,
  type RequestOptions,
  type Wait,
  waitFor,
} from './http.ts'
import type {
  AnswerOf,
  Arguments,
  BodyOf,
  CallOptions,
  Item,
  ListPath,
  OperationAt,
  PathOf,
  QueryOf,
  Success,
} from './operations.ts'
import { makeSendAll } from './send-all.ts'

type Schemas = components['schemas']

/** All elements of a list, page by page. */
export type HubList<Element> = AsyncGenerator<Element, void, undefined>

/** Methods for paths: `hub.get('/v1/messages/{id}', { path: { id } })`. */
interface PathMethods {
  readonly get: <P extends PathOf<'get'>>(
    path: P,
    ...options: Arguments<OperationAt<P, 'get'>>
  ) => Promise<Success<OperationAt<P, 'get'>>>
  /** Retries use the same idempotency key, so the hub does nothing twice. */
  readonly post: <P extends PathOf<'post'>>(
    path: P,
    ...options: Arguments<OperationAt<P, 'post'>>
  ) => Promise<Success<OperationAt<P, 'post'>>>
  readonly patch: <P extends PathOf<'patch'>>(
    path: P,
    ...options: Arguments<OperationAt<P, 'patch'>>
  ) => Promise<Success<OperationAt<P, 'patch'>>>
  readonly delete: <P extends PathOf<'delete'>>(
    path: P,
    ...options: Arguments<OperationAt<P, 'delete'>>
  ) => Promise<Success<OperationAt<P, 'delete'>>>
  /** All elements of a list, page by page, from the start or from `query.starting_after`. */
  readonly list: <P extends ListPath>(
    path: P,
    ...options: Arguments<OperationAt<P, 'get'>>
  ) => HubList<Item<OperationAt<P, 'get'>>>
}

const pathMethods = (call: Call): PathMethods => {
  const list = async function* (
    path: string,
    options: RequestOptions = {},
  ): AsyncGenerator<unknown, void, undefined> {
    const query: Record<string, unknown> = { ...options.query }
    const checkCursor = makeCursorCheck()
    for (;;) {
      const page = (await call('get', path, { ...options, query })) as {
        readonly data: ReadonlyArray<unknown>
        readonly has_more: boolean
        readonly next_cursor: string | null
      }
      yield* page.data
      if (!page.has_more || page.next_cursor === null) return
      checkCursor(page.next_cursor)
      query['starting_after'] = page.next_cursor
      // The events go on from a moment or from a cursor. In other lists, `created_after` is a filter.
      if (path === '/v1/events') delete query['created_after']
    }
  }
  // The cast gives each method the types of the API description.
  return {
    get: (path: string, options?: RequestOptions) => call('get', path, options),
    post: (path: string, options?: RequestOptions) => call('post', path, options),
    patch: (path: string, options?: RequestOptions) => call('patch', path, options),
    delete: (path: string, options?: RequestOptions) => call('delete', path, options),
    list,
  } as unknown as PathMethods
}

/** For a POST that changes nothing: a repeat needs no stored answer. */
const CHANGES_NOTHING: CallOptions = { idempotencyKey: null }

/** Options of a read. */
type ReadOptions = Pick<CallOptions, 'signal'>

/** A method for each operation of the API. */
const resources = (api: PathMethods, call: Call, wait: Wait) => ({
  messages: {
    /** Sends one message. A 202 is a promise: the hub has stored it durably. */
    send: (body: Schemas['SendRequest'], options: CallOptions = {}) =>
      api.post('/v1/messages', { body, ...options }),
    /** Sends up to `limits.batch_max` messages in one request. */
    sendBatch: (messages: ReadonlyArray<Schemas['BatchMessage']>, options: CallOptions = {}) =>
      api.post('/v1/messages/batch', { body: { messages: [...messages] }, ...options }),
    sendAll: makeSendAll(call, wait),
    /** Parts and price of one message. */
    estimate: (body: Schemas['EstimateRequest'], options: CallOptions = {}) =>
      api.post('/v1/messages/estimate', { body, ...CHANGES_NOTHING, ...options }) as Promise<
        Schemas['Estimate']
      >,
    /** Parts and price of several messages. */
    estimateBatch: (messages: ReadonlyArray<Schemas['SendRequest']>, options: CallOptions = {}) =>
      api.post('/v1/messages/estimate', {
        body: { messages: [...messages] },
        ...CHANGES_NOTHING,
        ...options,
      }) as Promise<Schemas['EstimateBatch']>,
    get: (id: string, options: ReadOptions = {}) =>
      api.get('/v1/messages/{id}', { path: { id }, ...options }),
    /** Newest first; the messages of a `batch` in the order of acceptance. */
    list: (query: QueryOf<'/v1/messages'> = {}, options: ReadOptions = {}) =>
      api.list('/v1/messages', { query, ...options }),
  },
  batches: {
    get: (id: string, options: ReadOptions = {}) => api.get('/v1/batches/{id}', { path: { id }, ...options }),
  },
  templates: {
    create: (body: Schemas['TemplateCreate'], options: CallOptions = {}) =>
      api.post('/v1/templates', { body, ...options }),
    get: (id: string, options: ReadOptions = {}) =>
      api.get('/v1/templates/{id}', { path: { id }, ...options }),
    list: (query: QueryOf<'/v1/templates'> = {}, options: ReadOptions = {}) =>
      api.list('/v1/templates', { query, ...options }),
    delete: (id: string, options: ReadOptions = {}) =>
      api.delete('/v1/templates/{id}', { path: { id }, ...options }),
    render: (id: string, body: BodyOf<'/v1/templates/{id}/render', 'post'>, options: CallOptions = {}) =>
      api.post('/v1/templates/{id}/render', { path: { id }, body, ...CHANGES_NOTHING, ...options }),
  },
  senders: {
    create: (body: Schemas['SenderCreate'], options: CallOptions = {}) =>
      api.post('/v1/senders', { body, ...options }),
    get: (id: string, options: ReadOptions = {}) => api.get('/v1/senders/{id}', { path: { id }, ...options }),
    list: (query: QueryOf<'/v1/senders'> = {}, options: ReadOptions = {}) =>
      api.list('/v1/senders', { query, ...options }),
    delete: (id: string, options: ReadOptions = {}) =>
      api.delete('/v1/senders/{id}', { path: { id }, ...options }),
  },
  webhookEndpoints: {
    /** Only this answer shows the secret. */
    create: (body: Schemas['WebhookEndpointCreate'], options: CallOptions = {}) =>
      api.post('/v1/webhook_endpoints', { body, ...options }),
    get: (id: string, options: ReadOptions = {}) =>
      api.get('/v1/webhook_endpoints/{id}', { path: { id }, ...options }),
    list: (query: QueryOf<'/v1/webhook_endpoints'> = {}, options: ReadOptions = {}) =>
      api.list('/v1/webhook_endpoints', { query, ...options }),
    update: (id: string, body: Schemas['WebhookEndpointUpdate'], options: ReadOptions = {}) =>
      api.patch('/v1/webhook_endpoints/{id}', { path: { id }, body, ...options }),
    delete: (id: string, options: ReadOptions = {}) =>
      api.delete('/v1/webhook_endpoints/{id}', { path: { id }, ...options }),
    rotateSecret: (
      id: string,
      body: BodyOf<'/v1/webhook_endpoints/{id}/rotate_secret', 'post'> = {},
      options: CallOptions = {},
    ) => api.post('/v1/webhook_endpoints/{id}/rotate_secret', { path: { id }, body, ...options }),
    /** Delivers one event at once, and returns the attempt. */
    test: (id: string, options: CallOptions = {}) =>
      api.post('/v1/webhook_endpoints/{id}/test', { path: { id }, ...options }),
    enable: (id: string, options: CallOptions = {}) =>
      api.post('/v1/webhook_endpoints/{id}/enable', { path: { id }, ...options }),
    /** The attempts to deliver to a subscription, newest first. */
    deliveries: (
      id: string,
      query: QueryOf<'/v1/webhook_endpoints/{id}/deliveries'> = {},
      options: ReadOptions = {},
    ) => api.list('/v1/webhook_endpoints/{id}/deliveries', { path: { id }, query, ...options }),
    /** Sends the batch of an attempt again at once, and returns the new attempt. */
    resend: (id: string, delivery: string, options: CallOptions = {}) =>
      api.post('/v1/webhook_endpoints/{id}/deliveries/{delivery}/resend', {
        path: { id, delivery },
        ...options,
      }),
  },
  events: {
    /** The recorded events, oldest first. It ends; `follow` waits for new ones. */
    list: (query: QueryOf<'/v1/events'> = {}, options: ReadOptions = {}) =>
      api.list('/v1/events', { query, ...options }),
    follow: makeFollow(makeFollowPages(call, wait)),
    /** Like `follow`, in pages of at most 100 events, as a webhook has them. */
    followPages: makeFollowPages(call, wait),
  },
  account: {
    get: (options: ReadOptions = {}): Promise<AnswerOf<'/v1/account', 'get'>> =>
      api.get('/v1/account', options),
  },
  stats: {
    get: (query: QueryOf<'/v1/stats'> = {}, options: ReadOptions = {}) =>
      api.get('/v1/stats', { query, ...options } as Arguments<paths['/v1/stats']['get']>[0] & object),
  },
})

export type HubClient = PathMethods & ReturnType<typeof resources>

/** Creates a client for one API key. Throws a `HubOptionError` if an option is invalid. */
export const createHubClient = (options: HubClientOptions): HubClient => makeHubClient(options, waitFor)

/** Like `createHubClient`, with another implementation of waiting, for tests. */
export const makeHubClient = (options: HubClientOptions, wait: Wait): HubClient => {
  const call = makeCall(options, wait)
  const api = pathMethods(call)
  return { ...api, ...resources(api, call, wait) }
}
