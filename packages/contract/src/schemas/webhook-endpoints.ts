/** Subscriptions and their delivery log. Source: docs/contract/subscriptions.md. */
import { EVENT_TYPES, SUBSCRIPTION_STATUSES } from '@hub/domain'
import { Schema } from 'effect'
import {
  MAX_CLIENT_CERTIFICATE_LENGTH,
  MAX_ENDPOINT_DESCRIPTION_LENGTH,
  MAX_URL_LENGTH,
  MAX_WEBHOOK_HEADERS,
  MAX_WEBHOOK_HEADERS_LENGTH,
} from '../limits.ts'
import { listOf, moment, Timestamp } from './common.ts'
import { anyId, AT, atLeast, constant, ENDPOINT_ID, EVENT_BATCH_ID, EVENT_ID, id } from './fields.ts'

const url = Schema.String.check(
  Schema.isMaxLength(MAX_URL_LENGTH),
  Schema.isPattern(/^https:\/\//u),
).annotate({
  description: 'Public https address without credentials. Redirects are not followed.',
  examples: ['https://example.com/hooks/sms'],
})

const description = Schema.NullOr(
  Schema.String.check(Schema.isMaxLength(MAX_ENDPOINT_DESCRIPTION_LENGTH)),
).annotate({ description: 'A note for yourself. Do not put personal data into it.' })

const headers = Schema.NullOr(
  Schema.Record(Schema.String, Schema.String.check(Schema.isMinLength(1))).check(
    Schema.isMaxProperties(MAX_WEBHOOK_HEADERS),
  ),
).annotate({
  description:
    'Static headers that every request of the subscription has, such as `Authorization`. The values are secrets: ' +
    'they are stored encrypted, and no answer shows them. A value is visible ASCII with spaces and tabs between. All names ' +
    `and values together have at most ${MAX_WEBHOOK_HEADERS_LENGTH} characters. Headers that the hub or the connection sets are ` +
    'refused: `Host`, `Content-Type`, `User-Agent`, `Hub-*`, `webhook-*` and others. `null` or an empty object: none.',
  examples: [{ Authorization: 'Bearer 3q2-7wAAAAAAAAAAAAAA' }],
})

const pem = (description: string, example: string) =>
  Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_CLIENT_CERTIFICATE_LENGTH)).annotate({
    description,
    examples: [example],
  })

const clientCertificate = Schema.NullOr(
  Schema.Struct({
    certificate: pem(
      'The certificate in PEM, followed by its chain, if it has one. It must be valid now, and for client authentication.',
      '-----BEGIN CERTIFICATE-----\nMIIB…\n-----END CERTIFICATE-----\n',
    ),
    private_key: pem(
      'The private key of the certificate in PEM, without a passphrase. A secret: it is stored encrypted, and no answer shows it.',
      '-----BEGIN PRIVATE KEY-----\nMIGH…\n-----END PRIVATE KEY-----\n',
    ),
  }),
).annotate({
  description:
    'What the hub presents to a receiver that asks for a client certificate (mutual TLS). `null`: none.',
})

/** Body of `POST /v1/webhook_endpoints`. `decodeWebhookEndpointCreate` checks it. */
export const WebhookEndpointCreate = Schema.Struct({
  url,
  event_types: Schema.optionalKey(
    Schema.Array(Schema.Literals(EVENT_TYPES)).annotate({
      description: 'Types to receive. Empty or absent: all of them, those to come as well.',
    }),
  ),
  description: Schema.optionalKey(description),
  headers: Schema.optionalKey(headers),
  client_certificate: Schema.optionalKey(clientCertificate),
}).annotate({
  identifier: 'WebhookEndpointCreate',
  title: 'Webhook endpoint to create',
  description: 'A subscription to create.',
  examples: [
    { url: 'https://example.com/hooks/sms', event_types: ['message.delivered', 'message.undelivered'] },
  ],
})

/** Body of `PATCH /v1/webhook_endpoints/{id}`. `decodeWebhookEndpointUpdate` checks it. */
export const WebhookEndpointUpdate = Schema.Struct({
  url: Schema.optionalKey(url),
  event_types: Schema.optionalKey(
    Schema.Array(Schema.Literals(EVENT_TYPES)).annotate({
      description: 'Types to receive. Empty: all of them, those to come as well.',
    }),
  ),
  description: Schema.optionalKey(description),
  headers: Schema.optionalKey(headers),
  client_certificate: Schema.optionalKey(clientCertificate),
}).annotate({
  identifier: 'WebhookEndpointUpdate',
  title: 'Webhook endpoint update',
  description: 'The properties of a subscription to change. Absent ones stay as they are.',
  examples: [{ url: 'https://example.com/hooks/sms-v2' }],
})

