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
import { LIST_LIMITS, LONG_LIST_LIMITS, MAX_IDEMPOTENCY_KEY_LENGTH, MAX_STATS_DAYS } from './limits.ts'
import {
  AcceptedBatch,
  AcceptedMessage,
  Account,
  Batch,
  BatchRequest,
  Day,
  DeletedWebhookEndpoint,
  ErrorBody,
  Estimate,
  EstimateBatch,
  EstimateRequest,
  EventList,
  Message,
  MessageList,
  RenderedText,
  RenderRequest,
  Sender,
  SenderCreate,
  SenderList,
  SendRequest,
  Stats,
  STATS_GROUPS,
  Template,
  TemplateCreate,
  TemplateList,
  Timestamp,
  WebhookDelivery,
  WebhookDeliveryList,
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
const headersOf = (is: Operation, status: number): Record<string, unknown> => ({
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
  ...(is.codes.includes('idempotency_conflict') && !UNSTORED.has(status)
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
      const responses: Record<string, unknown> = {}
      for (const [status, response] of Object.entries(generated['responses'] as Record<string, object>)) {
        responses[status] = {
          ...response,
          description: Number(status) < 400 ? is.answer : describeFailure(Number(status), is.codes),
          headers: headersOf(is, Number(status)),
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

const limitParam = (limits: { readonly max: number }) =>
  Schema.optionalKey(
    // Its description is made with its bounds, in `describe.ts`.
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: limits.max })),
  )

const startingAfterParam = Schema.optionalKey(
  Schema.String.annotate({ description: 'Go on after this id: the last one you have, or `next_cursor`.' }),
)

// ---------------------------------------------------------------------------------------------------------
// Messages
// ---------------------------------------------------------------------------------------------------------

/** What rendering can refuse. */
const RENDER_REFUSALS = [
  'template_variable_missing',
  'template_variable_unknown',
  'template_variable_invalid',
  'template_text_too_long',
] as const satisfies ReadonlyArray<ErrorCode>

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
  ...RENDER_REFUSALS,
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

/** Of the whole request; what is wrong with an element is in its result. */
const BATCH_CODES = [
  ...ANYWHERE,
  ...ANY_POST,
  'send_at_not_supported',
  'batch_too_large',
  'hub_daily_limit_reached',
] as const

const sendBatch = HttpApiEndpoint.post('sendBatch', '/v1/messages/batch', {
  headers: idempotencyHeaders,
  payload: BatchRequest,
  success: AcceptedBatch.pipe(HttpApiSchema.status(202)),
  error: failures(BATCH_CODES),
}).annotateMerge(
  operation({
    summary: 'Send a batch',
    description:
      'Accepts many messages at once. Each element gets a result of its own, in the order of the request: `accepted`, `duplicate` ' +
      '(its `client_ref` was used before; nothing was created) or `rejected`, with an error object as of a single send. The whole ' +
      'request is refused only where `messages` itself is not in order. An `otp` element that was rejected with ' +
      '`provider_unavailable` is accepted by a repeat of the batch with the same `Idempotency-Key`. `batch.completed` is sent ' +
      'once, when all messages are final.',
    answer: 'The result of each element. Rejected elements do not make it a failure.',
    codes: BATCH_CODES,
  }),
)

const ESTIMATE_CODES = [
  ...ANYWHERE,
  ...ANY_POST,
  'send_at_not_supported',
  'batch_too_large',
  'recipient_invalid',
  'template_not_found',
  'template_declined',
  'template_not_approved',
  'template_class_mismatch',
  ...RENDER_REFUSALS,
] as const

const estimateMessages = HttpApiEndpoint.post('estimate', '/v1/messages/estimate', {
  headers: idempotencyHeaders,
  payload: EstimateRequest,
  success: Schema.Union([Estimate, EstimateBatch], { mode: 'oneOf' }),
  error: failures(ESTIMATE_CODES),
}).annotateMerge(
  operation({
    summary: 'Estimate parts and price',
    description:
      'Counts and prices the text before it is sent: one send request, or `messages` with several, each with a result of its own. ' +
      'It looks at the form, the template and the variables only and creates nothing. A text in Cyrillic fits 70 characters in ' +
      'a part, one in Latin 160.',
    answer: 'The estimate, in the form that was asked for.',
    codes: ESTIMATE_CODES,
  }),
)

const READ_CODES = [...ANYWHERE, 'not_found'] as const
const LIST_CODES = [...ANYWHERE, 'invalid_parameter', 'not_found'] as const

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

const listMessages = HttpApiEndpoint.get('list', '/v1/messages', {
  query: {
    batch: Schema.String.annotate({ description: 'Identifier of the batch: `bat_` and opaque characters.' }),
    limit: limitParam(LONG_LIST_LIMITS),
    starting_after: startingAfterParam,
  },
  success: MessageList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List the messages of a batch',
    description:
      'The accepted messages of a batch as they stand now, in the order of acceptance. `batch` is required: there is no list of ' +
      'all messages. A batch of another account or mode is `not_found`.',
    answer: 'A page of messages.',
    codes: LIST_CODES,
  }),
)

const MessagesGroup = HttpApiGroup.make('messages')
  .add(sendMessage, listMessages, sendBatch, estimateMessages, readMessage)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Messages', description: 'Sending, and what became of it.' }))

// ---------------------------------------------------------------------------------------------------------
// Batches
// ---------------------------------------------------------------------------------------------------------

const readBatch = HttpApiEndpoint.get('read', '/v1/batches/:id', {
  params: idParam('the batch'),
  success: Batch,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a batch',
    description: 'How many of its elements came to what, and whether all of its messages are final.',
    answer: 'The batch.',
    codes: READ_CODES,
  }),
)

const BatchesGroup = HttpApiGroup.make('batches')
  .add(readBatch)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Batches', description: 'What was sent together.' }))

// ---------------------------------------------------------------------------------------------------------
// Templates and senders
// ---------------------------------------------------------------------------------------------------------

const CREATE_TEMPLATE_CODES = [
  ...ANYWHERE,
  ...ANY_POST,
  'template_invalid',
  'sender_not_registered',
  'duplicate_rejected',
] as const

const createTemplate = HttpApiEndpoint.post('create', '/v1/templates', {
  headers: idempotencyHeaders,
  payload: TemplateCreate,
  success: Template.pipe(HttpApiSchema.status(201)),
  error: failures(CREATE_TEMPLATE_CODES),
}).annotateMerge(
  operation({
    summary: 'Create a template',
    description:
      'Moderators of the operator look at it before it can be used; `template.approved` or `template.declined` tells. In test mode ' +
      'it can be used at once. Its sender must exist, and may still be pending.',
    answer: 'The template.',
    codes: CREATE_TEMPLATE_CODES,
  }),
)

const listTemplates = HttpApiEndpoint.get('list', '/v1/templates', {
  query: { limit: limitParam(LIST_LIMITS), starting_after: startingAfterParam },
  success: TemplateList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List templates',
    description: 'All templates of the account and mode, newest first.',
    answer: 'A page of templates.',
    codes: LIST_CODES,
  }),
)

