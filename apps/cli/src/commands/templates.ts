/** `hub templates`: a folder of templates as code. */
import {
  CommandFailed,
  confirm,
  defineCommand,
  defineGroup,
  NOTHING,
  printNote,
  refused,
  show,
  showList,
  table,
} from '@hub/command-line'
import type { components, HubClient } from '@sms-delivery-hub/client'
import { Effect } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { attempt, connect, type Connection, connectTo } from '../connection/connection.ts'
import { readTemplateFolder, type TemplateFile } from '../templates/template-file.ts'

type Template = components['schemas']['Template']

const templatesOf = async (
  client: HubClient,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Template>> => {
  const found = new Map<string, Template>()
  for await (const template of client.templates.list({}, { signal })) found.set(template.name, template)
  return found
}

const list = defineCommand(
  'list',
  {
    short: 'List templates',
    about: 'Lists the templates of the account, with their placeholders.',
    changes: NOTHING,
    examples: [{ command: 'hub templates list' }, { command: 'hub templates list --live --json' }],
  },
  {},
  Effect.fnUntraced(function* () {
    const { client } = yield* connect
    const templates = yield* attempt((signal) => templatesOf(client, signal))
    yield* showList(
      [...templates.values()],
      {
        name: (row) => row.name,
        class: (row) => row.class,
        sender: (row) => row.sender,
        status: (row) => row.status,
        reason: (row) => row.reason,
        placeholders: (row) => row.placeholders.join(', '),
      },
      'There are none. Create some: hub templates push',
    )
  }),
)

/** The fields in which a template differs from its file. */
export const differences = (file: TemplateFile, template: Template): ReadonlyArray<string> =>
  (['class', 'sender', 'language', 'body'] as const).filter((field) => file[field] !== template[field])

interface Pushed {
  readonly name: string
  readonly result: 'created' | 'would be created' | 'unchanged' | 'differs' | 'not in test mode'
  readonly status: string | null
  readonly differs: ReadonlyArray<string>
}

/** The templates of test mode, for a push to live mode; `null` without a test key. */
const testTemplates = async (
  connection: Connection,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Template> | null> => {
  if (connection.mode === 'test' || connection.otherKey === null) return null
  const test = connectTo({ ...connection, key: connection.otherKey, mode: 'test', otherKey: null })
  return templatesOf(test.client, signal)
}

const plan = (
  files: ReadonlyArray<TemplateFile>,
  existing: ReadonlyMap<string, Template>,
  inTest: ReadonlyMap<string, Template> | null,
): ReadonlyArray<Pushed> =>
  files.map((file) => {
    const template = existing.get(file.name)
    if (template !== undefined) {
      const differs = differences(file, template)
      const result = differs.length === 0 ? ('unchanged' as const) : ('differs' as const)
      return { name: file.name, result, status: template.status, differs }
    }
    const tested = inTest?.get(file.name)
    const isTested =
      inTest === null ||
      (tested !== undefined && tested.status === 'approved' && differences(file, tested).length === 0)
    const result = isTested ? ('would be created' as const) : ('not in test mode' as const)
    return { name: file.name, result, status: null, differs: [] }
  })

const push = defineCommand(
  'push',
  {
    short: 'Create the templates of a folder',
    about:
      'Compares a folder with the templates of the account, and creates the missing ones. A file such as ' +
      'order_ready.txt has the lines "class: service", "sender: HUB" and perhaps "language: ru", an empty line, ' +
      'and the text. The hub does not change a template, so the command reports differences and fails: give ' +
      'the new text a new name. With --live, it creates in live mode what exists in test mode with the same ' +
      'text. Hub staff moderate templates of live mode.',
    changes: 'Creates templates. Delete one at DELETE /v1/templates/{id}.',
    examples: [
      { command: 'hub templates push templates/ --dry-run', description: 'Only compare' },
      { command: 'hub templates push templates/' },
      { command: 'hub templates push templates/ --live', description: 'Promote from test to live' },
    ],
  },
  {
    folder: Argument.Directory('folder').pipe(Argument.withDescription('A folder with files *.txt')),
    dryRun: Flag.Boolean('dry-run').pipe(Flag.withDescription('Only compare'), Flag.withDefault(false)),
  },
  Effect.fnUntraced(function* ({ dryRun, folder }) {
    const connection = yield* connect
    const { client, mode } = connection
    const files = yield* attempt(async () => readTemplateFolder(folder))
    const [existing, inTest] = yield* attempt((signal) =>
      Promise.all([templatesOf(client, signal), testTemplates(connection, signal)]),
    )
    if (mode === 'live' && inTest === null) {
      yield* printNote('There is no test key, so the templates are not compared with those of test mode.')
    }
    const rows = new Map(plan(files, existing, inTest).map((row) => [row.name, row]))
    const missing = files.filter(({ name }) => rows.get(name)?.result === 'would be created')
    let failure: CommandFailed | null = null
    if (!dryRun && missing.length > 0) {
      if (mode === 'live') {
        yield* confirm(`Create ${missing.length} templates in live mode, for moderation by hub staff?`)
      }
      for (const { language, ...file } of missing) {
        const created = yield* Effect.result(
          attempt((signal) =>
            client.templates.create({ ...file, ...(language === null ? {} : { language }) }, { signal }),
          ),
        )
        if (created._tag === 'Failure') {
          const { code, exit, message } = created.failure
          failure = new CommandFailed({ code, exit, message: `${file.name}: ${message}` })
          break
        }
        rows.set(file.name, {
          name: file.name,
          result: 'created',
          status: created.success.status,
          differs: [],
        })
      }
    }
    const data = [...rows.values()]
    yield* show({ object: 'list', data }, () =>
      table(data, {
        name: (row) => row.name,
        result: (row) => row.result,
        status: (row) => row.status,
        differs: (row) => row.differs.join(', '),
      }),
    )
    if (failure !== null) return yield* failure
    const count = (result: Pushed['result']): number => data.filter((row) => row.result === result).length
    if (count('differs') > 0) {
      return yield* refused(
        'template_differs',
        `${count('differs')} of the templates exist with another text or other fields. Give the new ones new names.`,
      )
    }
    if (count('not in test mode') > 0) {
      return yield* refused(
        'template_not_tested',
        `${count('not in test mode')} of the templates are not approved in test mode with the same text. Push them there first: hub templates push ${folder}`,
      )
    }
  }),
)

export const templates = defineGroup(
  'templates',
  { short: 'Templates as code', about: 'Lists templates, and creates them from files.' },
  [list, push],
)
