/**
 * `GET /v1/events`: pages of the event journal. Source: EVT-10 to EVT-13, RET-5.
 */
import type { EventsPage } from '@hub/contract'
import { decodeId, encodeId, eventIdOf, messageEventIds } from '@hub/domain'
import { ReadEvents, ReadMessages, Sql, uuidOf } from '@hub/store'
import { Duration, Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'

const DEADLINE = { deadline: Duration.millis(2500) }

const START: ReadEvents.JournalPosition = { sequence: '0', at: new Date(0) }

/** The ids of events (UUIDs) follow from their subjects, so no index by message or batch is needed. */
const selectionOf = Effect.fnUntraced(function* (
  sql: Sql['Service'],
  owner: Owner,
  { batch, message, types }: Pick<EventsPage, 'batch' | 'message' | 'types'>,
) {
  if (batch === null && message === null) return { by: 'type', types } as const
  const messages =
    batch === null
      ? message === null
        ? []
        : [message]
      : yield* sql.run((q) => ReadMessages.readIdsOfBatch(q, owner, batch), DEADLINE)
  const ids = messages.flatMap((uuid) => messageEventIds(encodeId('msg', uuid), types))
  if (batch !== null && (types.length === 0 || types.includes('batch.completed'))) {
    ids.push(eventIdOf(encodeId('bat', batch), 'batch.completed'))
  }
  return { by: 'id', ids: ids.map((id) => uuidOf('evt', id)) } as const
})

/** Events in the order of the journal; `null` when `startingAfter` names no event of the owner. */
export const readEvents = Effect.fnUntraced(function* (
  sql: Sql['Service'],
  owner: Owner,
  wanted: EventsPage,
) {
  const { createdAfter, limit, startingAfter } = wanted
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
  const selection = yield* selectionOf(sql, owner, wanted)
  const page = yield* sql.run((q) => ReadEvents.readPage(q, journal, after, limit, selection), DEADLINE)
  return { ...page, lastId: page.lastId === null ? null : encodeId('evt', page.lastId) }
})
