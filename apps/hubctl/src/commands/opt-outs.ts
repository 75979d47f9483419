/**
 * `hubctl opt-outs`: recipients who get no `service` messages. The hub stores only their hashes.
 */
import { readFile } from 'node:fs/promises'
import {
  confirm,
  defineGroup,
  fields,
  NOTHING,
  show,
  table,
  unavailable,
  usageError,
} from '@hub/command-line'
import { isRecipientNumber, toTimestamp } from '@hub/domain'
import { OptOutHistory, OptOuts } from '@hub/operations'
import { Effect, Option } from 'effect'
import { Argument, Flag } from 'effect/cli'
import {
  choiceFlag,
  hashForOptOut,
  limitFlag,
  numberArgument,
  numberHasher,
  recipientOfNumber,
  readStandardInput,
  switchFlag,
  timestampFlag,
} from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

const TAKES_EFFECT = 'The next check of a send sees it.'
const EVENTS = 'The accounts that wrote to the number in the last 90 days get an event.'
const list = defineCommand(
  'list',
  {
    short: 'List opt-outs by recipient hash',
    about:
      'Lists opt-outs, newest first. An opt-out applies to all accounts. The hub stores the hash of the ' +
      'number, and cannot show the number.',
    changes: NOTHING,
    examples: [{ command: 'hubctl opt-outs list --source inbound --since 2026-11-01' }],
  },
  {
    source: choiceFlag(
      'source',
      OptOuts.SOURCES,
      'inbound: a stop word; operator: hubctl opt-outs add; import: a list of numbers',
    ),
    since: timestampFlag('since', 'Only opt-outs since this time').pipe(Flag.optional),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ limit, since, source }) {
    const { data, total } = yield* run(OptOuts.list, {
      source,
      since: Option.getOrNull(Option.map(since, toTimestamp)),
      limit,
      cursor: null,
    })
    yield* show({ object: 'list', data, total }, () =>
      [
        table(data, {
          recipient: (row) => row.recipient,
          source: (row) => row.source,
          recorded: (row) => row.created_at,
        }),
        '',
        `${total} opt-outs in total.`,
      ].join('\n'),
    )
  }),
)

const check = defineCommand(
  'check',
  {
    short: 'Check whether a number is opted out',
    about:
      'Shows whether a number is opted out, since when, and from which source, and the record of its ' +
      'opt-outs: each change, when, and by which word or by whom. The record is never deleted.',
    changes: 'Only the audit trail, because the command reads data of a person.',
    examples: [
      { command: 'hubctl opt-outs check +79000000013' },
      { command: 'hubctl opt-outs check -', description: 'Type the number, then Ctrl-D' },
    ],
  },
  { number: numberArgument },
  Effect.fnUntraced(function* ({ number }) {
    const checked = yield* run(OptOutHistory.check, { recipient: yield* recipientOfNumber(number) })
    yield* show(checked, ({ history, opt_out: optOut, opted_out, recipient }) =>
      [
        fields({
          recipient,
          'opted out': opted_out,
          ...(optOut === null ? {} : { source: optOut.source, recorded: optOut.created_at }),
        }),
        '',
        table(history, {
          at: (change) => change.at,
          change: (change) => change.change,
          source: (change) => change.source,
          word: (change) => change.word,
          by: (change) => change.actor,
        }),
      ].join('\n'),
    )
  }),
)

const add = defineCommand(
  'add',
  {
    short: 'Add an opt-out',
    about:
      'Records an opt-out at the request of a recipient: the number gets no messages of class service, ' +
      'from all accounts. One-time codes (otp) are not affected.',
    changes:
      `An opt-out. ${TAKES_EFFECT} Messages that are already accepted are sent. START in an inbound ` +
      `message lifts it, and so does hubctl opt-outs lift. ${EVENTS}`,
    examples: [
      { command: 'hubctl opt-outs add +79001234567' },
      { command: 'hubctl opt-outs add -', description: 'Type the number, then Ctrl-D' },
    ],
  },
  { number: numberArgument },
  Effect.fnUntraced(function* ({ number }) {
    const recipient = yield* hashForOptOut(number)
    yield* show(yield* run(OptOuts.add, { recipient }), ({ added }) =>
      fields({ recipient, 'opted out': added ? 'now' : 'already before; nothing was changed' }),
    )
  }),
)

