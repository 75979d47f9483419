/**
 * The HTTP API as a definition: paths, parameters, bodies and answers, without handlers. The description, the
 * reference and typed clients come from it. The server registers its routes by {@link ROUTES} and reads bodies itself,
 * because the contract fixes the order of the checks and the `param` of each error (see `validate.ts`).
 *
 * Source: specification, Endpoints and Authentication; contract decisions, General.
 */
import { EVENT_TYPES } from '@hub/domain'
import { Schema } from 'effect'
import {
  HttpApi,
  HttpApiEndpoint,
  HttpApiGroup,
  HttpApiMiddleware,
  HttpApiSchema,
  HttpApiSecurity,
  OpenApi,
} from 'effect/http-api'
import { type ErrorCode, ERRORS } from './errors.ts'
import { LIST_LIMITS, LONG_LIST_LIMITS, MAX_IDEMPOTENCY_KEY_LENGTH } from './limits.ts'
import {
  AcceptedMessage,
  Account,
  ErrorBody,
  EventList,
  Message,
  SendRequest,
  Timestamp,
  WebhookEndpoint,
  WebhookEndpointCreate,
  WebhookEndpointList,
  WebhookEndpointWithSecret,
} from './wire.ts'

/** Version of the contract. Specification, Versioning. */
export const CONTRACT_VERSION = '0.3.3'

/** The error body under a status. */
const failure = (status: number) => ErrorBody.pipe(HttpApiSchema.status(status))

/**
 * `Authorization: Bearer <API_KEY>`. Account and mode follow from the key. Specification, Authentication.
 */
export class ApiKey extends HttpApiMiddleware.Service<ApiKey>()('@hub/contract/ApiKey', {
  requiredForClient: true,
  security: {
    bearer: HttpApiSecurity.bearer.pipe(
      HttpApiSecurity.annotateMerge(
        OpenApi.annotations({
          description: 'An API key: `hub_live_…`, or `hub_test_…` for the sandbox.',
        }),
      ),
    ),
  },
  error: failure(401),
}) {}

/** What any operation with a key can answer, whatever it does. */
const ANYWHERE = [
  'invalid_api_key',
  'rate_limited',
  'internal_error',
] as const satisfies ReadonlyArray<ErrorCode>
/** What any POST can answer, besides. */
const ANY_POST = [
  'idempotency_conflict',
  'idempotency_key_reused',
  'invalid_parameter',
  'payload_too_large',
  'unsupported_media_type',
] as const satisfies ReadonlyArray<ErrorCode>

interface Operation {
  readonly summary: string
  readonly description: string
  /** What it answers when it succeeds, in a few words. */
  readonly answer: string
  /** Whether it takes a key (and so counts against its rate). */
  readonly keyless?: boolean
  /** Codes that it can answer. */
  readonly codes: ReadonlyArray<ErrorCode>
}

const statusesOf = (codes: ReadonlyArray<ErrorCode>): ReadonlyArray<number> => {
  const statuses = new Set(codes.map((code) => ERRORS[code].status))
  // `internal_error` without a `retry_after`.
  if (codes.includes('internal_error')) statuses.add(500)
  return [...statuses].toSorted((a, b) => a - b)
}

/** Texts of one status: which codes come under it. */
const describeFailure = (status: number, codes: ReadonlyArray<ErrorCode>): string => {
  const here = codes.filter(
    (code) => ERRORS[code].status === status || (status === 500 && code === 'internal_error'),
  )
  return here.map((code) => `\`${code}\`: ${ERRORS[code].message}`).join('\n\n')
}

const ref = (name: string) => ({ $ref: `#/components/headers/${name}` })

/** Refused before the rate is counted (contract decisions, "order of checks"): no rate headers. */
const UNCOUNTED = new Set([401, 413, 415])
/** Never stored under an idempotency key (contract decisions, "idempotency"): never replayed. */
const UNSTORED = new Set([401, 409, 413, 415, 429, 500, 503])

