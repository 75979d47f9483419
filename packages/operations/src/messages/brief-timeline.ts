/**
 * What happened to a message, from PostgreSQL alone: its statuses, its events, and the attempts to
 * deliver them. `timeline.ts` also reads Kafka.
 */
import { encodeId, messageEventIds, toTimestamp } from '@hub/domain'
import {
  type Queries,
  ReadEvents,
  ReadMessages,
  uuidOf,
  WebhooksAttempts,
  WebhooksEndpoints,
} from '@hub/store'
import { Effect, Schema } from 'effect'
import { refused } from '../failures.ts'
import { publicId, Timestamp } from '../fields.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'

/** The most attempts to show for one event of one subscription. */
const MOST_ATTEMPTS = 50
/** An account has few subscriptions. */
const MOST_SUBSCRIPTIONS = 100

interface Happening {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly what: string
  readonly detail: string | null
}

interface EventBody {
  readonly id: string
  readonly type: string
  readonly created_at: string
}

const statusesOf = ({ created_at, history }: ReadMessages.ProjectedMessage): ReadonlyArray<Happening> => [
  { at: created_at.getTime(), what: 'accepted', detail: null },
  ...(history ?? [])
    .filter(({ status }) => status !== 'accepted')
    .map(({ at, reason, status }) => ({ at, what: status, detail: reason })),
]

/** The events of a message, and the attempts to deliver them, also to disabled subscriptions. */
const deliveriesOf = async (
  q: Queries,
  { account, id, mode }: ReadMessages.ProjectedMessage,
): Promise<ReadonlyArray<Happening>> => {
  const ids = messageEventIds(encodeId('msg', id), []).map((event) => uuidOf('evt', event))
  const events = (await ReadEvents.readBodies(q, { account, mode }, ids)).map(
    (body) => JSON.parse(body) as EventBody,
  )
  const filter = { account, mode, status: null, limit: MOST_SUBSCRIPTIONS }
  const endpoints = events.length === 0 ? [] : await WebhooksEndpoints.readNewest(q, filter)
  const happened: Array<Happening> = events.map((event) => ({
    at: Date.parse(event.created_at),
    what: 'event',
    detail: `${event.type} ${event.id}`,
  }))
  for (const event of events) {
    for (const endpoint of endpoints) {
      const attempts = await WebhooksAttempts.readPage(
        q,
        endpoint.id,
        { ...WebhooksAttempts.ALL_ATTEMPTS, event: uuidOf('evt', event.id) },
        null,
        MOST_ATTEMPTS,
      )
      for (const one of attempts ?? []) {
        const answer = one.response_code === null ? (one.reason ?? '') : `HTTP ${one.response_code}`
        happened.push({
          at: one.created_at.getTime(),
          what: `webhook ${one.status}`,
          detail: `${event.type} to ${encodeId('we', endpoint.id)}: ${encodeId('whd', one.id)}, attempt ${one.attempt}, ${answer}`,
        })
      }
    }
  }
  return happened
}

export const briefTimeline = defineUseCase({
  name: 'messages timeline',
  permission: 'messages.read',
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
