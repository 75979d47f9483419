/**
 * Templates: creation and reading. Hub staff moderates them. Source: TPL-1 to TPL-13.
 */
import { apiError, type DeletedTemplate, type Template, type TemplateToCreate } from '@hub/contract'
import { decodeId, encodeId, newTemplateStatus, parseTemplate, toTimestamp } from '@hub/domain'
import { CommandTemplates, Sql, uuidOf } from '@hub/store'
import { Clock, Effect, Result } from 'effect'
import type { Owner } from '../accounts/account.ts'
import { STATEMENT_DEADLINE } from '../deadlines.ts'
import { freshId } from '../ids/ids.ts'
import { makeResourceReader } from '../paging/page.ts'

const templateBody = (row: Omit<CommandTemplates.StoredTemplate, 'account'>): Template => ({
  id: encodeId('tpl', row.id),
  object: 'template',
  name: row.name,
  class: row.class,
  sender: row.sender,
  body: row.body,
  // Creation validates the body, so only a row from another source has no placeholders here.
  placeholders: Result.match(parseTemplate(row.body), {
    onFailure: () => [],
    onSuccess: ({ names }) => [...names],
  }),
  language: row.language,
  status: row.status,
  reason: row.reason,
  created_at: toTimestamp(row.created_at.getTime()),
  mode: row.mode,
})

export const makeTemplates = Effect.gen(function* () {
  const sql = yield* Sql
  const reader = makeResourceReader(sql, {
    table: 'command.templates',
    superseded: 'command.superseded_templates',
    prefix: 'tpl',
    columns: (q) => q`id, mode, name, class, sender, body, language, status, reason, created_at`,
    toResource: templateBody,
  })
  return {
    /**
     * In test mode the template is approved at once, else pending. It supersedes a declined one of the
     * same name. Fails with `duplicate_rejected`, and with `sender_not_registered` for an unknown
     * sender; a pending sender is allowed.
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
        sql.run(
          async (q) =>
            (await CommandTemplates.insert(q, template)) ?? (await CommandTemplates.supersede(q, template)),
          STATEMENT_DEADLINE,
        ),
        'StorageRejected',
        (error) =>
          Effect.fail(
            error.constraint === CommandTemplates.SENDER_FOREIGN_KEY
              ? apiError('sender_not_registered', { param: 'sender' })
              : error,
          ),
      )
      return row === null ? yield* apiError('duplicate_rejected') : templateBody(row)
    }),
    /** Removes a template that is, or whose sender is, pending or declined. `null`: the owner has none with this public id. */
    remove: Effect.fnUntraced(function* (owner: Owner, id: string) {
      const uuid = decodeId('tpl', id)
      if (uuid === null) return null
      const template = { id: uuid, account: owner.accountUuid, mode: owner.mode }
      if (yield* sql.run((q) => CommandTemplates.removeUnusable(q, template), STATEMENT_DEADLINE)) {
        return { id, object: 'template', deleted: true } satisfies DeletedTemplate
      }
      return (yield* reader.read(owner, id)) === null ? null : yield* apiError('deletion_not_allowed')
    }),
    ...reader,
  }
})
