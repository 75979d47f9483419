/** `read.message_history`: one row for each change of a message's status. */
import { toTimestamp } from '@hub/domain'
import { type Queries, sqlArray } from '@hub/store'
import type { HistoryLine } from '../messages/fold.ts'
import { messageUuid, type ReadSchema, tableIn } from './read-schema.ts'

export const writeHistory = (q: Queries, lines: ReadonlyArray<HistoryLine>, schema: ReadSchema = 'read') => q`
  INSERT INTO ${tableIn(q, schema, 'message_history')} (message_id, fact_id, status, reason_code, at)
  SELECT * FROM unnest(${sqlArray(lines.map((l) => messageUuid(l.messageId)))}::uuid[], ${sqlArray(lines.map((l) => l.factId))}::uuid[],
                       ${sqlArray(lines.map((l) => l.status))}::text[], ${sqlArray(lines.map((l) => l.reason))}::text[],
                       ${sqlArray(lines.map((l) => toTimestamp(l.at)))}::timestamptz[])
  ON CONFLICT DO NOTHING`
