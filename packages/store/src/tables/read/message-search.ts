/**
 * The search of hub staff among the messages of all accounts, newest first. Owner of
 * `read.messages`: projector. See docs/decisions/search.md#search-of-hub-staff.
 *
 * A page reads a bounded number of rows, whatever the filter is:
 *
 * - With a reason, or a failed status without an account: the index of failed messages.
 * - With an account, and without a number range: the ranges of the indexes of an account's list.
 * - Otherwise: the newest messages.
 *
 * The first and the last look at `EXAMINED` messages of a page at most. If fewer than a page of them
 * match, the caller continues after the last one that was looked at. Ids here are UUIDs.
 */
import {
  EXPIRED_REASONS,
  type MessageClass,
  type Mode,
  MODES,
  type ReasonCode,
  REJECTED_REASONS,
  type Status,
  UNDELIVERED_REASONS,
} from '@hub/domain'
import { firstRow, type Queries, type SqlFragment } from '../../sql.ts'
import { uuidFloor } from '../../uuid.ts'
import { type ListPosition, selectNewest } from './messages.ts'

/**
 * Messages that a page looks at. PostgreSQL reads them in about 30 ms if they are in its memory, so a
 * page stays within 200 ms.
 */
export const EXAMINED = 10_000

/** Which messages to find; `null`: any. Times are milliseconds since the epoch, exclusive. */
export interface SearchFilter {
  readonly account: string | null
  readonly mode: Mode | null
  readonly class: MessageClass | null
  readonly template: string | null
  readonly status: Status | null
  readonly reason: ReasonCode | null
  /** A number range: `912`. */
  readonly range: string | null
  readonly createdAfter: number | null
  readonly createdBefore: number | null
  /** Only messages before this one, in the order of the search. */
  readonly below: string | null
}

export interface SearchPage {
  /** Newest first. */
  readonly ids: ReadonlyArray<string>
  /** The search may continue below this message; `null`: there are no more. */
  readonly next: string | null
}

/** The reasons of each failed status. */
const REASONS: Readonly<Partial<Record<Status, ReadonlyArray<ReasonCode>>>> = {
  undelivered: UNDELIVERED_REASONS,
  rejected: REJECTED_REASONS,
  expired: EXPIRED_REASONS,
}

/** The position of any complete message; `null` without it. */
const positionOf = (q: Queries, id: string): Promise<ListPosition | null> =>
  firstRow(q<ListPosition[]>`
    SELECT id, created_at FROM read.messages WHERE id = ${id} AND account IS NOT NULL`)

const inAccount = async (
  q: Queries,
  account: string,
  filter: SearchFilter,
  limit: number,
): Promise<SearchPage> => {
  const before = filter.below === null ? null : await positionOf(q, filter.below)
  if (filter.below !== null && before === null) return { ids: [], next: null }
  const listed = {
    status: filter.status,
    class: filter.class,
    template: filter.template,
    createdAfter: filter.createdAfter === null ? null : new Date(filter.createdAfter),
    createdBefore: filter.createdBefore === null ? null : new Date(filter.createdBefore),
    before,
  }
  const lists = (filter.mode === null ? MODES : [filter.mode])
    .map((mode): SqlFragment => q`(${selectNewest(q, { account, mode }, listed, limit + 1)})`)
    .reduce((all, next) => q`${all} UNION ALL ${next}`)
  const found = await q<{ id: string }[]>`
    SELECT id FROM (${lists}) AS found ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}`
  const ids = found.slice(0, limit).map(({ id }) => id)
  return { ids, next: found.length > limit ? (ids.at(-1) ?? null) : null }
}

/** A range of ids: those of a period, below the position of the search. */
const range = (q: Queries, { below, createdAfter, createdBefore }: SearchFilter): SqlFragment => q`
  id >= ${uuidFloor(Math.max(createdAfter === null ? 0 : createdAfter + 1, 0))}
  AND id >= command.uuid_floor(now() - interval '3 years')
  ${createdBefore === null ? q`` : q`AND id < ${uuidFloor(createdBefore)}`}
  ${below === null ? q`` : q`AND id < ${below}`}`

/** The messages that a page looks at, newest first. */
const examined = (q: Queries, filter: SearchFilter): SqlFragment => {
  const newest = (condition: SqlFragment): SqlFragment => q`
    SELECT id, account, mode, class, template, status, reason_code, number_range FROM read.messages
     WHERE ${condition} ${range(q, filter)} ORDER BY id DESC LIMIT ${EXAMINED}`
  const reasons = filter.reason === null ? REASONS[filter.status ?? 'accepted'] : [filter.reason]
  if (reasons === undefined) return newest(q``)
  const parts = reasons
    .map((reason): SqlFragment => q`(${newest(q`reason_code = ${reason} AND`)})`)
    .reduce((all, next) => q`${all} UNION ALL ${next}`)
  return q`SELECT * FROM (${parts}) AS failed ORDER BY id DESC LIMIT ${EXAMINED}`
}

const amongExamined = async (q: Queries, filter: SearchFilter, limit: number): Promise<SearchPage> => {
  const { account, mode, reason, status, template } = filter
  const ofRange = filter.range === null ? q`` : q`AND number_range = ${filter.range}`
  const rows = examined(q, filter)
  const found = await q<{ id: string }[]>`
    SELECT id FROM (${rows}) AS examined
     WHERE account IS NOT NULL
       ${account === null ? q`` : q`AND account = ${account}`} ${mode === null ? q`` : q`AND mode = ${mode}`}
       ${filter.class === null ? q`` : q`AND class = ${filter.class}`}
       ${template === null ? q`` : q`AND template = ${template}`}
       ${status === null ? q`` : q`AND status = ${status}`} ${reason === null ? q`` : q`AND reason_code = ${reason}`}
       ${ofRange}
     LIMIT ${limit + 1}`
  const ids = found.slice(0, limit).map(({ id }) => id)
  if (found.length > limit) return { ids, next: ids.at(-1) ?? null }
  const [last] = await q<{ id: string }[]>`
    SELECT id FROM (${rows}) AS examined ORDER BY id DESC OFFSET ${EXAMINED - 1} LIMIT 1`
  return { ids, next: last?.id ?? null }
}

/** A page of at most `limit` messages that pass the filter. */
export const findPage = (q: Queries, filter: SearchFilter, limit: number): Promise<SearchPage> =>
  filter.account !== null && filter.reason === null && filter.range === null
    ? inAccount(q, filter.account, filter, limit)
    : amongExamined(q, filter, limit)

/** A page of the messages of a batch, newest first, below a message. */
export const findInBatch = async (
  q: Queries,
  batch: string,
  below: string | null,
  limit: number,
): Promise<SearchPage> => {
  const found = await q<{ id: string }[]>`
    SELECT id FROM read.messages
     WHERE batch_id = ${batch} AND account IS NOT NULL ${below === null ? q`` : q`AND id < ${below}`}
     ORDER BY id DESC LIMIT ${limit + 1}`
  const ids = found.slice(0, limit).map(({ id }) => id)
  return { ids, next: found.length > limit ? (ids.at(-1) ?? null) : null }
}