/** Body of `POST …/rotate_secret`. `decodeSecretRotation` checks it. */
export const SECRET_ROTATION_BODY = {
  type: 'object',
  title: 'Secret rotation',
  properties: {
    expire_previous: {
      type: 'boolean',
      description:
        'True: all earlier secrets stop signing at once, also the one that this rotation replaces. Use it when a secret has leaked.',
      default: false,
    },
  },
}

const FINGERPRINT =
  '5E:88:48:98:DA:28:04:71:51:D0:E5:6F:8D:C6:29:27:73:60:3D:0D:6A:AB:BD:D6:2A:11:EF:72:1D:15:42:D8'

const webhookEndpointFields = {
  id: id('we_', 'the subscription'),
  object: constant('webhook_endpoint'),
  // No format: an address may have characters that a URI (RFC 3986) encodes.
  url: Schema.String.annotate({
    description: 'Where events go.',
    examples: ['https://example.com/hooks/sms'],
  }),
  description,
  event_types: Schema.Array(Schema.Literals(EVENT_TYPES)).annotate({
    description: 'Types that it receives; empty: all.',
  }),
  status: Schema.Literals(SUBSCRIPTION_STATUSES).annotate({
    description:
      '`disabled_by_failures` after 20 failures in a row over at least an hour; the backlog is kept for 24 hours.',
  }),
  created_at: moment('When the subscription was created.'),
  disabled_at: Schema.NullOr(Timestamp).annotate({
    description: 'When it was disabled; `null` while it is enabled.',
  }),
  disabled_reason: Schema.NullOr(Schema.String).annotate({
    description: 'What the last failure was; `null` while it is enabled.',
  }),
  consecutive_failures: atLeast(0).annotate({
    description: 'Deliveries that failed since the last success.',
  }),
  secret_rotation_ends_at: Schema.NullOr(Timestamp).annotate({
    description: 'Until when an earlier secret signs as well; `null` outside a rotation.',
  }),
  header_names: Schema.Array(Schema.String).annotate({
    description: 'The names of its static headers. The values are never shown.',
  }),
  client_certificate: Schema.NullOr(
    Schema.Struct({
      fingerprint_sha256: Schema.String.annotate({
        description: 'SHA-256 of the certificate, as `openssl x509 -noout -fingerprint -sha256` prints it.',
        examples: [FINGERPRINT],
      }),
      not_after: moment('When the certificate expires. Later attempts fail.'),
    }),
  ).annotate({
    description: 'The client certificate for mutual TLS; `null` without one. The private key is never shown.',
  }),
}

const endpointExample = {
  id: ENDPOINT_ID,
  object: 'webhook_endpoint',
  url: 'https://example.com/hooks/sms',
  description: 'Delivery reports of the shop',
  event_types: ['message.delivered', 'message.undelivered'],
  status: 'enabled',
  created_at: AT,
  disabled_at: null,
  disabled_reason: null,
  consecutive_failures: 0,
  secret_rotation_ends_at: null,
  header_names: ['Authorization'],
  client_certificate: { fingerprint_sha256: FINGERPRINT, not_after: '2027-11-21T09:30:00.000Z' },
} as const

export const WebhookEndpoint = Schema.Struct(webhookEndpointFields).annotate({
  identifier: 'WebhookEndpoint',
  title: 'Webhook endpoint',
  description: 'A subscription to events.',
  examples: [endpointExample],
})
export type WebhookEndpoint = typeof WebhookEndpoint.Type

