/** Checks the form of subscriptions to create and change, and of queries of their delivery log. */
import { decodeId, type EventType, isEventType } from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import { isJsonObject, type Json, type JsonObject } from '../json.ts'
import { LIST_LIMITS, MAX_CLIENT_CERTIFICATE_LENGTH, MAX_ENDPOINT_DESCRIPTION_LENGTH } from '../limits.ts'
import { DELIVERY_STATUSES, type DeliveryStatus } from '../schemas/webhook-endpoints.ts'
import { EVENT_TYPE_RULE, invalid, isWithin, member, REQUIRED_STRING } from './checks.ts'
import { decodePage, moment, type Page, parsed } from './pages.ts'
import { decodeWebhookHeaders, type WebhookHeader } from './webhook-headers.ts'

/** A request to create a subscription. Later checks resolve its address. */
export interface WebhookEndpointToCreate {
  /** As sent. */
  readonly url: string
  /** Distinct, in the order sent; an empty list means all types. */
  readonly eventTypes: ReadonlyArray<EventType>
  readonly description: string | null
  /** Static headers of its deliveries; an empty list: none. The values are secrets. */
  readonly headers: ReadonlyArray<WebhookHeader>
  /** `null`: none. Later checks read it. */
  readonly clientCertificate: ClientCertificateToCheck | null
}

/** The certificate that the hub presents to the receiver, as sent. */
export interface ClientCertificateToCheck {
  /** PEM, with its chain. */
  readonly certificate: string
  /** PEM. Secret. */
  readonly privateKey: string
}

/** A request to change a subscription. Absent members stay as they are. */
export type WebhookEndpointChanges = Partial<WebhookEndpointToCreate>

const EVENT_TYPES_RULE = 'event_types is a list of event types; leave it out for all of them.'
const NOT_NULL = 'This field is a string and cannot be removed.'
const DESCRIPTION_RULE = `description is a text of at most ${MAX_ENDPOINT_DESCRIPTION_LENGTH} characters without control characters.`
const CLIENT_CERTIFICATE_RULE =
  'client_certificate is an object with certificate and private_key, or null for none.'
const PEM_RULE = `This field is required and is PEM text of at most ${MAX_CLIENT_CERTIFICATE_LENGTH} characters.`
const EXPIRE_RULE = 'expire_previous is true or false.'

/** The event types as sent; an empty list without them. */
const decodeEventTypes = (given: Json | undefined): Result.Result<ReadonlyArray<EventType>, ApiError> => {
  if (given === undefined) return Result.succeed([])
  if (!Array.isArray(given)) return invalid('event_types', EVENT_TYPES_RULE)
  const eventTypes = new Set<EventType>()
  for (const [index, type] of (given as ReadonlyArray<Json>).entries()) {
    if (typeof type !== 'string') return invalid(`event_types[${index}]`, EVENT_TYPES_RULE)
    if (!isEventType(type)) return invalid(`event_types[${index}]`, EVENT_TYPE_RULE)
    eventTypes.add(type)
  }
  return Result.succeed([...eventTypes])
}

const decodeDescription = (given: Json | undefined): Result.Result<string | null, ApiError> => {
  if (given === undefined || given === null) return Result.succeed(null)
  const isRight =
    typeof given === 'string' &&
    isWithin(given, MAX_ENDPOINT_DESCRIPTION_LENGTH) &&
    !/[\p{Cc}\p{Cs}]/u.test(given)
  return isRight ? Result.succeed(given) : invalid('description', DESCRIPTION_RULE)
}

const isPem = (value: Json | undefined): value is string =>
  typeof value === 'string' && value !== '' && value.length <= MAX_CLIENT_CERTIFICATE_LENGTH

const decodeClientCertificate = (
  given: Json | undefined,
): Result.Result<ClientCertificateToCheck | null, ApiError> => {
  if (given === undefined || given === null) return Result.succeed(null)
  if (!isJsonObject(given)) {
    return invalid('client_certificate', CLIENT_CERTIFICATE_RULE)
  }
  const certificate = member(given, 'certificate')
  if (!isPem(certificate)) return invalid('client_certificate.certificate', PEM_RULE)
  const privateKey = member(given, 'private_key')
  if (!isPem(privateKey)) return invalid('client_certificate.private_key', PEM_RULE)
  return Result.succeed({ certificate, privateKey })
}

