/** `hub send`: one message, or a message for each row of a CSV file. */
import { setTimeout as delay } from 'node:timers/promises'
import { confirm, defineCommand, fields, printNote, refused, show, usageError } from '@hub/command-line'
import type { components } from '@sms-delivery-hub/client'
import { Effect, Option, Stdio } from 'effect'
import { type Command, Flag } from 'effect/cli'
import { attempt, connect, type Connection } from '../connection/connection.ts'
import { hashBlocks } from '../csv/blocks.ts'
import { type CheckedFile, checkFile, type Price } from '../csv/check.ts'
import type { CsvFile } from '../csv/csv-file.ts'
import { ENCODINGS } from '../csv/encoding.ts'
import { lastResultOf, openResultFile } from '../csv/result-file.ts'
import { runIdOf } from '../csv/run-id.ts'
import { sendFile } from '../csv/send-file.ts'
import { makeProgress, thousands } from '../progress.ts'

type Template = components['schemas']['Template']

const findTemplate = async ({ client }: Connection, name: string, signal: AbortSignal): Promise<Template> => {
  for await (const template of client.templates.list({}, { signal })) {
    if (template.name === name) return template
  }
  throw refused('template_not_found', `There is no template "${name}". List them: hub templates list`)
}

const toFlag = Flag.String('to').pipe(
  Flag.withDescription('The phone number of one message, +79 and nine digits'),
  Flag.optional,
)

const config = {
  to: toFlag,
  csv: Flag.Path('csv', { pathType: 'file' }).pipe(
    Flag.withDescription('A CSV file with a heading: one message for each row'),
    Flag.optional,
  ),
  template: Flag.String('template').pipe(Flag.withDescription('The name of the template')),
  variable: Flag.KeyValuePair('variable').pipe(
    Flag.withAlias('v'),
    Flag.withDescription('A value of the template, name=value; with --csv, the same for each row'),
    Flag.withDefault({}),
  ),
  map: Flag.KeyValuePair('map').pipe(
    Flag.withDescription(
      'The column of the number (to=phone) or of a placeholder (order=order_no). Columns with the same name need no --map',
    ),
    Flag.withDefault({}),
  ),
  clientRef: Flag.String('client-ref').pipe(
    Flag.withDescription('Your own id of one message. A second send with the same id creates nothing'),
    Flag.optional,
  ),
  ttl: Flag.Int('ttl').pipe(
    Flag.withDescription('Seconds within which the hub must submit the message'),
    Flag.optional,
  ),
  wait: Flag.Boolean('wait').pipe(
    Flag.withDescription('Wait for the final status of one message'),
    Flag.withDefault(false),
  ),
  dryRun: Flag.Boolean('dry-run').pipe(
    Flag.withDescription('Check and estimate only: parts, price and invalid rows'),
    Flag.withDefault(false),
  ),
  skipInvalid: Flag.Boolean('skip-invalid').pipe(
    Flag.withDescription('Send the valid rows of a file that also has invalid ones'),
    Flag.withDefault(false),
  ),
  result: Flag.Path('result').pipe(
    Flag.withDescription('The result file. Default: beside the CSV file, with the ending .result.csv'),
    Flag.optional,
  ),
  run: Flag.String('run').pipe(
    Flag.withDescription('A name for this run. With another name, the same file is sent again'),
    Flag.withDefault(''),
  ),
  encoding: Flag.Literals('encoding', ENCODINGS).pipe(
    Flag.withDescription('The encoding of the CSV file'),
    Flag.withDefault('utf-8' as const),
  ),
  delimiter: Flag.String('delimiter').pipe(
    Flag.withDescription('The character between two cells. Default: the one that the heading uses'),
    Flag.filter(
      (text) => text.length === 1,
      () => 'one character',
    ),
    Flag.optional,
  ),
}

type Input = Command.Command.Config.Infer<typeof config>

const priceText = ({ amount, currency }: Price): string => `${amount} ${currency}`

/** Often enough for the sandbox, which reports within a second. */
const POLL_MS = 250

/** Reads the message until its status is final. */
const waitForFinal = async ({ client }: Connection, id: string, signal: AbortSignal) => {
  for (;;) {
    const message = await client.messages.get(id, { signal })
    if (message.final) return message
    await delay(POLL_MS, undefined, { signal })
  }
}

