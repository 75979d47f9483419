/** Checks the queries of lists. */
import { type EventType, fromTimestamp, isEventType } from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import { LIST_LIMITS, LONG_LIST_LIMITS } from '../limits.ts'
import { invalid } from './checks.ts'
import { EVENT_TYPE_RULE } from './webhook-endpoints.ts'

export interface Page {
  readonly limit: number
  /** The cursor, as sent. The handler answers `not_found` if it names no resource. */
  readonly startingAfter: string | null
}

/** The requested page of the events. At most one of `startingAfter` and `createdAfter` is set. */
export interface EventsPage extends Page {
  /** Milliseconds since the epoch, exclusive. */
  readonly createdAfter: number | null
  /** Distinct; an empty list means all types. */
  readonly types: ReadonlyArray<EventType>
}

const TWO_CURSORS = 'Send one cursor only.'
const TIMESTAMP_RULE = 'A moment is written in UTC as 2026-11-21T09:30:00.000Z.'

const decodePage = (
  query: URLSearchParams,
  limits: { readonly max: number; readonly default: number },
): Result.Result<Page, ApiError> => {
  const limitRule = `limit is a whole number from 1 to ${limits.max}.`
  const given = query.getAll('limit')
  if (given.length > 1) return invalid('limit', limitRule)
  let limit = limits.default
  if (given[0] !== undefined) {
    if (!/^[1-9][0-9]{0,3}$/u.test(given[0])) return invalid('limit', limitRule)
    limit = Number(given[0])
    if (limit > limits.max) return invalid('limit', limitRule)
  }
  const cursors = query.getAll('starting_after')
  if (cursors.length > 1) return invalid('starting_after', TWO_CURSORS)
  return Result.succeed({ limit, startingAfter: cursors[0] ?? null })
}

/**
 * The query of a short list: `limit` (1–100, default 20) and `starting_after`. Fails with
 * `invalid_parameter`. Source: contract decisions, "list envelope".
 */
export const decodeListQuery = (query: URLSearchParams): Result.Result<Page, ApiError> =>
  decodePage(query, LIST_LIMITS)

/**
 * The query of `GET /v1/events`: `limit` (1–1000, default 100), `starting_after` or
 * `created_after`, and any number of `type`. Fails with `invalid_parameter`. Source: specification,
 * Delivery of events, 10; contract decisions, Events.
 */
export const decodeEventsQuery = (query: URLSearchParams): Result.Result<EventsPage, ApiError> => {
  const page = decodePage(query, LONG_LIST_LIMITS)
  if (Result.isFailure(page)) return Result.fail(page.failure)
  const moments = query.getAll('created_after')
  if (moments.length > 1) return invalid('created_after', TWO_CURSORS)
  let createdAfter: number | null = null
  if (moments[0] !== undefined) {
    if (page.success.startingAfter !== null) return invalid('created_after', TWO_CURSORS)
    createdAfter = fromTimestamp(moments[0])
    if (createdAfter === null) return invalid('created_after', TIMESTAMP_RULE)
  }
  const types = new Set<EventType>()
  for (const type of query.getAll('type')) {
    if (!isEventType(type)) return invalid('type', EVENT_TYPE_RULE)
    types.add(type)
  }
  return Result.succeed({ ...page.success, createdAfter, types: [...types] })
}

/** The requested page of the messages of a batch. */
interface MessagesPage extends Page {
  /** As sent. The handler answers `not_found` if it names no batch. */
  readonly batch: string
}

const BATCH_RULE = 'Name one batch: messages are listed by batch only.'

/**
 * The query of `GET /v1/messages`: `batch` (required), `limit` (1–1000, default 100) and
 * `starting_after`. Fails with `invalid_parameter`. Source: contract decisions, "list envelope".
 */
export const decodeMessagesQuery = (query: URLSearchParams): Result.Result<MessagesPage, ApiError> => {
  const [batch, ...others] = query.getAll('batch')
  if (batch === undefined || others.length > 0) return invalid('batch', BATCH_RULE)
  return Result.map(decodePage(query, LONG_LIST_LIMITS), (page) => ({ ...page, batch }))
}
