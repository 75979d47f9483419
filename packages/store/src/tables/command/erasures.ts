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

/**
 * A condition: whether personal data of that moment may be shown to anybody: the number, the texts, and what an
 * operator wrote about the message. They are shown for a year, and not after an erasure, also where an encrypted
 * copy can still be read. Everything that decrypts to show asks this. The arguments are those of `isErased`.
 * Source of the year: RET-1.
 */
export const mayShow = (q: Queries, recipient: string, createdAt: string): SqlFragment => q`
  (${q(createdAt)} > now() - interval '1 year' AND NOT ${isErased(q, recipient, createdAt)})`
