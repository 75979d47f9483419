/** Checks the form of subscriptions to create. */
import { type EventType, isEventType } from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import type { Json, JsonObject } from '../json.ts'
import { invalid, member, REQUIRED_STRING } from './checks.ts'

/** A request to create a subscription. Later checks resolve its address. */
export interface WebhookEndpointToCreate {
  /** As sent. */
  readonly url: string
  /** Distinct, in the order sent; an empty list means all types. */
  readonly eventTypes: ReadonlyArray<EventType>
}

const EVENT_TYPES_RULE = 'event_types is a list of event types; leave it out for all of them.'
export const EVENT_TYPE_RULE = 'There is no event type of this name.'

/**
 * Checks the body of a subscription creation: `url`, then `event_types`. Fails with
 * `invalid_parameter` if `url` is absent or not a string, or if `event_types` is not a list of
 * known types. Unknown fields are ignored.
 *
 * Source: specification, Webhook subscription endpoints; contract decisions, Webhook subscription.
 */
export const decodeWebhookEndpointCreate = (
  object: JsonObject,
): Result.Result<WebhookEndpointToCreate, ApiError> => {
  const url = member(object, 'url')
  if (typeof url !== 'string') return invalid('url', REQUIRED_STRING)

  const given = member(object, 'event_types')
  if (given === undefined) return Result.succeed({ url, eventTypes: [] })
  if (!Array.isArray(given)) return invalid('event_types', EVENT_TYPES_RULE)
  const eventTypes = new Set<EventType>()
  for (const [index, type] of (given as ReadonlyArray<Json>).entries()) {
    if (typeof type !== 'string') return invalid(`event_types[${index}]`, EVENT_TYPES_RULE)
    if (!isEventType(type)) return invalid(`event_types[${index}]`, EVENT_TYPE_RULE)
    eventTypes.add(type)
  }
  return Result.succeed({ url, eventTypes: [...eventTypes] })
}
