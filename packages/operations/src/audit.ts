/** The audit trail, for readers. `audit-trail.ts` writes it. */
import { Effect, Schema } from 'effect'
import { Timestamp } from './fields.ts'
import { decodeCursor, listOf, pageFields, pageOf } from './pages.ts'
import { query } from './sql.ts'
import { type AuditRow, readNewest } from './tables/audit.ts'
import { defineUseCase } from './use-case.ts'

const Facts = Schema.Record(Schema.String, Schema.Json)

/** One operation, with its outcome. */
export const AuditLine = Schema.Struct({
  at: Timestamp,
  /** A person, a job, or a process of the hub. */
  actor: Schema.String,
  actor_id: Schema.NullOr(Schema.String).annotate({
    description:
      'Who it was: issuer and subject of the identity provider, `hubctl|name`, or `link|name` of a login link. `null`: an earlier version recorded it, or a process of the hub did it.',
  }),
  /**
   * The role that allowed it. `null`: none did (`forbidden`), or it was recorded by a version without
   * roles, or by a process of the hub.
   */
  role: Schema.NullOr(Schema.String),
  command: Schema.String,
  arguments: Facts,
  /** Why the actor did it, where a reason is required. */
  reason: Schema.NullOr(Schema.String),
  /** `begun`: it is in progress, or its process died. */
  outcome: Schema.Literals(['begun', 'done', 'failed']),
  detail: Schema.NullOr(Facts),
  ended_at: Schema.NullOr(Timestamp),
})
export type AuditLine = typeof AuditLine.Type

/** The key of a page: the place of its last row. */
const PageKey = Schema.Int

const toValue = (row: AuditRow): AuditLine => ({
  at: row.at.toISOString(),
  actor: row.actor,
  actor_id: row.actor_id,
  role: row.role,
  command: row.command,
  arguments: row.arguments,
  reason: row.reason,
  outcome: row.outcome,
  detail: row.detail,
  ended_at: row.ended_at?.toISOString() ?? null,
})

/** Operations, newest first. */
export const list = defineUseCase({
  name: 'audit list',
  permission: 'audit.read',
  input: Schema.Struct({
    actor: Schema.NullOr(Schema.String),
    /** A command (`keys issue`) or all commands of a group (`keys`). */
    command: Schema.NullOr(Schema.String),
    ...pageFields,
  }),
  output: listOf(AuditLine),
  audit: null,
  run: Effect.fnUntraced(function* ({ actor, command, cursor, limit }) {
    const before = yield* decodeCursor(PageKey, cursor)
    const rows = yield* query((q) => readNewest(q, { actor, command, before, limit: limit + 1 }))
    return pageOf(rows, limit, toValue, ({ place }) => place)
  }),
})
