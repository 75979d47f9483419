/** Checks the form of subscriptions to create. */
import { type EventType, isEventType } from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import type { Json, JsonObject } from '../json.ts'
import { member, refuse, REQUIRED_STRING } from './checks.ts'

/** A subscription to create whose own form is right. The rules of its address come later: they need DNS. */
export interface WebhookEndpointToCreate {
  /** As sent. */
  readonly url: string
  /** Without repetitions, in the order sent; empty means all. */
  readonly eventTypes: ReadonlyArray<EventType>
}

const EVENT_TYPES_WORDS = 'event_types is a list of event types; leave it out for all of them.'
export const EVENT_TYPE_WORDS = 'There is no event type of this name.'

/**
 * The form of a subscription to create: `url`, then `event_types`. Fails with `invalid_parameter` where `url` is
 * absent or not a string, or `event_types` is not a list of known types. Unknown fields are ignored.
 *
 * Source: specification, Webhook subscription endpoints; contract decisions, Webhook subscription.
 */
export const decodeWebhookEndpointCreate = (
  object: JsonObject,
): Result.Result<WebhookEndpointToCreate, ApiError> => {
  const url = member(object, 'url')
  if (typeof url !== 'string') return refuse('invalid_parameter', 'url', REQUIRED_STRING)

  const given = member(object, 'event_types')
  if (given === undefined) return Result.succeed({ url, eventTypes: [] })
  if (!Array.isArray(given)) return refuse('invalid_parameter', 'event_types', EVENT_TYPES_WORDS)
  const eventTypes = new Set<EventType>()
  for (const [index, type] of (given as ReadonlyArray<Json>).entries()) {
    if (typeof type !== 'string')
      return refuse('invalid_parameter', `event_types[${index}]`, EVENT_TYPES_WORDS)
    if (!isEventType(type)) return refuse('invalid_parameter', `event_types[${index}]`, EVENT_TYPE_WORDS)
    eventTypes.add(type)
  }
  return Result.succeed({ url, eventTypes: [...eventTypes] })
}