const sendOne = Effect.fnUntraced(function* (connection: Connection, input: Input, to: string) {
  const { client } = connection
  const message = yield* attempt(async (signal) => {
    const template = await findTemplate(connection, input.template, signal)
    const ttl = Option.getOrNull(input.ttl)
    const clientRef = Option.getOrNull(input.clientRef)
    return client.messages.send(
      {
        to,
        class: template.class as 'otp' | 'service',
        template: template.name,
        variables: input.variable,
        ...(clientRef === null ? {} : { client_ref: clientRef }),
        ...(ttl === null ? {} : { ttl_seconds: ttl }),
      },
      { signal },
    )
  }).pipe(
    Effect.onInterrupt(() =>
      printNote('Stopped before the hub answered. It may have accepted the message: hub messages list'),
    ),
  )
  const shown = input.wait
    ? yield* attempt((signal) => waitForFinal(connection, message.id, signal)).pipe(
        Effect.onInterrupt(() =>
          printNote(`Stopped. The hub has accepted the message: hub messages get ${message.id}`),
        ),
      )
    : message
  yield* show(shown, ({ id, parts, price, reason_code: reason, status }) =>
    fields({
      id,
      status,
      ...(reason === null ? {} : { reason }),
      parts,
      price: priceText(price),
      ...(input.wait ? {} : { next: `hub messages get ${id}` }),
    }),
  )
})

const estimateOne = Effect.fnUntraced(function* (connection: Connection, input: Input, to: string) {
  const estimate = yield* attempt(async (signal) => {
    const template = await findTemplate(connection, input.template, signal)
    return connection.client.messages.estimate(
      { to, class: template.class as 'otp' | 'service', template: template.name, variables: input.variable },
      { signal },
    )
  })
  yield* show(estimate, ({ characters, encoding, parts, price }) =>
    fields({ parts, price: priceText(price), encoding, characters }),
  )
})

const plural = (count: number, one: string): string => `${thousands(count)} ${one}${count === 1 ? '' : 's'}`

const listProblems = (path: string, { invalid, problems }: CheckedFile): string =>
  [
    ...problems.map(
      ({ column, columnName, line, problem }) =>
        `${path}: line ${line}, column ${column} ("${columnName}"): ${problem}`,
    ),
    ...(invalid > problems.length ? [`… and ${thousands(invalid - problems.length)} more`] : []),
  ].join('\n')

const resultPath = (path: string): string => `${path.replace(/\.csv$/iu, '')}.result.csv`

/** Who sends, and how. */
interface Sender {
  readonly connection: Connection
  readonly account: components['schemas']['Account']
  /** The progress on standard error is a line that changes. */
  readonly isTerminal: boolean
}

/** `with the test key of Shop, which costs nothing` */
const payerText = ({ account, connection: { mode } }: Sender): string =>
  `with the ${mode} key of ${account.name}${mode === 'test' ? ', which costs nothing' : ''}`

/** Checks the file, and prints its mistakes. */
const checkCsv = Effect.fnUntraced(function* (sender: Sender, file: CsvFile) {
  const progress = makeProgress('Checked', 'rows', null, sender.isTerminal)
  const checked = yield* attempt((signal) =>
    checkFile({
      file,
      client: sender.connection.client,
      batchMax: sender.account.limits.batch_max,
      onProgress: progress.update,
      signal,
    }),
  ).pipe(
    Effect.ensuring(Effect.sync(progress.end)),
    Effect.onInterrupt(() => printNote('Stopped while the file was checked: nothing was sent.')),
  )
  if (checked.invalid > 0) yield* printNote(listProblems(file.path, checked))
  return checked
})

const dryRun = Effect.fnUntraced(function* (sender: Sender, file: CsvFile) {
  const checked = yield* checkCsv(sender, file)
  yield* show({ object: 'csv_estimate', ...checked }, ({ invalid, parts, price, rows }) =>
    fields({
      rows: thousands(rows),
      'invalid rows': thousands(invalid),
      parts: thousands(parts),
      price: priceText(price),
    }),
  )
})

/** The first start of a run: checks the file, and asks. */
const begin = Effect.fnUntraced(function* (sender: Sender, file: CsvFile, skipInvalid: boolean) {
  const { invalid, parts, price, rows } = yield* checkCsv(sender, file)
  if (invalid > 0 && !skipInvalid) {
    return yield* refused(
      'csv_invalid',
      `${plural(invalid, 'row')} of ${thousands(rows)} cannot be sent, so nothing was sent. Correct the file, or add --skip-invalid.`,
    )
  }
  const messages = plural(rows - invalid, 'message')
  yield* confirm(`Send ${messages}, ${plural(parts, 'part')}, ${priceText(price)}, ${payerText(sender)}?`)
})