/** Headers of an answer, by status. */
const headersOf = (is: Operation, status: number, method: 'get' | 'post'): Record<string, unknown> => ({
  'Request-Id': ref('Request-Id'),
  ...(is.codes.some((code) => ERRORS[code].retryAfter !== 'never' && ERRORS[code].status === status)
    ? { 'Retry-After': ref('Retry-After') }
    : undefined),
  ...(is.keyless !== true && !UNCOUNTED.has(status)
    ? {
        'X-RateLimit-Limit': ref('X-RateLimit-Limit'),
        'X-RateLimit-Remaining': ref('X-RateLimit-Remaining'),
        'X-RateLimit-Reset': ref('X-RateLimit-Reset'),
      }
    : undefined),
  ...(method === 'post' && !UNSTORED.has(status)
    ? { 'Idempotent-Replayed': ref('Idempotent-Replayed') }
    : undefined),
})

/**
 * The texts, the response headers and the descriptions of the failures of an operation. Failures and their
 * headers are derived from the codes, so that the table of errors stays the one place that knows a status.
 */
const operation = (is: Operation) =>
  OpenApi.annotations({
    summary: is.summary,
    description: is.description,
    transform: (generated) => {
      const method = generated['requestBody'] === undefined ? 'get' : 'post'
      const responses: Record<string, unknown> = {}
      for (const [status, response] of Object.entries(generated['responses'] as Record<string, object>)) {
        responses[status] = {
          ...response,
          description: Number(status) < 400 ? is.answer : describeFailure(Number(status), is.codes),
          headers: headersOf(is, Number(status), method),
        }
      }
      return { ...generated, responses }
    },
  })

/** The failures of an operation as schemas, one a status; 401 comes with {@link ApiKey}. */
const failures = (codes: ReadonlyArray<ErrorCode>) =>
  statusesOf(codes)
    .filter((status) => status !== 401)
    .map(failure)

const idempotencyHeaders = {
  'idempotency-key': Schema.optionalKey(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_IDEMPOTENCY_KEY_LENGTH)).annotate({
      description:
        'Any string of your own for this request. A repeat with the same key within 24 hours gets the same answer, with ' +
        '`Idempotent-Replayed: true`. After 409, 429 and 5xx, repeat with the same key; after 422, with a new one.',
    }),
  ),
}

const idParam = (of: string) => ({ id: Schema.String.annotate({ description: `Identifier of ${of}.` }) })

const limitParam = (limits: { readonly max: number; readonly default: number }) =>
  Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: limits.max })).annotate({
      description: `Size of the page; ${limits.default} when absent.`,
    }),
  )

const startingAfterParam = Schema.optionalKey(
  Schema.String.annotate({ description: 'Go on after this id: the last one you have, or `next_cursor`.' }),
)

// ---------------------------------------------------------------------------------------------------------
// Messages
// ---------------------------------------------------------------------------------------------------------

const SEND_CODES = [
  ...ANYWHERE,
  ...ANY_POST,
  'send_at_not_supported',
  'recipient_invalid',
  'template_not_found',
  'template_declined',
  'template_not_approved',
  'template_class_mismatch',
  'sender_not_registered',
  'template_variable_missing',
  'template_variable_unknown',
  'template_variable_invalid',
  'template_text_too_long',
  'recipient_opted_out',
  'hub_daily_limit_reached',
  'recipient_flood_limited',
  'spend_limit_reached',
  'provider_unavailable',
] as const

const sendMessage = HttpApiEndpoint.post('send', '/v1/messages', {
  headers: idempotencyHeaders,
  payload: SendRequest,
  success: AcceptedMessage.pipe(HttpApiSchema.status(202)),
  error: failures(SEND_CODES),
}).annotateMerge(
  operation({
    summary: 'Send a message',
    description:
      'Accepts one message. 202 means that the service answers for it, not that it was delivered: that is told later, by ' +
      'events and by the status. A repeat with a used `client_ref` creates nothing and answers with the earlier message.',
    answer:
      'The message is accepted. With `duplicate: true` it is an earlier one with the same `client_ref`.',
    codes: SEND_CODES,
  }),
)

const READ_CODES = [...ANYWHERE, 'not_found'] as const

