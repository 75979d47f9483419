/** `hubctl opt-outs`: numbers that get no service messages. The hub keeps their hashes, so that numbers go in and never come out. */
import { isRecipientNumber, type OptOut } from '@hub/domain'
import { type Queries, Sql } from '@hub/store'
import { Effect, Option } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { readFile } from 'node:fs/promises'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database } from '../command-line/connections.ts'
import { usageError, refused, unavailable } from '../command-line/failure.ts'
import { fields, show, table } from '../command-line/output.ts'
import {
  hashOfNumber,
  limitFlag,
  timestampFlag,
  numberArgument,
  numberHasher,
  standardInput,
} from '../command-line/arguments.ts'

const SOURCES = ['inbound', 'operator', 'import'] as const satisfies ReadonlyArray<OptOut['source']>

interface Row {
  readonly recipient: string
  readonly source: OptOut['source']
  readonly created_at: Date
}

/** Records opt-outs that are not there yet, and answers how many that were. */
const record = async (
  q: Queries,
  recipients: ReadonlyArray<string>,
  source: OptOut['source'],
): Promise<number> => {
  const added = await q`
    INSERT INTO command.opt_outs (recipient, source)
    SELECT decode(r, 'hex'), ${source} FROM unnest(${[...recipients]}::text[]) AS r
    ON CONFLICT (recipient) DO NOTHING`
  return added.count
}

const find = Effect.fnUntraced(function* (recipient: string) {
  const sql = yield* Sql
  const [row] = yield* sql.run(
    (q) => q<Row[]>`
      SELECT encode(recipient, 'hex') AS recipient, source, created_at FROM command.opt_outs
       WHERE recipient = decode(${recipient}, 'hex')`,
  )
  return row ?? null
})

const optOutObject = (row: Row) => ({ ...row, object: 'opt_out', created_at: row.created_at.toISOString() })

const IN_FORCE = 'Every send that is checked from now on sees it.'

const list = defineCommand(
  'list',
  {
    short: 'Opt-outs, by the hash of their number',
    about:
      'Lists opt-outs, newest first. An opt-out belongs to a number, whichever account writes to it; the hub keeps the hash of the number and cannot show the number.',
    changes: NOTHING,
    examples: [{ command: 'hubctl opt-outs list --source inbound --since 2026-11-01' }],
    needs: database,
  },
  {
    source: Flag.Literals('source', SOURCES).pipe(
      Flag.withDescription('inbound: by a stop word; operator: by hubctl opt-outs add; import: by a list'),
      Flag.optional,
    ),
    since: timestampFlag('since', 'Only what was recorded since then').pipe(Flag.optional),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ limit, since, source }) {
    const sql = yield* Sql
    const by = Option.getOrNull(source)
    const from = Option.match(since, { onNone: () => null, onSome: (at) => new Date(at) })
    const [rows, [total]] = yield* Effect.all([
      sql.run(
        (q) => q<Row[]>`
          SELECT encode(recipient, 'hex') AS recipient, source, created_at FROM command.opt_outs
           WHERE (${by}::text IS NULL OR source = ${by}) AND (${from}::timestamptz IS NULL OR created_at >= ${from})
           ORDER BY created_at DESC, recipient LIMIT ${limit}`,
      ),
      sql.run((q) => q<{ count: number }[]>`SELECT count(*)::integer AS count FROM command.opt_outs`),
    ])
    const data = rows.map(optOutObject)
    yield* show({ object: 'list', data, total: total?.count ?? 0 }, (value) =>
      [
        table(data, {
          recipient: (row) => row.recipient,
          source: (row) => row.source,
          recorded: (row) => row.created_at,
        }),
        '',
        `${value.total} opt-outs in all.`,
      ].join('\n'),
    )
  }),
)

