/** `hub messages export`: messages as CSV, page by page. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { defineCommand, fields, Json, printNote, refused, show, usageError } from '@hub/command-line'
import { type components, HubNotFoundError } from '@sms-delivery-hub/client'
import { Effect, Exit, Option, Stdio } from 'effect'
import { Flag } from 'effect/cli'
import { attempt, connect } from '../connection/connection.ts'
import { HEADING, linesOf, openExportFile } from '../csv/export-file.ts'
import { makeProgress, thousands } from '../progress.ts'
import { filterFlags, queryOf } from './message-filters.ts'

type Message = components['schemas']['Message']

/** A page costs one request of the rate limit, whatever its size. */
const PAGE = 100

/** Writes to standard output, as fast as its reader reads. */
const print = async (text: string): Promise<void> => {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain')
}

const toStandardOutput = {
  written: { last: null, messages: 0 },
  begin: () => print(HEADING),
  add: (messages: ReadonlyArray<Message>) => print(linesOf(messages)),
  complete: async () => {},
  advice: 'With --output, the same command would continue there.',
}

export const exportMessages = defineCommand(
  'export',
  {
    short: 'Write messages as CSV, for a file of any length',
    about:
      'Writes messages as CSV, newest first (with --batch, in the order of acceptance), each with its status at ' +
      'the moment of reading. Numbers are masked. Messages that are accepted meanwhile are not contained. The ' +
      'progress is shown on standard error. With --output, the file gets its name when it is complete; until ' +
      'then it is a file beside it that ends with .part. If the command ends before, it says where it stopped, ' +
      'and the same command continues there. Texts that a spreadsheet would run as a formula get an apostrophe.',
    changes: 'The file of --output.',
    examples: [
      { command: 'hub messages export --created-after 2026-11-01T00:00:00.000Z --output november.csv' },
      {
        command: 'hub messages export --status undelivered | head',
        description: 'To standard output',
      },
    ],
  },
  {
    ...filterFlags,
    output: Flag.String('output').pipe(
      Flag.withDescription('The file to write. It must not exist. Default: standard output'),
      Flag.withMetavar('file.csv'),
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* (flags) {
    const output = Option.getOrNull(flags.output)
    if (output === null && (yield* Json)) {
      return yield* usageError('--json shows a summary of the file: give --output too.')
    }
    const { baseUrl, client, mode } = yield* connect
    const isTerminal = yield* Effect.flatMap(Stdio.Stdio, (stdio) => stdio.stderrIsTerminal)
    const query = { ...queryOf(flags), limit: PAGE }
    const account = yield* attempt((signal) => client.account.get({ signal }))
    const identity = createHash('sha256')
      .update(JSON.stringify([baseUrl, account.id, mode, query]))
      .digest('hex')
      .slice(0, 8)
    const target =
      output === null
        ? toStandardOutput
        : yield* Effect.acquireRelease(
            attempt(() => openExportFile(output, identity)),
            (opened) => Effect.promise(() => opened.close()),
          )
    let { last, messages } = target.written
    if (last !== null) yield* printNote(`Continuing behind ${last}, with ${thousands(messages)} messages.`)
    const progress = makeProgress('Exported', 'messages', null, isTerminal, messages)
    yield* attempt(async (signal) => {
      await target.begin()
      const write = async (page: ReadonlyArray<Message>): Promise<void> => {
        await target.add(page)
        messages += page.length
        last = page.at(-1)?.id ?? last
        progress.update(messages)
      }
      let page: Array<Message> = []
      try {
        for await (const message of client.messages.list(
          { ...query, ...(last === null ? {} : { starting_after: last }) },
          { signal },
        )) {
          page.push(message)
          if (page.length < PAGE) continue
          await write(page)
          page = []
        }
      } catch (error) {
        if (!(error instanceof HubNotFoundError) || error.param !== 'starting_after') throw error
        throw refused(
          'position_not_found',
          `The hub has no message ${last} any more. Delete the .part file, and begin again.`,
        )
      }
      await write(page)
      await target.complete()
    }).pipe(
      Effect.ensuring(Effect.sync(progress.end)),
      Effect.onExit((exit) =>
        Exit.isSuccess(exit)
          ? Effect.void
          : printNote(
              `Stopped after ${thousands(messages)} messages${last === null ? '' : `, behind ${last}`}. ${target.advice}`,
            ),
      ),
    )
    if (output === null) return yield* printNote(`${thousands(messages)} messages.`)
    yield* show({ object: 'messages_export', messages, file: output }, () =>
      fields({ messages: thousands(messages), file: output }),
    )
  }, Effect.scoped),
)
