/** Checks the queries of lists. */
import {
  decodeId,
  type EventType,
  fromTimestamp,
  isEventType,
  isStatus,
  type MessageClass,
  SENDER_STATUSES,
  type Status,
  STATUSES,
  TEMPLATE_STATUSES,
} from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import { LIST_LIMITS, LONG_LIST_LIMITS, TEMPLATE_NAME_PATTERN } from '../limits.ts'
import {
  CLASS_RULE,
  CLIENT_REF_RULE,
  EVENT_TYPE_RULE,
  invalid,
  isClientRef,
  isMessageClass,
  TEMPLATE_RULE,
  TIMESTAMP_RULE,
} from './checks.ts'

export interface Page {
  readonly limit: number
  /** The cursor, as sent. The handler answers `not_found` if it names no resource. */
  readonly startingAfter: string | null
}

/** The requested page of templates or senders. */
export interface ModeratedPage extends Page {
  /** `null`: any, without those that were superseded. */
  readonly status: string | null
}

/** The requested page of the events. At most one of `startingAfter` and `createdAfter` is set. */
export interface EventsPage extends Page {
  /** Milliseconds since the epoch, exclusive. */
  readonly createdAfter: number | null
  /** Distinct; an empty list means all types. */
  readonly types: ReadonlyArray<EventType>
  /** Only the events of this message or batch (UUID); at most one of the two. `null`: of all. */
  readonly message: string | null
  readonly batch: string | null
}

const MESSAGE_RULE = 'message is the id of a message: msg_ and 26 characters.'
const EVENTS_BATCH_RULE =
  'batch is the id of a batch: bat_ and 26 characters. Send message or batch, not both.'
const TWO_CURSORS = 'Send one cursor only.'

