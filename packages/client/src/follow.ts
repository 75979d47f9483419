/** Follows the event list by its cursor. */
import { makeCursorCheck } from './answer.ts'
import type { components } from './contract.ts'
import { HubConnectionError, HubRateLimitError, HubUnavailableError } from './errors.ts'
import { type Call, LONGEST_WAIT_MS, type Wait, waitBefore } from './http.ts'
import type { QueryOf } from './operations.ts'

export type HubEvent = components['schemas']['Event']

export interface FollowOptions {
  /** Only these types. */
  readonly type?: QueryOf<'/v1/events'>['type']
  /** Without a cursor: only events that were recorded after this time (ISO 8601). */
  readonly createdAfter?: string
  /** Milliseconds between two requests when there is no new event. Default 1,000. */
  readonly pollMs?: number
  readonly signal?: AbortSignal
}

/** A page costs one request of the rate limit, whatever its size. */
const PAGE = 100

const isTemporary = (error: unknown): error is HubConnectionError | HubRateLimitError | HubUnavailableError =>
  error instanceof HubConnectionError ||
  error instanceof HubRateLimitError ||
  error instanceof HubUnavailableError

/**
 * Yields the pages of events after `cursor`, each with at least one event and at most 100, and waits for
 * new ones.
 */
export const makeFollowPages = (call: Call, wait: Wait) =>
  async function* (
    cursor: string | null = null,
    options: FollowOptions = {},
  ): AsyncGenerator<ReadonlyArray<HubEvent>, void, undefined> {
    const { createdAfter, pollMs = 1000, signal, type } = options
    let position = cursor
    let failures = 0
    let checkCursor = makeCursorCheck()
    const readPage = async (): Promise<components['schemas']['EventList']> => {
      const query = {
        limit: PAGE,
        type,
        // The API refuses a cursor together with `created_after`.
        ...(position === null ? { created_after: createdAfter } : { starting_after: position }),
      }
      const page = await call('get', '/v1/events', { query, ...(signal === undefined ? {} : { signal }) })
      return page as components['schemas']['EventList']
    }
    const isEnded = (): boolean => signal?.aborted === true
    while (!isEnded()) {
      let waitMs: number
      try {
        const page = await readPage()
        failures = 0
        if (page.data.length > 0) yield page.data
        position = page.next_cursor ?? position
        if (page.has_more) checkCursor(position)
        // Without new events, the cursor stays the same.
        else checkCursor = makeCursorCheck()
        waitMs = page.has_more ? 0 : pollMs
      } catch (error) {
        if (isEnded()) return
        if (!isTemporary(error)) throw error
        waitMs = Math.min(LONGEST_WAIT_MS, waitBefore(failures, error.retryAfter))
        failures += 1
      }
      // An aborted wait ends the loop.
      if (waitMs > 0) await wait(waitMs, signal).catch(() => {})
    }
  }

/**
 * Yields all events after `cursor`, the id of an event, and waits for new ones. `null`: from the first
 * event that the hub stores. Store the id of each processed event: it is the cursor of the next start. It
 * also waits while the hub cannot be reached. It ends when the signal aborts.
 */
export const makeFollow = (pages: ReturnType<typeof makeFollowPages>) =>
  async function* (
    cursor: string | null = null,
    options: FollowOptions = {},
  ): AsyncGenerator<HubEvent, void, undefined> {
    for await (const page of pages(cursor, options)) {
      for (const event of page) {
        if (options.signal?.aborted === true) return
        yield event
      }
    }
  }
