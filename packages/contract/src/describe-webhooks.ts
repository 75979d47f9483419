/**
 * The part `webhooks` of the API description: each type of event, as a subscription receives it.
 * Source: VER-5.
 */
import { EVENT_TYPES, type EventType } from '@hub/domain'
import { isJsonObject, type Json, type JsonObject } from './json.ts'
import { EVENT_BATCH_ID, idPattern } from './schemas/fields.ts'

const SUMMARIES: Readonly<Record<EventType, string>> = {
  'message.accepted': 'A message was accepted',
  'message.sent': 'A message was sent to the operator',
  'message.delivered': 'A message was delivered',
  'message.undelivered': 'A message could not be delivered',
  'message.rejected': 'A message was rejected',
  'message.expired': 'A message expired',
  'message.seen': 'A message was seen',
  'batch.completed': 'All messages of a batch are final',
  'template.approved': 'A template was approved',
  'template.declined': 'A template was declined',
  'sender.registered': 'A sender was registered',
  'sender.declined': 'A sender was declined',
  'account.spend_threshold': 'The amount spent reached the threshold',
  'recipient.opted_out': 'A recipient opted out of service messages',
  'recipient.opted_in': 'A recipient opted in again',
  'webhook.endpoint_disabled': 'A subscription was disabled',
  'webhook.endpoint_enabled': 'A subscription was enabled again',
  'webhook.test': 'A test delivery',
}

/** The schema whose example is the object of an event, and the fields that the event changes. */
const OBJECTS: Readonly<Record<EventType, readonly [schema: string, changes: JsonObject]>> = {
  'message.accepted': ['MessageSnapshot', { status: 'accepted', final: false }],
  'message.sent': ['MessageSnapshot', { status: 'sent', final: false }],
  'message.delivered': ['MessageSnapshot', {}],
  'message.undelivered': ['MessageSnapshot', { status: 'undelivered', reason_code: 'recipient_unreachable' }],
  'message.rejected': ['MessageSnapshot', { status: 'rejected', reason_code: 'spam_filter_content' }],
  'message.expired': ['MessageSnapshot', { status: 'expired', reason_code: 'ttl_expired_before_submit' }],
  'message.seen': ['MessageSnapshot', {}],
  'batch.completed': ['Batch', {}],
  'template.approved': ['TemplateSnapshot', {}],
  'template.declined': ['TemplateSnapshot', { status: 'declined', reason: 'The text has no opt-out.' }],
  'sender.registered': ['SenderSnapshot', {}],
  'sender.declined': [
    'SenderSnapshot',
    { status: 'declined', reason: 'The name belongs to another company.' },
  ],
  'account.spend_threshold': ['SpendLimitSnapshot', {}],
  'recipient.opted_out': ['OptOutChange', {}],
  'recipient.opted_in': ['OptOutChange', {}],
  'webhook.endpoint_disabled': [
    'WebhookEndpoint',
    {
      status: 'disabled_by_failures',
      disabled_at: '2026-11-21T09:30:01.000Z',
      disabled_reason: 'http_status',
      consecutive_failures: 20,
    },
  ],
  'webhook.endpoint_enabled': ['WebhookEndpoint', {}],
  'webhook.test': ['WebhookEndpoint', {}],
}

/** Types that only live mode has: test mode moderates nothing and has no spend limit. */
const LIVE_ONLY = /^(?:template|sender|account)\./u

const firstExample = (schemas: JsonObject, name: string): JsonObject => {
  const schema = schemas[name]
  const examples = isJsonObject(schema) ? schema['examples'] : undefined
  const first: Json | undefined = Array.isArray(examples) ? (examples as ReadonlyArray<Json>)[0] : undefined
  return isJsonObject(first) ? first : {}
}

const exampleOf = (schemas: JsonObject, type: EventType): JsonObject => {
  const [schema, changes] = OBJECTS[type]
  return {
    ...firstExample(schemas, 'Event'),
    type,
    mode: LIVE_ONLY.test(type) ? 'live' : 'test',
    data: { object: { ...firstExample(schemas, schema), ...changes } },
  }
}

