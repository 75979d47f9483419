/**
 * `command.erasures`: requests to erase a recipient's data. Owner: `erasure.ts` of this package.
 */
import type { Queries } from '../../pool.ts'
import type { SqlFragment } from '../../sql.ts'

/**
 * A condition: whether an erasure of the recipient includes messages of that moment. The arguments
 * are columns of the surrounding statement: a recipient hash (`bytea`) and a time of acceptance.
 */
export const isErased = (q: Queries, recipient: string, createdAt: string): SqlFragment => q`
  EXISTS (SELECT 1 FROM command.erasures e WHERE e.recipient = ${q(recipient)}::bytea AND e.before > ${q(createdAt)})`