const readTemplate = HttpApiEndpoint.get('read', '/v1/templates/:id', {
  params: idParam('the template'),
  success: Template,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a template',
    description: 'The template, with what moderators said of it.',
    answer: 'The template.',
    codes: READ_CODES,
  }),
)

const RENDER_CODES = [...ANYWHERE, ...ANY_POST, 'not_found', ...RENDER_REFUSALS] as const

const renderTemplate = HttpApiEndpoint.post('render', '/v1/templates/:id/render', {
  params: idParam('the template'),
  headers: idempotencyHeaders,
  payload: RenderRequest,
  success: RenderedText,
  error: failures(RENDER_CODES),
}).annotateMerge(
  operation({
    summary: 'Preview a template',
    description:
      'The text of the template with these values, and its parts. It sends nothing, and works whatever the status is.',
    answer: 'The text and its part count.',
    codes: RENDER_CODES,
  }),
)

const TemplatesGroup = HttpApiGroup.make('templates')
  .add(createTemplate, listTemplates, readTemplate, renderTemplate)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Templates', description: 'Texts that may be sent.' }))

const CREATE_SENDER_CODES = [...ANYWHERE, ...ANY_POST, 'duplicate_rejected'] as const

const createSender = HttpApiEndpoint.post('create', '/v1/senders', {
  headers: idempotencyHeaders,
  payload: SenderCreate,
  success: Sender.pipe(HttpApiSchema.status(201)),
  error: failures(CREATE_SENDER_CODES),
}).annotateMerge(
  operation({
    summary: 'Create a sender',
    description:
      'The sender is registered with the operator; `sender.registered` or `sender.declined` tells. In test mode it is registered ' +
      'at once.',
    answer: 'The sender.',
    codes: CREATE_SENDER_CODES,
  }),
)

