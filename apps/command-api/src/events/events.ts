/**
 * `GET /v1/events`: pages of the event journal. Source: specification, Delivery of events, 10;
 * contract, Events.
 */
import type { EventsPage } from '@hub/contract'
import { decodeId, encodeId } from '@hub/domain'
import { ReadEvents, Sql } from '@hub/store'
import { Duration, Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'

const DEADLINE = { deadline: Duration.millis(2500) }

const START: ReadEvents.JournalPosition = { sequence: '0', at: new Date(0) }

/** Events in the order of the journal; `null` when `startingAfter` names no event of the owner. */
export const readEvents = Effect.fnUntraced(function* (
  sql: Sql['Service'],
  owner: Owner,
  { createdAfter, limit, startingAfter, types }: EventsPage,
) {
  const journal = { account: owner.accountUuid, mode: owner.mode }
  let after = START
  if (startingAfter !== null) {
    const id = decodeId('evt', startingAfter)
    if (id === null) return null
    const position = yield* sql.run((q) => ReadEvents.positionOf(q, journal, id), DEADLINE)
    if (position === null) return null
    after = position
  } else if (createdAfter !== null) {
    const position = yield* sql.run((q) => ReadEvents.positionBefore(q, journal, createdAfter), DEADLINE)
    if (position === null) return ReadEvents.EMPTY_PAGE
    after = position
  }
  const page = yield* sql.run((q) => ReadEvents.readPage(q, journal, after, limit, types), DEADLINE)
  return { ...page, lastId: page.lastId === null ? null : encodeId('evt', page.lastId) }
})
