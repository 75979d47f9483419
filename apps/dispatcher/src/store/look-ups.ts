/** Look-ups in the read models, for messages that the dispatcher has forgotten or never had. */
import { decodeId, encodeId } from '@hub/domain'
import { topicNames } from '@hub/kafka'
import { CommandAcceptances, ReadCheckpoints, ReadMessages, ReadOperatorIds, type Sql } from '@hub/store'
import { Effect } from 'effect'
import type { ReadModelMessage } from '../shard/message.ts'
import type { DispatcherStoreShape, ReportQuestion } from './store.port.ts'

/** Checkpoints contain topics without the prefix of the deployment. */
const TOPICS = topicNames()
const LANES = [TOPICS.acceptedOtp, TOPICS.acceptedService]
const LOG = TOPICS.messages

const questionKey = ({ operator, operatorId, recipient }: Omit<ReportQuestion, 'reference'>) =>
  `${operator}\n${operatorId}\n${recipient ?? ''}`

const withoutNulls = (ids: Iterable<string | null>): ReadonlyArray<string> => [
  ...new Set([...ids].filter((id) => id !== null)),
]

const toReadModelMessage = (
  row: ReadMessages.MessageWithOperatorIds | undefined,
  { operator, operatorId, recipient }: ReportQuestion,
): ReadModelMessage | 'notFound' => {
  if (row === undefined || row.recipient === null || row.class === null) return 'notFound'
  const hash = row.recipient.toString('hex')
  if (recipient !== null && recipient !== hash) return 'notFound'
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
}

export const lookUpsIn = (
  sql: Sql['Service'],
): Pick<DispatcherStoreShape, 'sentOrFinal' | 'reportedOn' | 'recipients'> => {
  /** The message UUID of each question, by our reference or by the operator's id. */
  const messageIds = Effect.fnUntraced(function* (questions: ReadonlyArray<ReportQuestion>) {
    const referenced = questions.map(({ reference }) =>
      reference === null ? null : decodeId('msg', reference),
    )
    const others = questions.filter((_, i) => referenced[i] === null)
    const rows = others.length === 0 ? [] : yield* sql.run((q) => ReadOperatorIds.findMessages(q, others))
    // Operators reuse ids after days. The newest message with an id overwrites the others.
    const byOperatorId = new Map(
      rows.map((row) => [questionKey({ ...row, operatorId: row.operator_id }), row.message_id]),
    )
    return questions.map((question, i) => referenced[i] ?? byOperatorId.get(questionKey(question)) ?? null)
  })

  /** The next offset that the projector applies. Read it before the messages. */
  const projectedPositions = Effect.map(sql.run(ReadCheckpoints.readPositions), (checkpoints) => {
    const positions = new Map(
      checkpoints.map(({ partition, position, topic }) => [`${topic}:${partition}`, position]),
    )
    return (topic: string, partition: number) => positions.get(`${topic}:${partition}`) ?? 0
  })

  return {
    sentOrFinal: Effect.fnUntraced(function* (questions) {
      const position = yield* projectedPositions
      const isProjected = questions.map(
        ({ lane, laneOffset, logOffset, shard }) =>
          position(LANES[lane] ?? '', shard) > laneOffset && position(LOG, shard) >= logOffset,
      )
      const ids = questions.map(({ id }) => decodeId('msg', id))
      const wanted = withoutNulls(ids.filter((_, i) => isProjected[i]))
      if (wanted.length === 0) return ids.map(() => null)
      const sentOrFinal = yield* sql.run((q) => ReadMessages.readSentOrFinal(q, wanted))
      return ids.map((id, i) => (isProjected[i] === true ? sentOrFinal.has(id ?? '') : null))
    }),

    reportedOn: Effect.fnUntraced(function* (questions) {
      const position = yield* projectedPositions
      const asked = questions.filter(({ logOffset, shard }) => position(LOG, shard) >= logOffset)
      if (asked.length === 0) return questions.map(() => null)
      const ids = new Map((yield* messageIds(asked)).map((id, i) => [asked[i]!, id]))
      const wanted = withoutNulls(ids.values())
      const rows =
        wanted.length === 0 ? [] : yield* sql.run((q) => ReadMessages.readWithOperatorIds(q, wanted))
      const known = new Map(rows.map((row) => [row.id, row]))
      return questions.map((question) => {
        const id = ids.get(question)
        return id === undefined ? null : toReadModelMessage(known.get(id ?? ''), question)
      })
    }),

    recipients: Effect.fnUntraced(function* (questions) {
      const ids = yield* messageIds(questions)
      const wanted = withoutNulls(ids)
      if (wanted.length === 0) return ids.map(() => null)
      const rows = yield* sql.run(async (q) => [
        ...(await CommandAcceptances.readRecipients(q, wanted)),
        ...(await ReadMessages.readRecipients(q, wanted)),
      ])
      const recipients = new Map(rows.map(({ id, recipient }) => [id, recipient.toString('hex')]))
      return ids.map((id) => (id === null ? null : (recipients.get(id) ?? null)))
    }),
  }
}