/** The members beside `url`, in the order of their checks. One that is absent has the value of a new subscription. */
const decodeMembers = (object: JsonObject): Result.Result<Omit<WebhookEndpointToCreate, 'url'>, ApiError> =>
  Result.gen(function* () {
    const eventTypes = yield* decodeEventTypes(member(object, 'event_types'))
    const description = yield* decodeDescription(member(object, 'description'))
    const headers = yield* decodeWebhookHeaders(member(object, 'headers'))
    const clientCertificate = yield* decodeClientCertificate(member(object, 'client_certificate'))
    return { eventTypes, description, headers, clientCertificate }
  })

/**
 * Checks the body of a subscription creation: `url`, then `event_types`, `description`, `headers` and
 * `client_certificate`. Fails with `invalid_parameter` if `url` is absent or not a string, if
 * `event_types` is not a list of known types, if `description` is not a short text, if `headers` are
 * not headers that a subscription may set, or if `client_certificate` is not a pair of PEM texts.
 * Unknown fields are ignored.
 *
 * Source: SUB-1, SUB-4, SUB-5, SUB-11, SUB-32 to SUB-36.
 */
export const decodeWebhookEndpointCreate = (
  object: JsonObject,
): Result.Result<WebhookEndpointToCreate, ApiError> => {
  const url = member(object, 'url')
  if (typeof url !== 'string') return invalid('url', REQUIRED_STRING)
  return Result.map(decodeMembers(object), (members) => ({ url, ...members }))
}

/** Checks the body of a subscription change, with the rules of a creation for each member. */
export const decodeWebhookEndpointUpdate = (
  object: JsonObject,
): Result.Result<WebhookEndpointChanges, ApiError> => {
  const url = member(object, 'url')
  if (url !== undefined && typeof url !== 'string') return invalid('url', NOT_NULL)
  const isSent = (name: string): boolean => member(object, name) !== undefined
  return Result.map(
    decodeMembers(object),
    ({ clientCertificate, description, eventTypes, headers }): WebhookEndpointChanges => ({
      ...(url === undefined ? undefined : { url }),
      ...(isSent('event_types') ? { eventTypes } : undefined),
      ...(isSent('description') ? { description } : undefined),
      ...(isSent('headers') ? { headers } : undefined),
      ...(isSent('client_certificate') ? { clientCertificate } : undefined),
    }),
  )
}

interface SecretRotation {
  /** Ends all earlier secrets at once. */
  readonly expirePrevious: boolean
}

/** Checks the body of a rotation. A request may have none. */
export const decodeSecretRotation = (object: JsonObject): Result.Result<SecretRotation, ApiError> => {
  const given = member(object, 'expire_previous')
  if (given === undefined) return Result.succeed({ expirePrevious: false })
  return typeof given === 'boolean'
    ? Result.succeed({ expirePrevious: given })
    : invalid('expire_previous', EXPIRE_RULE)
}

/** The requested page of a delivery log. A filter that is `null` selects everything. */
export interface DeliveriesPage extends Page {
  readonly status: DeliveryStatus | null
  /** UUID of an event that the batch contains. */
  readonly event: string | null
  /** Milliseconds since the epoch, exclusive. */
  readonly createdAfter: number | null
  readonly createdBefore: number | null
}

const STATUS_RULE = `status is one of: ${DELIVERY_STATUSES.join(', ')}.`
const EVENT_RULE = 'event is the id of an event: evt_ and 26 characters.'

/**
 * The query of `GET …/deliveries`: that of a short list, `status`, `event`, `created_after` and
 * `created_before`. Fails with `invalid_parameter`.
 */
export const decodeDeliveriesQuery = (query: URLSearchParams): Result.Result<DeliveriesPage, ApiError> =>
  Result.gen(function* () {
    const page = yield* decodePage(query, LIST_LIMITS)
    const status = yield* parsed(query, 'status', STATUS_RULE, (text) =>
      DELIVERY_STATUSES.find((one): one is DeliveryStatus => one === text),
    )
    const event = yield* parsed(query, 'event', EVENT_RULE, (text) => decodeId('evt', text) ?? undefined)
    const createdAfter = yield* moment(query, 'created_after')
    const createdBefore = yield* moment(query, 'created_before')
    return { ...page, status, event, createdAfter, createdBefore }
  })