const check = defineCommand(
  'check',
  {
    short: 'Whether a number is opted out',
    about: 'Says whether a number is opted out, since when and how that came.',
    changes: 'Nothing but the audit trail, since it is about a person.',
    examples: [
      { command: 'hubctl opt-outs check +79000000013' },
      { command: 'hubctl opt-outs check -', description: 'Type the number, then Ctrl-D' },
    ],
    needs: database,
  },
  { number: numberArgument },
  Effect.fnUntraced(function* ({ number }) {
    const recipient = yield* hashOfNumber(number)
    const found = yield* audited(
      { command: 'opt-outs check', arguments: { recipient } },
      find(recipient),
      (row) => ({ opted_out: row !== null }),
    )
    yield* show(
      {
        recipient,
        object: 'opt_out_check',
        opted_out: found !== null,
        opt_out: found === null ? null : optOutObject(found),
      },
      (value) =>
        fields({
          recipient,
          'opted out': value.opted_out,
          ...(value.opt_out === null
            ? {}
            : { source: value.opt_out.source, recorded: value.opt_out.created_at }),
        }),
    )
  }),
)

const add = defineCommand(
  'add',
  {
    short: 'Opt a number out',
    about:
      'Records an opt-out at a person’s wish: the number gets no messages of class service any more, of any account. Codes (otp) are not concerned.',
    changes: `An opt-out. ${IN_FORCE} Messages that were accepted before are sent. START in an inbound message lifts it, as does hubctl opt-outs lift.`,
    examples: [
      { command: 'hubctl opt-outs add +79001234567' },
      { command: 'hubctl opt-outs add -', description: 'Type the number, then Ctrl-D' },
    ],
    needs: database,
  },
  { number: numberArgument },
  Effect.fnUntraced(function* ({ number }) {
    const sql = yield* Sql
    const recipient = yield* hashOfNumber(number)
    const added = yield* audited(
      { command: 'opt-outs add', arguments: { recipient } },
      sql.run((q) => record(q, [recipient], 'operator')),
      (count) => ({ added: count }),
    )
    yield* show({ recipient, object: 'opt_out', opted_out: true, added: added > 0 }, (value) =>
      fields({ recipient, 'opted out': value.added ? 'now' : 'before already; nothing was changed' }),
    )
  }),
)

const lift = defineCommand(
  'lift',
  {
    short: 'Let a number have service messages again',
    about:
      'Lifts the opt-out of a number. Only at the wish of the person whose number it is: an opt-out is kept for good otherwise, also when everything else about them is erased.',
    changes: `The opt-out is gone. ${IN_FORCE}`,
    examples: [{ command: 'hubctl opt-outs lift +79001234567' }],
    needs: database,
  },
  { number: numberArgument },
  Effect.fnUntraced(function* ({ number }) {
    const sql = yield* Sql
    const recipient = yield* hashOfNumber(number)
    if ((yield* find(recipient)) === null) {
      return yield* refused('not_opted_out', 'The number is not opted out. Nothing was changed.')
    }
    yield* confirm('Let the number have service messages again? It must be the wish of its owner.')
    yield* audited(
      { command: 'opt-outs lift', arguments: { recipient } },
      sql.run((q) => q`DELETE FROM command.opt_outs WHERE recipient = decode(${recipient}, 'hex')`),
    )
    yield* show({ recipient, object: 'opt_out', opted_out: false }, () =>
      fields({ recipient, 'opted out': false }),
    )
  }),
)

/** Some two million numbers. */
const IMPORT_MOST_BYTES = 32 * 1024 * 1024
/** Rows of one statement. */
const IMPORT_AT_ONCE = 5000
/** Lines that are named where a list is refused. */
const LINES_NAMED = 20

interface ParsedList {
  readonly numbers: ReadonlyArray<string>
  /** Lines that hold no number, counted from 1. */
  readonly bad: ReadonlyArray<number>
}

/**
 * Numbers of a CSV file or a plain list: the first field of each line, in quotes or not, separated by comma, semicolon or tab. Empty lines are passed
 * over, and so is a first line without digits, which names the columns.
 */
