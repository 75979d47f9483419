/** `KnownMessages` over PostgreSQL. */
import { decodeId, encodeId, type MessageClass, type ReasonCode, type Status } from '@hub/domain'
import { Sql } from '@hub/store'
import { Effect, Layer } from 'effect'
import type { KnownMessage } from '../shard/message.ts'
import { KnownMessages, type ReportQuestion } from './port.ts'

/** The projection that writes `read.messages`. */
const PROJECTION = 'messages'

const pairKey = (operator: string, operatorId: string) => `${operator}\n${operatorId}`

/** `logTopic`: the log, whose facts the projector must have applied for an answer to count. */
export const knownMessagesPostgres = (logTopic: string): Layer.Layer<KnownMessages, never, Sql> =>
  Layer.effect(
    KnownMessages,
    Effect.gen(function* () {
      const sql = yield* Sql

      /** The message (UUID) of each question, by our reference or by the operator's id. */
      const messageIds = Effect.fnUntraced(function* (questions: ReadonlyArray<ReportQuestion>) {
        const direct = questions.map(({ reference }) =>
          reference === null ? null : decodeId('msg', reference),
        )
        const open = questions.filter((_, i) => direct[i] === null)
        const byPair = new Map<string, string>()
        if (open.length > 0) {
          const rows = yield* sql.run(
            (q) => q<{ operator: string; operator_id: string; message_id: string }[]>`
              SELECT operator, operator_id, message_id
              FROM read.operator_ids
              JOIN unnest(${open.map(({ operator }) => operator)}::text[],
                          ${open.map(({ operatorId }) => operatorId)}::text[]) AS asked (operator, operator_id)
                USING (operator, operator_id)
              ORDER BY sent_at`,
          )
          // An operator may use an id again after days: the last message that had it is meant.
          for (const row of rows) byPair.set(pairKey(row.operator, row.operator_id), row.message_id)
        }
        return questions.map(
          ({ operator, operatorId }, i) => direct[i] ?? byPair.get(pairKey(operator, operatorId)) ?? null,
        )
      })

      return {
        handedOver: (questions) =>
          Effect.gen(function* () {
            // The checkpoints first: what is read of the messages afterwards is at least as new.
            const checkpoints = yield* sql.run(
              (q) => q<{ topic: string; partition: number; position: string }[]>`
                SELECT topic, partition, position FROM read.checkpoints WHERE projection = ${PROJECTION}`,
            )
            const positions = new Map(
              checkpoints.map(({ partition, position, topic }) => [
                `${topic}:${partition}`,
                Number(position),
              ]),
            )
            const passed = questions.map(
              ({ laneOffset, laneTopic, logOffset, shard }) =>
                (positions.get(`${laneTopic}:${shard}`) ?? 0) > laneOffset &&
                (logOffset === 0 || (positions.get(`${logTopic}:${shard}`) ?? 0) >= logOffset),
            )
            const ids = questions.flatMap(({ id }, i) => {
              const uuid = passed[i] === true ? decodeId('msg', id) : null
              return uuid === null ? [] : [uuid]
            })
            if (ids.length === 0) return questions.map(() => null)
            const rows = yield* sql.run(
              (q) => q<{ id: string }[]>`
                SELECT id FROM read.messages WHERE id = ANY (${ids}::uuid[]) AND status <> 'accepted'`,
            )
            const handedOver = new Set(rows.map(({ id }) => id))
            return questions.map(({ id }, i) =>
              passed[i] === true ? handedOver.has(decodeId('msg', id) ?? '') : null,
            )
          }),

        reportedOn: (questions) =>
          Effect.gen(function* () {
            const ids = yield* messageIds(questions)
            const wanted = [...new Set(ids.flatMap((id) => (id === null ? [] : [id])))]
            if (wanted.length === 0) return questions.map(() => null)
            const rows = yield* sql.run(
              (q) => q<
                {
                  id: string
                  recipient: Buffer | null
                  class: MessageClass | null
                  status: Status
                  reason_code: ReasonCode | null
                  attempts: number
                  seen: boolean
                  operator: string | null
                  operator_ids: Array<string> | null
                }[]
              >`
                SELECT m.id, m.recipient, m.class, m.status, m.reason_code, m.attempts, m.seen,
                       max(o.operator) AS operator,
                       array_agg(o.operator_id) FILTER (WHERE o.operator_id IS NOT NULL) AS operator_ids
                FROM read.messages m LEFT JOIN read.operator_ids o ON o.message_id = m.id
                WHERE m.id = ANY (${wanted}::uuid[])
                GROUP BY m.id`,
            )
            const known = new Map(rows.map((row) => [row.id, row]))
            return questions.map(({ operator, operatorId }, i): KnownMessage | null => {
              const row = known.get(ids[i] ?? '')
              if (row === undefined || row.recipient === null || row.class === null) return null
              return {
                id: encodeId('msg', row.id),
                recipient: row.recipient.toString('hex'),
                class: row.class,
                status: row.status,
                reason: row.reason_code,
                attempts: row.attempts,
                seen: row.seen,
                operator: row.operator ?? operator,
                operatorIds: row.operator_ids ?? [operatorId],
              }
            })
          }),

        recipients: (questions) =>
          Effect.gen(function* () {
            const ids = yield* messageIds(questions)
            const wanted = [...new Set(ids.flatMap((id) => (id === null ? [] : [id])))]
            if (wanted.length === 0) return questions.map(() => null)
            const rows = yield* sql.run(
              (q) => q<{ id: string; recipient: Buffer }[]>`
                SELECT message_id AS id, recipient FROM command.acceptances WHERE message_id = ANY (${wanted}::uuid[])
                UNION ALL
                SELECT id, recipient FROM read.messages
                WHERE id = ANY (${wanted}::uuid[]) AND recipient IS NOT NULL`,
            )
            const recipients = new Map(rows.map(({ id, recipient }) => [id, recipient.toString('hex')]))
            return ids.map((id) => (id === null ? null : (recipients.get(id) ?? null)))
          }),
      }
    }),
  )