const sendCsv = Effect.fnUntraced(function* (connection: Connection, input: Input, path: string) {
  const { client } = connection
  const isTerminal = yield* Effect.flatMap(Stdio.Stdio, (stdio) => stdio.stderrIsTerminal)
  const [account, template] = yield* attempt(async (signal) =>
    Promise.all([client.account.get({ signal }), findTemplate(connection, input.template, signal)]),
  )
  const sender: Sender = { connection, account, isTerminal }
  const { hashes, lines } = yield* attempt(() => hashBlocks(path))
  const file: CsvFile = {
    path,
    encoding: input.encoding,
    delimiter: Option.getOrNull(input.delimiter),
    hashes,
    template,
    map: input.map,
    constants: input.variable,
  }
  if (input.dryRun) return yield* dryRun(sender, file)
  const runId = yield* Effect.promise(() =>
    runIdOf(hashes, { ...file, account: account.id, template: template.name, run: input.run }),
  )
  const resultFile = Option.getOrElse(input.result, () => resultPath(path))
  const last = yield* attempt(() => lastResultOf(resultFile, runId))
  if (last.row === 0) yield* begin(sender, file, input.skipInvalid)
  else {
    const rows = `${plural(last.row, 'row')} already ${last.row === 1 ? 'has' : 'have'} a result in ${resultFile}`
    yield* printNote(`${rows}; continuing behind them.`)
    if (last.line !== lines) {
      const place = `behind line ${thousands(last.line)} of ${thousands(lines)}`
      yield* confirm(`Continue ${place}, ${payerText(sender)}?`)
    }
  }
  const results = yield* Effect.acquireRelease(
    attempt(() => openResultFile(resultFile, runId)),
    (opened) => Effect.promise(() => opened.close()),
  )
  const sending = makeProgress('Sent', 'lines', lines, isTerminal, last.line)
  yield* attempt((signal) =>
    sendFile({
      file,
      runId,
      client,
      batchMax: account.limits.batch_max,
      results,
      onProgress: sending.update,
      signal,
    }),
  ).pipe(
    Effect.ensuring(Effect.sync(sending.end)),
    Effect.onInterrupt(() =>
      printNote('Stopped. Start the same command again to continue: nothing is sent twice.'),
    ),
  )
  yield* attempt(() => results.flush())
  const counts = results.counts()
  const rows = counts.accepted + counts.duplicate + counts.rejected + counts.skipped
  yield* show({ object: 'csv_result', run: runId, rows, ...counts, result_file: resultFile }, () =>
    fields({
      rows: thousands(rows),
      accepted: thousands(counts.accepted),
      ...(counts.duplicate === 0 ? {} : { 'accepted before an interruption': thousands(counts.duplicate) }),
      rejected: thousands(counts.rejected),
      ...(counts.skipped === 0 ? {} : { skipped: thousands(counts.skipped) }),
      'result file': resultFile,
    }),
  )
  if (counts.rejected > 0) {
    return yield* refused(
      'rows_rejected',
      `${plural(counts.rejected, 'row')} ${counts.rejected === 1 ? 'was' : 'were'} rejected; ${resultFile} says why.`,
    )
  }
}, Effect.scoped)

export const send = defineCommand(
  'send',
  {
    short: 'Send one message, or a message for each row of a CSV file',
    about:
      'Sends one message (--to), or a message for each row of a CSV file (--csv). A file is first checked as a ' +
      'whole: columns, numbers, encoding, long cells and variables, with line and column. Then the command ' +
      'shows parts and price, asks, and sends batches. Each row gets a client_ref that is derived from the ' +
      'file, so a run that was interrupted in any way continues with the same command and sends nothing ' +
      'twice. The result file has a line for each row. A changed file is another run.',
    changes: 'Sends messages. With the test key, they reach no phone and cost nothing.',
    examples: [
      { command: 'hub send --to +79000000001 --template otp_code -v code=1234' },
      {
        command:
          'hub send --csv people.csv --template order_ready --map to=phone --map order=order_no --dry-run',
        description: 'Check a file, and estimate parts and price',
      },
      {
        command: 'hub send --csv people.csv --template order_ready --map to=phone --map order=order_no --yes',
      },
    ],
  },
  config,
  Effect.fnUntraced(function* (input) {
    const to = Option.getOrNull(input.to)
    const csv = Option.getOrNull(input.csv)
    if ((to === null) === (csv === null)) return yield* usageError('Give either --to or --csv.')
    if (csv !== null && (input.wait || Option.isSome(input.clientRef) || Option.isSome(input.ttl))) {
      return yield* usageError('--client-ref, --ttl and --wait are for one message, with --to.')
    }
    const connection = yield* connect
    if (csv !== null) return yield* sendCsv(connection, input, csv)
    return yield* (input.dryRun ? estimateOne : sendOne)(connection, input, to ?? '')
  }),
)