export const parseList = (text: string): ParsedList => {
  const numbers = new Set<string>()
  const bad: Array<number> = []
  for (const [index, line] of text
    .replace(/^\uFEFF/u, '')
    .split(/\r\n|\n|\r/u)
    .entries()) {
    if (line.trim() === '') continue
    const field = (line.split(/[,;\t]/u, 1)[0] ?? '').trim().replace(/^"(.*)"$/u, '$1')
    if (isRecipientNumber(field)) numbers.add(field)
    else if (index > 0 || /\d/u.test(line)) bad.push(index + 1)
  }
  return { numbers: [...numbers], bad }
}

const readList = Effect.fnUntraced(function* (path: string) {
  if (path === '-') return yield* standardInput(IMPORT_MOST_BYTES)
  return yield* Effect.tryPromise({
    try: () => readFile(path, 'utf8'),
    catch: (error) =>
      unavailable(
        'file_unreadable',
        `${path} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`,
      ),
  })
})

const imported = defineCommand(
  'import',
  {
    short: 'Opt out a list of numbers',
    about:
      'Records an opt-out for each number of a file or of standard input: one a line, or the first column of a CSV. Numbers are +79 and nine digits; a line that holds something else ' +
      'refuses the whole list, unless --skip-bad-lines says to leave it out. Importing the same list again changes nothing.',
    changes: `Opt-outs, as many as there are numbers that had none. ${IN_FORCE} What was imported before a failure stays: import the list again.`,
    examples: [
      { command: 'hubctl opt-outs import stop-list.csv' },
      { command: 'gpg -d stop-list.csv.gpg | hubctl opt-outs import - --yes' },
    ],
    needs: database,
  },
  {
    file: Argument.String('file').pipe(Argument.withDescription('A file, or - for standard input')),
    skipBadLines: Flag.Boolean('skip-bad-lines').pipe(
      Flag.withDescription('Leave out lines that hold no number, and say how many those were'),
      Flag.withDefault(false),
    ),
  },
  Effect.fnUntraced(function* ({ file, skipBadLines }) {
    const sql = yield* Sql
    const { bad, numbers } = parseList(yield* readList(file))
    if (bad.length > 0 && !skipBadLines) {
      const named = bad.slice(0, LINES_NAMED).join(', ')
      return yield* usageError(
        `${bad.length} lines hold no number: ${named}${bad.length > LINES_NAMED ? ', …' : ''}. Nothing was imported; --skip-bad-lines leaves them out.`,
      )
    }
    if (numbers.length === 0) return yield* usageError('The list holds no number.')
    const hashOf = yield* numberHasher
    yield* confirm(`Opt out ${numbers.length} numbers?`)
    const added = yield* audited(
      { command: 'opt-outs import', arguments: { numbers: numbers.length, bad_lines: bad.length } },
      Effect.gen(function* () {
        let count = 0
        for (let from = 0; from < numbers.length; from += IMPORT_AT_ONCE) {
          const recipients = numbers.slice(from, from + IMPORT_AT_ONCE).map(hashOf)
          count += yield* sql.run((q) => record(q, recipients, 'import'))
        }
        return count
      }),
      (count) => ({ added: count }),
    )
    yield* show(
      {
        object: 'opt_out_import',
        numbers: numbers.length,
        added,
        known: numbers.length - added,
        bad_lines: bad.length,
      },
      (value) =>
        fields({
          numbers: value.numbers,
          added: value.added,
          'opted out before': value.known,
          'lines left out': value.bad_lines,
        }),
    )
  }),
)

export const optOuts = defineGroup(
  'opt-outs',
  {
    short: 'Opt-outs: add, lift, import, check',
    about:
      'A number that is opted out gets no messages of class service, whichever account sends. Recipients opt out themselves by a stop word; the people who run the hub do it here at their wish.',
  },
  [list, check, add, lift, imported],
)
