/** Opt-outs: recipients who get no `service` messages. The hub stores only their hashes. */
import { CommandOptOuts } from '@hub/store'
import { Effect, Schema } from 'effect'
import { refused } from './failures.ts'
import { RecipientHash, Timestamp } from './fields.ts'
import { CursorTime, decodeCursor, listOf, pageFields, pageOf } from './pages.ts'
import { query } from './sql.ts'
import { defineUseCase } from './use-case.ts'

/** `inbound`: a stop word. `operator`: hub staff. `import`: a list of numbers. */
export const SOURCES = ['inbound', 'operator', 'import'] as const

export const OptOut = Schema.Struct({
  recipient: RecipientHash,
  source: Schema.Literals(SOURCES),
  created_at: Timestamp,
  object: Schema.Literal('opt_out'),
})

/**
 * The key of a page, newest first: the time of the last opt-out, its recipient, and the number of all
 * opt-outs at the first page, so that the table is counted once for a list.
 */
const PageKey = Schema.Tuple([CursorTime, RecipientHash, Schema.Int])

/** Opt-outs, newest first. */
export const list = defineUseCase({
  name: 'opt-outs list',
  permission: 'opt_outs.read',
  input: Schema.Struct({
    source: Schema.NullOr(Schema.Literals(SOURCES)),
    /** Only opt-outs since this time. */
    since: Schema.NullOr(Timestamp),
    ...pageFields,
  }),
  output: Schema.Struct({
    ...listOf(OptOut).fields,
    total: Schema.Int.annotate({
      description: 'All opt-outs at the first page, also those that the filter leaves out.',
    }),
  }),
  audit: null,
  run: Effect.fnUntraced(function* ({ cursor, limit, since, source }) {
    const key = yield* decodeCursor(PageKey, cursor)
    const before = key === null ? null : { created_at: new Date(key[0]), recipient: key[1] }
    const filter = { source, since: since === null ? null : new Date(since), before, limit: limit + 1 }
    const rows = yield* query((q) => CommandOptOuts.readNewest(q, filter))
    const total = key === null ? yield* query(CommandOptOuts.count) : key[2]
    const page = pageOf(
      rows,
      limit,
      (row) => ({ ...row, created_at: row.created_at.toISOString(), object: 'opt_out' as const }),
      ({ created_at, recipient }) => [created_at.getTime(), recipient, total],
    )
    return { ...page, total }
  }),
})

/** Records an opt-out at the request of the recipient. */
export const add = defineUseCase({
  name: 'opt-outs add',
  permission: 'opt_outs.change',
  input: Schema.Struct({ recipient: RecipientHash }),
  output: Schema.Struct({
    recipient: RecipientHash,
    object: Schema.Literal('opt_out'),
    opted_out: Schema.Literal(true),
    /** False: the recipient was opted out before. */
    added: Schema.Boolean,
  }),
  audit: ({ recipient }) => ({ recipient }),
  result: ({ added }) => ({ added: added ? 1 : 0 }),
  run: ({ recipient }, { name }) =>
    Effect.map(
      query((q) => CommandOptOuts.insert(q, [recipient], 'operator', name)),
      (count) => ({ recipient, object: 'opt_out' as const, opted_out: true as const, added: count > 0 }),
    ),
})

/** Lifts an opt-out at the request of the recipient. Its record stays. */
export const lift = defineUseCase({
  name: 'opt-outs lift',
  permission: 'opt_outs.change',
  input: Schema.Struct({ recipient: RecipientHash }),
  output: Schema.Struct({
    recipient: RecipientHash,
    object: Schema.Literal('opt_out'),
    opted_out: Schema.Literal(false),
  }),
  audit: ({ recipient }) => ({ recipient }),
  run: Effect.fnUntraced(function* ({ recipient }, { name }) {
    if ((yield* query((q) => CommandOptOuts.read(q, recipient))) === null) {
      return yield* refused('not_opted_out', 'The number is not opted out. Nothing was changed.', 'recipient')
    }
    yield* query((q) => CommandOptOuts.lift(q, recipient, name))
    return { recipient, object: 'opt_out' as const, opted_out: false as const }
  }),
})

/** Rows per statement. */
const IMPORT_BATCH = 5000

/** Records an opt-out for each recipient of a list. After a failure, those imported so far stay. */
export const importList = defineUseCase({
  name: 'opt-outs import',
  permission: 'opt_outs.change',
  input: Schema.Struct({
    recipients: Schema.Array(RecipientHash),
    /** Lines of the list without a valid number, for the audit trail. */
    bad_lines: Schema.Int,
  }),
  output: Schema.Struct({
    object: Schema.Literal('opt_out_import'),
    numbers: Schema.Int,
    added: Schema.Int,
    /** Recipients who were opted out before. */
    known: Schema.Int,
    bad_lines: Schema.Int,
  }),
  audit: ({ bad_lines, recipients }) => ({ numbers: recipients.length, bad_lines }),
  result: ({ added }) => ({ added }),
  run: Effect.fnUntraced(function* ({ bad_lines, recipients }, { name }) {
    let added = 0
    for (let from = 0; from < recipients.length; from += IMPORT_BATCH) {
      const batch = recipients.slice(from, from + IMPORT_BATCH)
      added += yield* query((q) => CommandOptOuts.insert(q, batch, 'import', name))
    }
    const numbers = recipients.length
    return { object: 'opt_out_import' as const, numbers, added, known: numbers - added, bad_lines }
  }),
})
