/**
 * Templates: creation and reading. Hub staff moderates them. Source: specification, Endpoints;
 * contract, Templates and senders.
 */
import { type ApiError, apiError, type Page, type Template, type TemplateToCreate } from '@hub/contract'
import { decodeId, encodeId, newTemplateStatus, toTimestamp } from '@hub/domain'
import {
  insertTemplate,
  type Queries,
  Sql,
  type StorageError,
  type StoredTemplate,
  TEMPLATE_SENDER_FOREIGN_KEY,
  uuidOf,
} from '@hub/store'
import { Clock, Context, Duration, Effect, Layer } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { MakeId } from '../ids/ids.ts'
import { type ResourcePage, toResourcePage } from '../paging/page.ts'

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

const columns = (q: Queries) => q`id, mode, name, class, sender, body, language, status, reason, created_at`

export class Templates extends Context.Service<
  Templates,
  {
    /**
     * In test mode the template is approved at once, else pending. Fails with `duplicate_rejected`, and
     * with `sender_not_registered` for an unknown sender; a pending sender is allowed.
     */
    readonly create: (
      owner: Owner,
      wanted: TemplateToCreate,
    ) => Effect.Effect<Template, ApiError | StorageError>
    readonly read: (owner: Owner, id: string) => Effect.Effect<Template | null, StorageError>
    /** Newest first; `null` when `startingAfter` names no template of the owner. */
    readonly page: (owner: Owner, page: Page) => Effect.Effect<ResourcePage<Template> | null, StorageError>
  }
>()('@hub/command-api/Templates') {
  static readonly layer = (makeTemplateId: MakeId): Layer.Layer<Templates, never, Sql> =>
    Layer.effect(
      Templates,
      Effect.gen(function* () {
        const sql = yield* Sql

        const find = Effect.fnUntraced(function* (owner: Owner, id: string) {
          const uuid = decodeId('tpl', id)
          if (uuid === null) return null
          const [row] = yield* sql.run(
            (q) => q<StoredTemplate[]>`
              SELECT ${columns(q)} FROM command.templates
               WHERE id = ${uuid} AND account = ${owner.accountUuid} AND mode = ${owner.mode}`,
            DEADLINE,
          )
          return row ?? null
        })

        return {
          create: Effect.fnUntraced(function* (owner, { body, class: messageClass, language, name, sender }) {
            const uuid = uuidOf('tpl', makeTemplateId(yield* Clock.currentTimeMillis))
            const row = yield* sql
              .run(
                (q) =>
                  insertTemplate(q, {
                    id: uuid,
                    account: owner.accountUuid,
                    mode: owner.mode,
                    name,
                    class: messageClass,
                    sender,
                    body,
                    language,
                    status: newTemplateStatus(owner.mode),
                  }),
                DEADLINE,
              )
              .pipe(
                Effect.catchTag('StorageRejected', (error) =>
                  Effect.fail(
                    error.constraint === TEMPLATE_SENDER_FOREIGN_KEY
                      ? apiError('sender_not_registered', { param: 'sender' })
                      : error,
                  ),
                ),
              )
            return row === null ? yield* apiError('duplicate_rejected') : templateBody(row)
          }),

          read: (owner, id) =>
            Effect.map(find(owner, id), (row) => (row === null ? null : templateBody(row))),

          page: Effect.fnUntraced(function* (owner, { limit, startingAfter }) {
            const after = startingAfter === null ? null : yield* find(owner, startingAfter)
            if (startingAfter !== null && after === null) return null
            const rows = yield* sql.run(
              (q) => q<StoredTemplate[]>`
                SELECT ${columns(q)} FROM command.templates
                 WHERE account = ${owner.accountUuid} AND mode = ${owner.mode}
                   ${after === null ? q`` : q`AND (created_at, id) < (${after.created_at}, ${after.id})`}
                 ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}`,
              DEADLINE,
            )
            return toResourcePage(rows, limit, templateBody)
          }),
        }
      }),
    )
}
