/** `KnownMessages` over PostgreSQL. */
import { decodeId, encodeId, type MessageClass, type ReasonCode, type Status } from '@hub/domain'
import { topicNames } from '@hub/kafka'
import { ReadCheckpoints, Sql } from '@hub/store'
import { Effect, Layer } from 'effect'
import type { KnownMessage } from '../shard/message.ts'
import { KnownMessages, type ReportQuestion } from './known-messages.port.ts'

/** Messages that an operator has given the same id, within the months that ids are kept: those of the newest are looked at. */
const SHARED_IDS = 100

const pairKey = ({ operator, operatorId, recipient }: Omit<ReportQuestion, 'reference'>) =>
  `${operator}\n${operatorId}\n${recipient ?? ''}`

/** Checkpoints name topics without the deployment's prefix. */
const TOPICS = topicNames()
const LANES = [TOPICS.acceptedOtp, TOPICS.acceptedService]
const LOG = TOPICS.messages

export const knownMessagesPostgres: Layer.Layer<KnownMessages, never, Sql> = Layer.effect(
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
          (q) => q<{ operator: string; operator_id: string; recipient: string | null; message_id: string }[]>`
              SELECT ids.operator, ids.operator_id, asked.recipient, ids.message_id
              FROM unnest(${open.map(({ operator }) => operator)}::text[],
                          ${open.map(({ operatorId }) => operatorId)}::text[],
                          ${open.map(({ recipient }) => recipient)}::text[])
                AS asked (operator, operator_id, recipient)
              CROSS JOIN LATERAL (
                SELECT * FROM read.operator_ids
                WHERE operator = asked.operator AND operator_id = asked.operator_id
                ORDER BY sent_at DESC LIMIT ${SHARED_IDS}) AS ids
              CROSS JOIN LATERAL (SELECT recipient FROM read.messages WHERE id = ids.message_id LIMIT 1) AS messages
              WHERE asked.recipient IS NULL OR messages.recipient = decode(asked.recipient, 'hex')
              ORDER BY ids.sent_at`,
        )
        // An operator may use an id again after days: the last message that had it is meant.
        for (const row of rows) {
          byPair.set(
            pairKey({ operator: row.operator, operatorId: row.operator_id, recipient: row.recipient }),
            row.message_id,
          )
        }
      }
      return questions.map((question, i) => direct[i] ?? byPair.get(pairKey(question)) ?? null)
    })

    /**
     * How far the projector has come: the next offset it would apply. To be asked before the messages, so that what is read of
     * them is at least as new.
     */
    const projected = Effect.map(sql.run(ReadCheckpoints.readPositions), (checkpoints) => {
      const positions = new Map(
        checkpoints.map(({ partition, position, topic }) => [`${topic}:${partition}`, position]),
      )
      return (topic: string, partition: number) => positions.get(`${topic}:${partition}`) ?? 0
    })

    return {
      handedOver: (questions) =>
        Effect.gen(function* () {
          const position = yield* projected
          const passed = questions.map(
            ({ lane, laneOffset, logOffset, shard }) =>
              position(LANES[lane] ?? '', shard) > laneOffset && position(LOG, shard) >= logOffset,
          )
          const ids = questions.flatMap(({ id }, i) => {
            const uuid = passed[i] === true ? decodeId('msg', id) : null
            return uuid === null ? [] : [uuid]
          })
          if (ids.length === 0) return questions.map(() => null)
          const rows = yield* sql.run(
            (q) => q<{ id: string }[]>`
                SELECT m.id FROM unnest(${ids}::uuid[]) AS asked (id)
                CROSS JOIN LATERAL (SELECT id, status FROM read.messages WHERE id = asked.id LIMIT 1) AS m
                WHERE m.status <> 'accepted'`,
          )
          const handedOver = new Set(rows.map(({ id }) => id))
          return questions.map(({ id }, i) =>
            passed[i] === true ? handedOver.has(decodeId('msg', id) ?? '') : null,
          )
        }),

      reportedOn: (questions) =>
        Effect.gen(function* () {
          const position = yield* projected
          const asked = questions.filter(({ logOffset, shard }) => position(LOG, shard) >= logOffset)
          if (asked.length === 0) return questions.map(() => null)
          const ids = new Map((yield* messageIds(asked)).map((id, i) => [asked[i]!, id]))
          const wanted = [...new Set([...ids.values()].flatMap((id) => (id === null ? [] : [id])))]
          if (wanted.length === 0) return questions.map((question) => (ids.has(question) ? 'nobody' : null))
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
                SELECT m.id, m.recipient, m.class, m.status, m.reason_code, m.attempts, m.seen, o.operator, o.operator_ids
                FROM unnest(${wanted}::uuid[]) AS asked (id)
                CROSS JOIN LATERAL (SELECT * FROM read.messages WHERE id = asked.id LIMIT 1) AS m
                CROSS JOIN LATERAL (
                  SELECT max(operator) AS operator, array_agg(operator_id) AS operator_ids
                  FROM read.operator_ids WHERE message_id = asked.id) AS o`,
          )
          const known = new Map(rows.map((row) => [row.id, row]))
          return questions.map((question): KnownMessage | 'nobody' | null => {
            const { operator, operatorId, recipient } = question
            const id = ids.get(question)
            if (id === undefined) return null
            const row = known.get(id ?? '')
            if (row === undefined || row.recipient === null || row.class === null) return 'nobody'
            const hash = row.recipient.toString('hex')
            if (recipient !== null && recipient !== hash) return 'nobody'
            return {
              id: encodeId('msg', row.id),
              recipient: hash,
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
                SELECT m.id, m.recipient FROM unnest(${wanted}::uuid[]) AS asked (id)
                CROSS JOIN LATERAL (SELECT id, recipient FROM read.messages WHERE id = asked.id LIMIT 1) AS m
                WHERE m.recipient IS NOT NULL`,
          )
          const recipients = new Map(rows.map(({ id, recipient }) => [id, recipient.toString('hex')]))
          return ids.map((id) => (id === null ? null : (recipients.get(id) ?? null)))
        }),
    }
  }),
)