/** Response of a creation and a rotation: the only ones with the signing secret. */
export const WebhookEndpointWithSecret = Schema.Struct({
  ...webhookEndpointFields,
  secret: Schema.String.check(Schema.isPattern(/^whsec_[A-Za-z0-9+/]{43}=$/u)).annotate({
    description:
      'Signing secret, shown this once. The whole string is the key of the HMAC-SHA-256 in `Hub-Signature`. Libraries of Standard Webhooks take it as it is.',
  }),
}).annotate({
  identifier: 'WebhookEndpointWithSecret',
  title: 'Webhook endpoint with its secret',
  description: 'A subscription to events, with the secret that signs them.',
  examples: [{ ...endpointExample, secret: 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=' }],
})
export type WebhookEndpointWithSecret = typeof WebhookEndpointWithSecret.Type

/** Response of a deletion. */
export const DeletedWebhookEndpoint = Schema.Struct({
  id: webhookEndpointFields.id,
  object: webhookEndpointFields.object,
  deleted: constant(true),
}).annotate({
  identifier: 'DeletedWebhookEndpoint',
  title: 'Deleted webhook endpoint',
  description: 'A subscription that is gone, and its backlog with it.',
  examples: [{ id: ENDPOINT_ID, object: 'webhook_endpoint', deleted: true }],
})
export type DeletedWebhookEndpoint = typeof DeletedWebhookEndpoint.Type

export const DELIVERY_STATUSES = ['succeeded', 'failed'] as const
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number]

/** Why an attempt failed, or a batch was given up. */
const DELIVERY_REASONS = [
  'http_status',
  'timeout',
  'connection_refused',
  'connection_reset',
  'tls_error',
  'address_not_public',
  'redirect',
  'dns_error',
  'client_certificate_expired',
  'retry_window_expired',
  'retry_window_expired_while_disabled',
] as const
export type DeliveryReason = (typeof DELIVERY_REASONS)[number]

export const WebhookDelivery = Schema.Struct({
  id: id('whd_', 'the attempt'),
  object: constant('webhook_delivery'),
  event_batch: anyId('evb_').annotate({
    description: 'The batch of events: the `Hub-Event-Id` of the request, the same for each attempt at it.',
    examples: [EVENT_BATCH_ID],
  }),
  event_ids: Schema.Array(anyId('evt_')).annotate({ description: 'The events of the batch, in its order.' }),
  attempt: atLeast(0).annotate({
    description:
      'Which attempt at the batch it was. A batch that was given up before any has 0. A resend has the number of the attempt that it repeats.',
  }),
  status: Schema.Literals(DELIVERY_STATUSES).annotate({
    description: '`succeeded` when the receiver answered with 2xx within 10 seconds.',
  }),
  response_code: Schema.NullOr(Schema.Int).annotate({
    description: 'The status that the receiver answered with; `null` when none came.',
  }),
  duration_ms: atLeast(0).annotate({
    description: 'Until the answer, or until the attempt was given up, in milliseconds.',
  }),
  reason: Schema.NullOr(Schema.Literals(DELIVERY_REASONS)).annotate({
    description:
      'Why it failed; `null` when it succeeded. The window is the 24 hours in which a batch is retried.',
  }),
  trial: Schema.Boolean.annotate({ description: 'True for what `POST …/test` delivered.' }),
  redelivery: Schema.Boolean.annotate({
    description:
      'True for what was delivered once more for a period, because the operator of the hub was asked to. The events have the ids they had.',
  }),
  resend: Schema.Boolean.annotate({ description: 'True for what `POST …/resend` delivered.' }),
  created_at: moment('When the attempt began.'),
  next_attempt_at: Schema.NullOr(Timestamp).annotate({
    description: 'When the batch is tried again; `null` when it is not, as far as is known.',
  }),
}).annotate({
  identifier: 'WebhookDelivery',
  title: 'Webhook delivery',
  description: 'An attempt to deliver a batch of events.',
  examples: [
    {
      id: 'whd_06e9c2v5k4r8x1m7n3p0q2s6tw',
      object: 'webhook_delivery',
      event_batch: EVENT_BATCH_ID,
      event_ids: [EVENT_ID],
      attempt: 2,
      status: 'failed',
      response_code: 503,
      duration_ms: 41,
      reason: 'http_status',
      trial: false,
      redelivery: false,
      resend: false,
      created_at: '2026-11-21T09:31:02.480Z',
      next_attempt_at: '2026-11-21T09:33:04.116Z',
    },
  ],
})
export type WebhookDelivery = typeof WebhookDelivery.Type

export const WebhookDeliveryList = listOf(WebhookDelivery, 'WebhookDeliveryList', 'newest first')

export const WebhookEndpointList = listOf(WebhookEndpoint, 'WebhookEndpointList', 'newest first')