const header = (name: string, pattern: string, description: string, example: string): JsonObject => ({
  name,
  in: 'header',
  description,
  required: true,
  schema: { type: 'string', pattern },
  example,
})

const BATCH_ID_PATTERN = idPattern('evb_').source

const HEADERS: ReadonlyArray<JsonObject> = [
  header(
    'Hub-Signature',
    '^t=[0-9]+(?:,v1=[0-9a-f]{64})+$',
    'The time in Unix seconds, and a signature of time and body for each valid secret.',
    `t=1795253401,v1=${'5f'.repeat(32)}`,
  ),
  header(
    'Hub-Event-Id',
    BATCH_ID_PATTERN,
    'Identifier of the batch of events, the same in each attempt.',
    EVENT_BATCH_ID,
  ),
  header(
    'webhook-id',
    BATCH_ID_PATTERN,
    'The same as `Hub-Event-Id`, under the name of Standard Webhooks.',
    EVENT_BATCH_ID,
  ),
  header(
    'webhook-timestamp',
    '^[0-9]+$',
    'The time in Unix seconds, the same as in `Hub-Signature`.',
    '1795253401',
  ),
  header(
    'webhook-signature',
    '^v1,[A-Za-z0-9+/]{43}=(?: v1,[A-Za-z0-9+/]{43}=)*$',
    'The signature of Standard Webhooks over id, time and body: `v1,` and its Base64, for each valid secret, separated by spaces.',
    `v1,${'X19f'.repeat(10)}X18=`,
  ),
]

/** The body of every webhook. `Event` admits the types that are added later. */
export const EVENT_BATCH: JsonObject = {
  type: 'array',
  items: { anyOf: [{ $ref: '#/components/schemas/KnownEvent' }, { $ref: '#/components/schemas/Event' }] },
  title: 'Event batch',
  description: 'The events of one request: at least one, up to 100, of any types of the subscription.',
}

/** Not that of the events which a client reads: some generators would write both classes to one file. */
export const WEBHOOKS_TAG = { name: 'Webhooks', description: 'What the hub posts to a webhook endpoint.' }

/** One request of the hub to a receiver. `examples`: bodies by name. */
const requestOf = (
  named: { readonly operationId: string; readonly summary: string; readonly description: string },
  examples: JsonObject | null,
): JsonObject => ({
  post: {
    tags: [WEBHOOKS_TAG.name],
    ...named,
    parameters: [...HEADERS],
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: { $ref: '#/components/schemas/EventBatch' },
          ...(examples === null ? {} : { examples }),
        },
      },
    },
    // The signature says who sends it.
    security: [],
    responses: {
      '2XX': { description: 'The receiver has the events.' },
      '4XX': { description: 'As every answer other than 2xx: the hub sends the events again later.' },
      '5XX': { description: 'As every answer other than 2xx: the hub sends the events again later.' },
    },
  },
})

/**
 * The same requests as callbacks of the operation that makes a subscription. Some generators, such as oapi-codegen
 * 2.8, remove schemas that only `webhooks` use, and then write code that does not compile.
 */
export const CALLBACKS: JsonObject = {
  events: {
    '{$request.body#/url}': requestOf(
      {
        operationId: 'webhook.events',
        summary: 'Events of the subscription, of any types',
        description: 'See the webhooks, which have an example of each type.',
      },
      null,
    ),
  },
}

/** One entry for each type of event. A request may contain up to 100 events of different types. */
export const describeWebhooks = (schemas: JsonObject): JsonObject =>
  Object.fromEntries(
    EVENT_TYPES.map((type) => [
      type,
      requestOf(
        {
          operationId: `webhook.${type}`,
          summary: SUMMARIES[type],
          description:
            'The hub sends up to 100 events in one request, of any types of the subscription, and repeats it until it is ' +
            'answered with 2xx. Verify the signature over the raw body first. Ignore types that you do not know.',
        },
        { [type]: { value: [exampleOf(schemas, type)] } },
      ),
    ]),
  )
