/**
 * Senders: the names that recipients see. Hub staff registers them with the operator. Source:
 * specification, Endpoints; contract, Templates and senders.
 */
import { apiError, type Sender, type SenderToCreate } from '@hub/contract'
import { encodeId, newSenderStatus, toTimestamp } from '@hub/domain'
import { insertSender, Sql, type StoredSender, uuidOf } from '@hub/store'
import { Clock, Duration, Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'
import { freshId } from '../ids/ids.ts'
import { makeResourceReader } from '../paging/page.ts'

const DEADLINE = { deadline: Duration.millis(1200) }

const senderBody = (row: StoredSender): Sender => ({
  id: encodeId('snd', row.id),
  object: 'sender',
  name: row.name,
  registration: row.registration,
  status: row.status,
  reason: row.reason,
  created_at: toTimestamp(row.created_at.getTime()),
  mode: row.mode,
})

export const makeSenders = Effect.gen(function* () {
  const sql = yield* Sql
  return {
    /** In test mode the sender is registered at once, else pending. Fails with `duplicate_rejected`. */
    create: Effect.fnUntraced(function* (owner: Owner, { name, registration }: SenderToCreate) {
      const sender = {
        id: uuidOf('snd', freshId('snd', yield* Clock.currentTimeMillis)),
        account: owner.accountUuid,
        mode: owner.mode,
        name,
        registration: registration === null ? null : JSON.stringify(registration),
        status: newSenderStatus(owner.mode),
      }
      const row = yield* sql.run((q) => insertSender(q, sender), DEADLINE)
      return row === null ? yield* apiError('duplicate_rejected') : senderBody(row)
    }),
    ...makeResourceReader(sql, {
      table: 'command.senders',
      prefix: 'snd',
      columns: (q) => q`id, mode, name, registration, status, reason, created_at`,
      toResource: senderBody,
    }),
  }
})
