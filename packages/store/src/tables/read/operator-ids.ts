/** `read.operator_ids`: the ids of messages and their parts at operators. Owner: projector. */
import type { Queries } from '../../pool.ts'

/** The newest messages with one operator id that are examined: operators reuse ids. */
const SHARED_IDS = 100

interface OperatorIdQuestion {
  readonly operator: string
  readonly operatorId: string
  /** The recipient hash, or `null` if it is unknown. */
  readonly recipient: string | null
}

interface OperatorIdMatch {
  readonly operator: string
  readonly operator_id: string
  /** The recipient of the question. */
  readonly recipient: string | null
  /** UUID. */
  readonly message_id: string
}

/** The messages with these operator ids. With a recipient, only messages to this recipient match. Oldest first. */
export const findMessages = async (
  q: Queries,
  questions: ReadonlyArray<OperatorIdQuestion>,
): Promise<ReadonlyArray<OperatorIdMatch>> =>
  q<OperatorIdMatch[]>`
    SELECT ids.operator, ids.operator_id, asked.recipient, ids.message_id
    FROM unnest(${questions.map(({ operator }) => operator)}::text[],
                ${questions.map(({ operatorId }) => operatorId)}::text[],
                ${questions.map(({ recipient }) => recipient)}::text[])
      AS asked (operator, operator_id, recipient)
    CROSS JOIN LATERAL (
      SELECT * FROM read.operator_ids
      WHERE operator = asked.operator AND operator_id = asked.operator_id
      ORDER BY sent_at DESC LIMIT ${SHARED_IDS}) AS ids
    CROSS JOIN LATERAL (SELECT recipient FROM read.messages WHERE id = ids.message_id LIMIT 1) AS messages
    WHERE asked.recipient IS NULL OR messages.recipient = decode(asked.recipient, 'hex')
    ORDER BY ids.sent_at`
