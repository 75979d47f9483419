/**
 * Templates: creation and reading. Hub staff moderates them. Source: specification, Endpoints;
 * contract, Templates and senders.
 */
import { apiError, type Template, type TemplateToCreate } from '@hub/contract'
import { encodeId, newTemplateStatus, toTimestamp } from '@hub/domain'
import { insertTemplate, Sql, type StoredTemplate, TEMPLATE_SENDER_FOREIGN_KEY, uuidOf } from '@hub/store'
import { Clock, Duration, Effect } from 'effect'
import type { Owner } from '../accounts/account.ts'
import { freshId } from '../ids/ids.ts'
import { makeResourceReader } from '../paging/page.ts'

const DEADLINE = { deadline: Duration.millis(1200) }

const templateBody = (row: StoredTemplate): Template => ({
  id: encodeId('tpl', row.id),
  object: 'template',
  name: row.name,
  class: row.class,
  sender: row.sender,
  body: row.body,
  language: row.language,
  status: row.status,
  reason: row.reason,
  created_at: toTimestamp(row.created_at.getTime()),
  mode: row.mode,
})

export const makeTemplates = Effect.gen(function* () {
  const sql = yield* Sql
  return {
    /**
     * In test mode the template is approved at once, else pending. Fails with `duplicate_rejected`, and
     * with `sender_not_registered` for an unknown sender; a pending sender is allowed.
     */
    create: Effect.fnUntraced(function* (owner: Owner, wanted: TemplateToCreate) {
      const template = {
        ...wanted,
        id: uuidOf('tpl', freshId('tpl', yield* Clock.currentTimeMillis)),
        account: owner.accountUuid,
        mode: owner.mode,
        status: newTemplateStatus(owner.mode),
      }
      const row = yield* Effect.catchTag(
        sql.run((q) => insertTemplate(q, template), DEADLINE),
        'StorageRejected',
        (error) =>
          Effect.fail(
            error.constraint === TEMPLATE_SENDER_FOREIGN_KEY
              ? apiError('sender_not_registered', { param: 'sender' })
              : error,
          ),
      )
      return row === null ? yield* apiError('duplicate_rejected') : templateBody(row)
    }),
    ...makeResourceReader(sql, {
      table: 'command.templates',
      prefix: 'tpl',
      columns: (q) => q`id, mode, name, class, sender, body, language, status, reason, created_at`,
      toResource: templateBody,
    }),
  }
})