const lift = defineCommand(
  'lift',
  {
    short: 'Lift an opt-out',
    about:
      'Lifts the opt-out of a number. Use it only at the request of the recipient: otherwise an ' +
      'opt-out is permanent, even after the erasure of the recipient. Its record stays, with the time ' +
      'and the name of who lifted it.',
    changes: `The number is not opted out any more. ${TAKES_EFFECT} ${EVENTS}`,
    examples: [{ command: 'hubctl opt-outs lift +79001234567' }],
  },
  { number: numberArgument },
  Effect.fnUntraced(function* ({ number }) {
    const recipient = yield* hashForOptOut(number)
    yield* confirm('Lift the opt-out? The recipient must have requested it.')
    const lifted = yield* run(OptOuts.lift, { recipient })
    yield* show(lifted, () => fields({ recipient, 'opted out': false }))
  }),
)

/** About two million numbers. */
const MAX_IMPORT_BYTES = 32 * 1024 * 1024
/** Invalid lines in the error message. */
const MAX_LINES_NAMED = 20

interface ParsedList {
  readonly numbers: ReadonlyArray<string>
  /** Line numbers, from 1. */
  readonly bad: ReadonlyArray<number>
}

/**
 * Parses a CSV file or a plain list. The number is the first field of a line, quoted or not; the
 * separator is a comma, semicolon or tab. Empty lines and a heading without digits are skipped.
 */
export const parseList = (text: string): ParsedList => {
  const numbers = new Set<string>()
  const bad: Array<number> = []
  const lines = text.replace(/^\uFEFF/u, '').split(/\r\n|\n|\r/u)
  for (const [index, line] of lines.entries()) {
    if (line.trim() === '') continue
    const field = (line.split(/[,;\t]/u, 1)[0] ?? '').trim().replace(/^"(.*)"$/u, '$1')
    if (isRecipientNumber(field)) numbers.add(field)
    else if (index > 0 || /\d/u.test(line)) bad.push(index + 1)
  }
  return { numbers: [...numbers], bad }
}

const readList = Effect.fnUntraced(function* (path: string) {
  if (path === '-') return yield* readStandardInput(MAX_IMPORT_BYTES)
  return yield* Effect.tryPromise({
    try: () => readFile(path, 'utf8'),
    catch: (error) => {
      const code = (error as NodeJS.ErrnoException).code ?? 'unknown'
      return unavailable('file_unreadable', `${path} cannot be read (${code}).`)
    },
  })
})

const importCommand = defineCommand(
  'import',
  {
    short: 'Import opt-outs from a list of numbers',
    about:
      'Records an opt-out for each number of a file or of standard input: one number per line, or the ' +
      'first column of a CSV. Numbers are +79 and nine digits. An invalid line rejects the whole list, ' +
      'unless --skip-bad-lines is given. A repeated import changes nothing.',
    changes:
      `New opt-outs. ${TAKES_EFFECT} ${EVENTS} After a failure, the opt-outs imported so far stay: import the ` +
      'list again.',
    examples: [
      { command: 'hubctl opt-outs import stop-list.csv' },
      { command: 'gpg -d stop-list.csv.gpg | hubctl opt-outs import - --yes' },
    ],
    notOverApi: 'a list of numbers is larger than a request may be',
  },
  {
    file: Argument.String('file').pipe(Argument.withDescription('A file, or "-" for standard input')),
    skipBadLines: switchFlag('skip-bad-lines', 'Skip invalid lines, and show their number'),
  },
  Effect.fnUntraced(function* ({ file, skipBadLines }) {
    const { bad, numbers } = parseList(yield* readList(file))
    if (bad.length > 0 && !skipBadLines) {
      const named = bad.slice(0, MAX_LINES_NAMED).join(', ')
      return yield* usageError(
        `${bad.length} lines have no valid number: ${named}${bad.length > MAX_LINES_NAMED ? ', …' : ''}. Nothing was imported; --skip-bad-lines skips them.`,
      )
    }
    if (numbers.length === 0) return yield* usageError('The list has no valid number.')
    const hashOf = yield* numberHasher
    yield* confirm(`Opt out ${numbers.length} numbers?`)
    const recipients = numbers.map(hashOf)
    const imported = yield* run(OptOuts.importList, { recipients, bad_lines: bad.length })
    yield* show(imported, () =>
      fields({
        numbers: imported.numbers,
        added: imported.added,
        'already opted out': imported.known,
        'skipped lines': imported.bad_lines,
      }),
    )
  }),
)

export const optOuts = defineGroup(
  'opt-outs',
  {
    short: 'Opt-outs: add, lift, import, check',
    about:
      'An opted-out number gets no messages of class service from any account. Recipients opt out with ' +
      'a stop word. Hub staff record opt-outs at their request.',
  },
  [list, check, add, lift, importCommand],
)
