/**
 * Lists messages, newest first: by filters, or by `client_ref`. A list contains a message as soon as
 * the client has the 202: what the read model may lack is read from the ledger. Source: MSG-8, MSG-36 to
 * MSG-41.
 */
import type { NewestMessagesPage, Page, ReferencePage } from '@hub/contract'
import { decodeId, encodeId } from '@hub/domain'
import { ReadMessages, Sql, uuidFloor } from '@hub/store'
import { Clock, Effect } from 'effect'
import { selectReference } from '../accept/ledger/tables/client-refs.ts'
import type { Owner } from '../accounts/account.ts'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import { readLedgerPosition, selectUnprojected } from './acceptances.ts'
import { LedgerScan, LOOK_BACK_HOURS } from './ledger-scan.ts'
import { Messages, type ReadMessage } from './messages.ts'

const HOUR_MS = 3_600_000

/** A page of messages. */
export interface MessageListPage {
  readonly data: ReadonlyArray<ReadMessage>
  readonly hasMore: boolean
}

/** Whether a message follows another in a list, which is newest first. */
const follows = (one: ReadMessages.ListPosition, other: ReadMessages.ListPosition): boolean => {
  const difference = other.created_at.getTime() - one.created_at.getTime()
  return difference > 0 || (difference === 0 && one.id < other.id)
}

export const makeMessageLists = Effect.gen(function* () {
  const sql = yield* Sql
  const messages = yield* Messages
  const scan = yield* LedgerScan

  /** The position that a cursor (`msg_…`) names; `null` if the owner has no such message. */
  const positionOf = Effect.fnUntraced(function* ({ accountUuid, mode }: Owner, cursor: string) {
    const id = decodeId('msg', cursor)
    if (id === null) return null
    const owner = { account: accountUuid, mode }
    // The read model comes first: a row leaves the ledger only after its projection.
    return yield* sql.run(
      async (q) =>
        (await ReadMessages.listPositionOf(q, owner, id)) ?? (await readLedgerPosition(q, owner, id)),
      STATEMENT_DEADLINE,
    )
  })

  /** The newest messages that pass a filter. `null`: the cursor names no message. */
  const newest = Effect.fnUntraced(function* (owner: Owner, page: NewestMessagesPage) {
    const before = page.startingAfter === null ? null : yield* positionOf(owner, page.startingAfter)
    if (page.startingAfter !== null && before === null) return null
    const { createdAfter, createdBefore } = page.filter
    const filter: ReadMessages.ListFilter = {
      ...page.filter,
      createdAfter: createdAfter === null ? null : new Date(createdAfter),
      createdBefore: createdBefore === null ? null : new Date(createdBefore),
      before,
    }
    const ledger = {
      after: scan.cursor ?? uuidFloor((yield* Clock.currentTimeMillis) - LOOK_BACK_HOURS * HOUR_MS),
      late: [...scan.lateMessages.keys()],
    }
    const limit = page.limit + 1
    const by = { account: owner.accountUuid, mode: owner.mode }
    // What is not projected has the status `accepted`.
    const mayBeUnprojected = filter.status === null || filter.status === 'accepted'
    const rows = yield* sql.run(
      (q) => q<{ id: string }[]>`
        SELECT id FROM (
          ${ReadMessages.selectNewest(q, by, filter, limit)}
          ${mayBeUnprojected ? q`UNION ALL ${selectUnprojected(q, by, filter, ledger, limit)}` : q``}
        ) AS found ORDER BY created_at DESC, id DESC LIMIT ${limit}`,
      STATEMENT_DEADLINE,
    )
    const ids = rows.slice(0, page.limit).map(({ id }) => id)
    const found = yield* messages.readAll(owner, ids)
    return {
      data: ids.flatMap((id) => found.get(encodeId('msg', id)) ?? []),
      hasMore: rows.length > page.limit,
    } satisfies MessageListPage
  })

  /** The message with a `client_ref`, as a list. `null`: the cursor names no message. */
  const byReference = Effect.fnUntraced(function* (
    owner: Owner,
    page: Page & Pick<ReferencePage, 'clientRef'>,
  ) {
    const before = page.startingAfter === null ? null : yield* positionOf(owner, page.startingAfter)
    if (page.startingAfter !== null && before === null) return null
    const by = { account: owner.accountUuid, mode: owner.mode }
    const id = yield* sql.run((q) => selectReference(q, by, page.clientRef), STATEMENT_DEADLINE)
    if (id === null) return { data: [], hasMore: false } satisfies MessageListPage
    const found = (yield* messages.readAll(owner, [id])).get(encodeId('msg', id))
    const isListed =
      found !== undefined &&
      (before === null || follows({ id, created_at: new Date(found.view.createdAt) }, before))
    return { data: isListed ? [found] : [], hasMore: false } satisfies MessageListPage
  })

  return { newest, byReference }
})
