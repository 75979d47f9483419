/**
 * `read.operator_ids`: the ids that operators gave to messages, by which late reports are matched.
 */
import { toTimestamp } from '@hub/domain'
import { type Queries, sqlArray } from '@hub/store'
import type { OperatorId } from '../messages/fold.ts'
import { messageUuid, type ReadSchema, tableIn } from './read-schema.ts'

export const writeOperatorIds = (
  q: Queries,
  ids: ReadonlyArray<OperatorId>,
  schema: ReadSchema = 'read',
) => q`
  INSERT INTO ${tableIn(q, schema, 'operator_ids')} (operator, operator_id, message_id, sent_at)
  SELECT * FROM unnest(${ids.map((i) => i.operator)}::text[], ${ids.map((i) => i.operatorId)}::text[],
                       ${sqlArray(ids.map((i) => messageUuid(i.messageId)))}::uuid[], ${sqlArray(ids.map((i) => toTimestamp(i.sentAt)))}::timestamptz[])
  ON CONFLICT DO NOTHING`