const listSenders = HttpApiEndpoint.get('list', '/v1/senders', {
  query: { limit: limitParam(LIST_LIMITS), starting_after: startingAfterParam },
  success: SenderList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List senders',
    description: 'All senders of the account and mode, newest first.',
    answer: 'A page of senders.',
    codes: LIST_CODES,
  }),
)

const readSender = HttpApiEndpoint.get('read', '/v1/senders/:id', {
  params: idParam('the sender'),
  success: Sender,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a sender',
    description: 'The sender, with what became of its registration.',
    answer: 'The sender.',
    codes: READ_CODES,
  }),
)

const SendersGroup = HttpApiGroup.make('senders')
  .add(createSender, listSenders, readSender)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Senders', description: 'Names that recipients see.' }))

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

const deleteWebhookEndpoint = HttpApiEndpoint.delete('delete', '/v1/webhook_endpoints/:id', {
  params: idParam('the subscription'),
  success: DeletedWebhookEndpoint,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Delete a subscription',
    description:
      'Its backlog is dropped, attempts under way are broken off, and its log is gone. A second deletion is `not_found`.',
    answer: 'What was deleted.',
    codes: READ_CODES,
  }),
)

/** Of a POST to a resource: a body is not needed, and one that is sent must be in order all the same. */
const ACTION_CODES = [...ANYWHERE, ...ANY_POST, 'not_found'] as const

const rotateWebhookSecret = HttpApiEndpoint.post('rotateSecret', '/v1/webhook_endpoints/:id/rotate_secret', {
  params: idParam('the subscription'),
  headers: idempotencyHeaders,
  success: WebhookEndpointWithSecret,
  error: failures(ACTION_CODES),
}).annotateMerge(
  operation({
    summary: 'Rotate the secret',
    description:
      'Makes a new secret, which is in this answer only. Until `secret_rotation_ends_at`, a day from now, the previous one signs as well: ' +
      '`Hub-Signature` has two `v1`, and a match of either is enough. A second rotation within the day keeps the newest two.',
    answer: 'The subscription, with its new secret.',
    codes: ACTION_CODES,
  }),
)

const testWebhookEndpoint = HttpApiEndpoint.post('test', '/v1/webhook_endpoints/:id/test', {
  params: idParam('the subscription'),
  headers: idempotencyHeaders,
  success: WebhookDelivery,
  error: failures(ACTION_CODES),
}).annotateMerge(
  operation({
    summary: 'Make a trial delivery',
    description:
      'Delivers one `webhook.test` event at once, whatever the status and the types of the subscription, and answers with the attempt, ' +
      'a failed one too. It does not count as a failure, is not tried again, and is not listed with the events. One subscription has one trial ' +
      'at a time; meanwhile another is `rate_limited`.',
    answer: 'The attempt, which is in the log with `trial: true`.',
    codes: ACTION_CODES,
  }),
)