const readMessage = HttpApiEndpoint.get('read', '/v1/messages/:id', {
  params: idParam('the message'),
  success: Message,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a message',
    description:
      'The message as it stands now; it can be read as soon as its 202 was received. A message of another account or mode, ' +
      'and one older than three years, is `not_found`.',
    answer: 'The message.',
    codes: READ_CODES,
  }),
)

const MessagesGroup = HttpApiGroup.make('messages')
  .add(sendMessage, readMessage)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Messages', description: 'Sending, and what became of it.' }))

// ---------------------------------------------------------------------------------------------------------
// Webhook subscriptions
// ---------------------------------------------------------------------------------------------------------

const CREATE_ENDPOINT_CODES = [
  ...ANYWHERE,
  ...ANY_POST,
  'webhook_url_invalid',
  'webhook_endpoint_limit_reached',
] as const

const createWebhookEndpoint = HttpApiEndpoint.post('create', '/v1/webhook_endpoints', {
  headers: idempotencyHeaders,
  payload: WebhookEndpointCreate,
  success: WebhookEndpointWithSecret.pipe(HttpApiSchema.status(201)),
  error: failures(CREATE_ENDPOINT_CODES),
}).annotateMerge(
  operation({
    summary: 'Create a subscription',
    description:
      'Events go to the address as signed JSON arrays. The secret is in this answer only. The address must be https and ' +
      'public, which is checked again at every connection.',
    answer: 'The subscription, with its secret.',
    codes: CREATE_ENDPOINT_CODES,
  }),
)

const LIST_CODES = [...ANYWHERE, 'invalid_parameter', 'not_found'] as const

const listWebhookEndpoints = HttpApiEndpoint.get('list', '/v1/webhook_endpoints', {
  query: { limit: limitParam(LIST_LIMITS), starting_after: startingAfterParam },
  success: WebhookEndpointList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List subscriptions',
    description: 'All subscriptions of the account and mode, newest first.',
    answer: 'A page of subscriptions.',
    codes: LIST_CODES,
  }),
)

const readWebhookEndpoint = HttpApiEndpoint.get('read', '/v1/webhook_endpoints/:id', {
  params: idParam('the subscription'),
  success: WebhookEndpoint,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a subscription',
    description: 'The subscription, without its secret.',
    answer: 'The subscription.',
    codes: READ_CODES,
  }),
)

const WebhookEndpointsGroup = HttpApiGroup.make('webhook_endpoints')
  .add(createWebhookEndpoint, listWebhookEndpoints, readWebhookEndpoint)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Webhook endpoints', description: 'Where events go.' }))

// ---------------------------------------------------------------------------------------------------------
// Events, account
// ---------------------------------------------------------------------------------------------------------

const listEvents = HttpApiEndpoint.get('list', '/v1/events', {
  query: {
    limit: limitParam(LONG_LIST_LIMITS),
    starting_after: startingAfterParam,
    created_after: Schema.optionalKey(
      Timestamp.annotate({
        description:
          'Events recorded after this moment, strictly. To go on without a cursor, send the `created_at` of the last event ' +
          'you processed minus a millisecond and drop what you have by its id. Not together with `starting_after`.',
      }),
    ),
    type: Schema.optionalKey(
      Schema.Array(Schema.Literals(EVENT_TYPES)).annotate({
        description: 'Only events of this type. May be repeated.',
      }),
    ),
  },
  success: EventList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List events',
    description:
      'Events in the order of recording, without gaps: keep `next_cursor` and ask again. Drop repeated events by their id.',
    answer: 'A page of events.',
    codes: LIST_CODES,
  }),
)

const EventsGroup = HttpApiGroup.make('events')
  .add(listEvents)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Events', description: 'What happened, for catching up.' }))

const ACCOUNT_CODES = [...ANYWHERE] as const

const readAccount = HttpApiEndpoint.get('read', '/v1/account', {
  success: Account,
  error: failures(ACCOUNT_CODES),
}).annotateMerge(
  operation({
    summary: 'Read the account',
    description: 'The account and mode of the key, with the limits that are in force for it.',
    answer: 'The account.',
    codes: ACCOUNT_CODES,
  }),
)

