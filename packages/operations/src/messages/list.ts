/**
 * The recent messages of all accounts that pass a filter, newest first. See
 * docs/decisions/search.md#search-of-hub-staff.
 */
import { decodeId, fromTimestamp, MESSAGE_CLASSES, REASON_CODES, STATUSES, toTimestamp } from '@hub/domain'
import { MessageSearch, ReadMessages, timeOfUuid } from '@hub/store'
import { Effect, Schema } from 'effect'
import { Mode, NumberRange, publicId, Timestamp } from '../fields.ts'
import { decodeCursor, encodeCursor, listOf, pageFields } from '../pages.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'
import { Message, readInOrder, toMessage } from './message.ts'

/** The cursor of the list: a message (UUID). */
const Below = Schema.String.check(Schema.isUUID())

const uuidOrNull = (prefix: 'acc' | 'bat', id: string | null): string | null =>
  id === null ? null : decodeId(prefix, id)

export const list = defineUseCase({
  name: 'messages list',
  permission: 'messages.read',
  members: 'named',
  input: Schema.Struct({
    account: Schema.NullOr(publicId('acc')),
    mode: Schema.NullOr(Mode),
    class: Schema.NullOr(Schema.Literals(MESSAGE_CLASSES)),
    template: Schema.NullOr(Schema.String.annotate({ description: 'The name of a template.' })),
    status: Schema.NullOr(Schema.Literals(STATUSES)),
    reason: Schema.NullOr(Schema.Literals(REASON_CODES)),
    range: Schema.NullOr(NumberRange),
    /** Only the messages of this batch, in the order of their ids. Without other filters. */
    batch: Schema.NullOr(publicId('bat')),
    created_after: Schema.NullOr(Timestamp),
    created_before: Schema.NullOr(Timestamp),
    ...pageFields,
  }),
  output: Schema.Struct({
    ...listOf(Message).fields,
    searched_until: Schema.NullOr(Timestamp).annotate({
      description:
        'A page looks at a limited number of messages. It may have fewer messages than `limit`, or none, although more ' +
        'follow: it has found all until this time, and the next page continues there. `null`: it has found all.',
    }),
  }),
  audit: null,
  run: ({ account, batch, cursor, limit, ...filter }) =>
    Effect.gen(function* () {
      const below = yield* decodeCursor(Below, cursor)
      const moment = (text: string | null) => (text === null ? null : fromTimestamp(text))
      const found = yield* query(async (q): Promise<MessageSearch.SearchPage & { rows: Rows }> => {
        const batchUuid = uuidOrNull('bat', batch)
        const page =
          batchUuid === null
            ? await MessageSearch.findPage(
                q,
                {
                  mode: filter.mode,
                  class: filter.class,
                  template: filter.template,
                  status: filter.status,
                  reason: filter.reason,
                  range: filter.range,
                  account: uuidOrNull('acc', account),
                  createdAfter: moment(filter.created_after),
                  createdBefore: moment(filter.created_before),
                  below,
                },
                limit,
              )
            : await MessageSearch.findInBatch(q, batchUuid, below, limit)
        return { ...page, rows: await readInOrder(q, page.ids) }
      })
      return {
        object: 'list' as const,
        data: found.rows.map(toMessage),
        next_cursor: found.next === null ? null : encodeCursor(found.next),
        searched_until: found.next === null ? null : toTimestamp(timeOfUuid(found.next)),
      }
    }),
})

type Rows = ReadonlyArray<ReadMessages.ProjectedMessage>