export const decodePage = (
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

/** Parameters of other APIs. A client that ignores their absence would read one page for ever. */
const FOREIGN_PAGING = ['page', 'offset', 'ending_before', 'order'] as const
const FOREIGN_PAGING_RULE =
  'Lists have no such parameter. Read on with starting_after: next_cursor of the page before. limit is the page size.'

/** Refuses the paging parameters of other APIs, with any key. Source: HTTP-21. */
export const refuseForeignPaging = (query: URLSearchParams): Result.Result<void, ApiError> => {
  if (query.size === 0) return Result.void
  const found = FOREIGN_PAGING.find((name) => query.has(name))
  return found === undefined ? Result.void : invalid(found, FOREIGN_PAGING_RULE)
}

/**
 * The query of a short list: `limit` (1–100, default 20) and `starting_after`. Fails with
 * `invalid_parameter`. Source: LIST-2 to LIST-4.
 */
export const decodeListQuery = (query: URLSearchParams): Result.Result<Page, ApiError> =>
  decodePage(query, LIST_LIMITS)

/**
 * The query of `GET /v1/events`: `limit` (1–1000, default 100), `starting_after` or
 * `created_after`, any number of `type`, and `message` or `batch`. Fails with `invalid_parameter`.
 * Source: EVT-10 to EVT-13.
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
  const message = parsed(query, 'message', MESSAGE_RULE, (text) => decodeId('msg', text) ?? undefined)
  if (Result.isFailure(message)) return Result.fail(message.failure)
  const batch = parsed(query, 'batch', EVENTS_BATCH_RULE, (text) =>
    message.success === null ? (decodeId('bat', text) ?? undefined) : undefined,
  )
  return Result.map(batch, (ofBatch) => ({
    ...page.success,
    createdAfter,
    types: [...types],
    message: message.success,
    batch: ofBatch,
  }))
}

/** The requested page of the messages of a batch, in the order of acceptance. */
export interface BatchMessagesPage extends Page {
  readonly by: 'batch'
  /** As sent. The handler answers `not_found` if it names no batch. */
  readonly batch: string
}

/** The message with a `client_ref`, as a list. */
export interface ReferencePage extends Page {
  readonly by: 'client_ref'
  readonly clientRef: string
}

/** Filters of messages; `null`: any. Times are milliseconds since the epoch, exclusive. */
export interface MessageFilter {
  readonly status: Status | null
  readonly class: MessageClass | null
  readonly template: string | null
  readonly createdAfter: number | null
  readonly createdBefore: number | null
}

/** The requested page of the newest messages that pass a filter. */
export interface NewestMessagesPage extends Page {
  readonly by: 'newest'
  readonly filter: MessageFilter
}

export type MessagesPage = BatchMessagesPage | ReferencePage | NewestMessagesPage

/** The parameter of each filter of the newest messages. They may be combined, but not with the other two. */
const FILTERS = {
  status: 'status',
  class: 'class',
  template: 'template',
  createdAfter: 'created_after',
  createdBefore: 'created_before',
} as const satisfies Readonly<Record<keyof MessageFilter, string>>

const ONCE_RULE = 'Send this parameter once only.'
const ALONE_RULE = 'batch and client_ref cannot be combined with each other or with a filter.'
const STATUS_RULE = `A status is one of: ${STATUSES.join(', ')}.`

/** A parameter of the query; `null` without it. It may be given once. */
const single = (query: URLSearchParams, name: string): Result.Result<string | null, ApiError> => {
  const [value, ...others] = query.getAll(name)
  return others.length > 0 ? invalid(name, ONCE_RULE) : Result.succeed(value ?? null)
}

/** A parameter that `parse` reads; it returns `undefined` for a bad value. */
export const parsed = <A>(
  query: URLSearchParams,
  name: string,
  rule: string,
  parse: (text: string) => A | undefined,
): Result.Result<A | null, ApiError> =>
  Result.flatMap(single(query, name), (text): Result.Result<A | null, ApiError> => {
    if (text === null) return Result.succeed(null)
    const value = parse(text)
    return value === undefined ? invalid(name, rule) : Result.succeed(value)
  })

/** A parameter that is a moment, in milliseconds since the epoch. */
export const moment = (query: URLSearchParams, name: string) =>
  parsed(query, name, TIMESTAMP_RULE, (text) => fromTimestamp(text) ?? undefined)

const decodeFilter = (query: URLSearchParams): Result.Result<MessageFilter, ApiError> =>
  Result.all({
    status: parsed(query, FILTERS.status, STATUS_RULE, (text) => (isStatus(text) ? text : undefined)),
    class: parsed(query, FILTERS.class, CLASS_RULE, (text) => (isMessageClass(text) ? text : undefined)),
    template: parsed(query, FILTERS.template, TEMPLATE_RULE, (text) =>
      TEMPLATE_NAME_PATTERN.test(text) ? text : undefined,
    ),
    createdAfter: moment(query, FILTERS.createdAfter),
    createdBefore: moment(query, FILTERS.createdBefore),
  })

/**
 * The query of `GET /v1/messages`: `batch`, or `client_ref`, or any of the filters; without them
 * the newest messages. `limit` is that of a short list, and with `batch` 1–1000 (default 100). Fails with
 * `invalid_parameter`. Source: MSG-36 to MSG-41.
 */
export const decodeMessagesQuery = (query: URLSearchParams): Result.Result<MessagesPage, ApiError> => {
  const page = decodePage(query, query.has('batch') ? LONG_LIST_LIMITS : LIST_LIMITS)
  if (Result.isFailure(page)) return Result.fail(page.failure)
  const batch = single(query, 'batch')
  if (Result.isFailure(batch)) return Result.fail(batch.failure)
  const reference = parsed(query, 'client_ref', CLIENT_REF_RULE, (text) =>
    isClientRef(text) ? text : undefined,
  )
  if (Result.isFailure(reference)) return Result.fail(reference.failure)
  const filters = Object.values(FILTERS).filter((name) => query.has(name))
  if (batch.success !== null) {
    const [other] = reference.success === null ? filters : ['client_ref']
    if (other !== undefined) return invalid(other, ALONE_RULE)
    return Result.succeed({ ...page.success, by: 'batch', batch: batch.success })
  }
  if (reference.success !== null) {
    const [other] = filters
    if (other !== undefined) return invalid(other, ALONE_RULE)
    return Result.succeed({ ...page.success, by: 'client_ref', clientRef: reference.success })
  }
  return Result.map(decodeFilter(query), (filter) => ({ ...page.success, by: 'newest', filter }))
}

const decodeModeratedQuery =
  (statuses: ReadonlyArray<string>) =>
  (query: URLSearchParams): Result.Result<ModeratedPage, ApiError> =>
    Result.flatMap(decodeListQuery(query), (page) =>
      Result.map(
        parsed(query, 'status', `A status is one of: ${statuses.join(', ')}.`, (text) =>
          statuses.includes(text) ? text : undefined,
        ),
        (status) => ({ ...page, status }),
      ),
    )

/** The query of `GET /v1/templates`: that of a short list, and `status`. */
export const decodeTemplatesQuery = decodeModeratedQuery(TEMPLATE_STATUSES)

/** The query of `GET /v1/senders`: that of a short list, and `status`. */
export const decodeSendersQuery = decodeModeratedQuery(SENDER_STATUSES)