const AccountGroup = HttpApiGroup.make('account')
  .add(readAccount)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Account', description: 'What is in force for your key.' }))

// ---------------------------------------------------------------------------------------------------------
// Description
// ---------------------------------------------------------------------------------------------------------

const readDescription = HttpApiEndpoint.get('openapi', '/v1/openapi.json', {
  success: Schema.Record(Schema.String, Schema.Json).annotate({ description: 'An OpenAPI 3.1 document.' }),
}).annotateMerge(
  operation({
    summary: 'Read this description',
    description: 'The machine-readable description of the API. It needs no key.',
    answer: 'An OpenAPI 3.1 document.',
    keyless: true,
    codes: [],
  }),
)

const DescriptionGroup = HttpApiGroup.make('description')
  .add(readDescription)
  .annotateMerge(OpenApi.annotations({ title: 'Description', description: 'The API about itself.' }))

/** The public API. */
export class HubApi extends HttpApi.make('sms-delivery-hub')
  .add(MessagesGroup, WebhookEndpointsGroup, EventsGroup, AccountGroup, DescriptionGroup)
  .annotateMerge(
    OpenApi.annotations({
      title: 'SMS Delivery Hub',
      version: CONTRACT_VERSION,
      description: [
        'Sends SMS from registered templates through one operator, and tells by status and by signed events what became of them.',
        'Bodies are JSON in UTF-8 and at most 4 MiB; an object that has the same name twice is refused. Moments are UTC with milliseconds. ' +
          'Ignore fields, event types and error codes that you do not know: new ones may come at any time.',
        'Every answer has a `Request-Id`. A failure has a status of 400 or above and an error object; where it has a `retry_after`, the ' +
          '`Retry-After` header repeats it. The codes are listed at [`/docs/errors`](/docs/errors).',
      ].join('\n\n'),
    }),
  ) {}

// ---------------------------------------------------------------------------------------------------------
// Health
// ---------------------------------------------------------------------------------------------------------

/** What a probe is answered. */
export const Health = Schema.Struct({
  status: Schema.Literals(['ok', 'unavailable']).annotate({
    description: '`ok`, or `unavailable` with status 503.',
  }),
  checks: Schema.Record(Schema.String, Schema.Literals(['ok', 'failing'])).annotate({
    description: 'Each part that was looked at, by name.',
  }),
}).annotate({ identifier: 'Health', title: 'Health', description: 'The state of a process.' })
export type Health = typeof Health.Type

/**
 * Probes of a process, on its own port and not part of the public description. `/healthz`: the process runs.
 * `/readyz`: it can do its work.
 */
export class ProbesApi extends HttpApi.make('probes').add(
  HttpApiGroup.make('probes', { topLevel: true }).add(
    HttpApiEndpoint.get('healthz', '/healthz', { success: Health }),
    HttpApiEndpoint.get('readyz', '/readyz', {
      success: Health,
      error: Health.pipe(HttpApiSchema.status(503)),
    }),
  ),
) {}

// ---------------------------------------------------------------------------------------------------------
// Routing
// ---------------------------------------------------------------------------------------------------------

/** An operation as the router needs it. */
export interface Route {
  /** `messages.send` */
  readonly operation: string
  readonly method: 'GET' | 'POST'
  /** `/v1/messages/:id` */
  readonly path: string
  /** False for what is answered without a key. */
  readonly key: boolean
}

/** Every operation of the public API. A path that is here under other methods only is 405 with `Allow`. */
export const ROUTES: ReadonlyArray<Route> = (() => {
  const routes: Array<Route> = []
  HttpApi.reflect(HubApi, {
    onGroup: () => undefined,
    onEndpoint: ({ endpoint, group, middleware }) => {
      routes.push({
        operation: `${group.identifier}.${endpoint.identifier}`,
        method: endpoint.method as Route['method'],
        path: endpoint.path,
        key: middleware.size > 0,
      })
    },
  })
  return routes
})()