const enableWebhookEndpoint = HttpApiEndpoint.post('enable', '/v1/webhook_endpoints/:id/enable', {
  params: idParam('the subscription'),
  headers: idempotencyHeaders,
  success: WebhookEndpoint,
  error: failures(ACTION_CODES),
}).annotateMerge(
  operation({
    summary: 'Enable a subscription',
    description:
      'Ends `disabled_by_failures`: the count of failures begins anew, and what has accumulated within 24 hours is delivered at once, the ' +
      'oldest first, in the same batches with the same ids. An enabled subscription stays as it is.',
    answer: 'The subscription.',
    codes: ACTION_CODES,
  }),
)

const listWebhookDeliveries = HttpApiEndpoint.get('deliveries', '/v1/webhook_endpoints/:id/deliveries', {
  params: idParam('the subscription'),
  query: { limit: limitParam(LIST_LIMITS), starting_after: startingAfterParam },
  success: WebhookDeliveryList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List delivery attempts',
    description:
      'Every attempt to deliver a batch of events to the subscription, newest first, and a line for each batch that was given up because ' +
      'its 24 hours were over.',
    answer: 'A page of attempts.',
    codes: LIST_CODES,
  }),
)

const WebhookEndpointsGroup = HttpApiGroup.make('webhook_endpoints')
  .add(
    createWebhookEndpoint,
    listWebhookEndpoints,
    readWebhookEndpoint,
    deleteWebhookEndpoint,
    rotateWebhookSecret,
    testWebhookEndpoint,
    enableWebhookEndpoint,
    listWebhookDeliveries,
  )
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Webhook endpoints', description: 'Where events go.' }))

// ---------------------------------------------------------------------------------------------------------
// Events, account, stats
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

const STATS_CODES = [...ANYWHERE, 'invalid_parameter'] as const

const readStats = HttpApiEndpoint.get('read', '/v1/stats', {
  query: {
    from: Schema.optionalKey(
      Day.annotate({
        description: 'First day, in UTC. The first of the month of `to` when absent; not after `to`.',
      }),
    ),
    to: Schema.optionalKey(
      Day.annotate({
        description: `Last day, in UTC, which is included; today when absent. A summary covers at most ${MAX_STATS_DAYS} days.`,
      }),
    ),
    group_by: Schema.optionalKey(
      Schema.Literals(STATS_GROUPS).annotate({
        description: 'What the rows of `data` are; without it there are none.',
      }),
    ),
  },
  success: Stats,
  error: failures(STATS_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a summary',
    description:
      'Counts over the messages that were accepted on these days. It is empty for days more than three years ago.',
    answer: 'The summary.',
    codes: STATS_CODES,
  }),
)

const StatsGroup = HttpApiGroup.make('stats')
  .add(readStats)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Stats', description: 'How much was sent, and how it went.' }))

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
  .add(
    MessagesGroup,
    BatchesGroup,
    TemplatesGroup,
    SendersGroup,
    WebhookEndpointsGroup,
    EventsGroup,
    AccountGroup,
    StatsGroup,
    DescriptionGroup,
  )
  .annotateMerge(
    OpenApi.annotations({
      title: 'SMS Delivery Hub',
      version: CONTRACT_VERSION,
      description: [
        'Sends SMS from registered templates through one operator, and tells by status and by signed events what became of them.',
        'Bodies are JSON in UTF-8 and at most 4 MiB; an object that has the same name twice is refused. Moments are UTC with milliseconds. ' +
          'Ignore fields, event types and error codes that you do not know: new ones may come at any time.',
        'Each key may make `limits.api_rps` requests a second; `X-RateLimit-*` tells what is left. Any POST takes an `Idempotency-Key`, so ' +
          'that a repeat of a request whose answer was lost does nothing twice.',
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
  readonly method: 'GET' | 'POST' | 'DELETE'
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
