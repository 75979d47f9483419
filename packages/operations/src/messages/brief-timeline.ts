/**
 * What happened to a message, from PostgreSQL alone: its statuses, its events, and the attempts to
 * deliver them. `timeline.ts` also reads Kafka.
 */
import { encodeId, toTimestamp } from '@hub/domain'
import { type Queries, ReadMessages, uuidOf } from '@hub/store'
import { Effect, Schema } from 'effect'
import { refused } from '../failures.ts'
import { publicId, Timestamp } from '../fields.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'
import { readDeliveries } from './read-deliveries.ts'

/** An account has few subscriptions. */
const MOST = { subscriptions: 100, attempts: 50 }

interface Happening {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly what: string
  readonly detail: string | null
}

const statusesOf = ({ created_at, history }: ReadMessages.ProjectedMessage): ReadonlyArray<Happening> => [
  { at: created_at.getTime(), what: 'accepted', detail: null },
  ...(history ?? [])
    .filter(({ status }) => status !== 'accepted')
    .map(({ at, reason, status }) => ({ at, what: status, detail: reason })),
]

/** The events of a message, and the attempts to deliver each of them. */
const deliveriesOf = async (
  q: Queries,
  row: ReadMessages.ProjectedMessage,
): Promise<ReadonlyArray<Happening>> => {
  const { attempts, events } = await readDeliveries(q, row, MOST)
  return [
    ...events.map(({ created_at, id, type }) => ({
      at: Date.parse(created_at),
      what: 'event',
      detail: `${type} ${id}`,
    })),
    ...attempts.flatMap(({ attempt, subscriptionId, events: carried }) => {
      const answer = attempt.response_code === null ? (attempt.reason ?? '') : `HTTP ${attempt.response_code}`
      return carried.map(({ type }) => ({
        at: attempt.created_at.getTime(),
        what: `webhook ${attempt.status}`,
        detail: `${type} to ${encodeId('we', subscriptionId)}: ${encodeId('whd', attempt.id)}, attempt ${attempt.attempt}, ${answer}`,
      }))
    }),
  ]
}

export const briefTimeline = defineUseCase({
  name: 'messages timeline',
  permission: 'messages.read',
  members: 'named',
  input: Schema.Struct({ id: publicId('msg') }),
  output: Schema.Struct({
    object: Schema.Literal('list'),
    message: publicId('msg'),
    data: Schema.Array(
      Schema.Struct({ at: Timestamp, what: Schema.String, detail: Schema.NullOr(Schema.String) }),
    ),
  }),
  audit: ({ id }) => ({ message: id }),
  run: Effect.fnUntraced(function* ({ id }) {
    const [row] = yield* query((q) => ReadMessages.readAll(q, [uuidOf('msg', id)]))
    if (row === undefined || !row.is_shown) {
      return yield* refused(
        'message_not_found',
        `There is no message ${id}, or the projectors have not recorded it yet. Records older than three years are not shown.`,
        'id',
      )
    }
    const happened = [...statusesOf(row), ...(yield* query((q) => deliveriesOf(q, row)))]
    const data = happened
      .toSorted((a, b) => a.at - b.at)
      .map(({ at, ...rest }) => ({ at: toTimestamp(at), ...rest }))
    return { object: 'list' as const, message: id, data }
  }),
})
