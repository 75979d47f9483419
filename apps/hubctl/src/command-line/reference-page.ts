/** Generates `docs/hubctl.md`, the reference of the command line, from the help of the commands. */
import * as NodeServices from '@effect/platform-node/NodeServices'
import { Context, Effect, Layer, Option } from 'effect'
import { CliOutput, Command, type HelpDoc } from 'effect/cli'
import { hubctlCommand } from '../cli.ts'
import { Changes } from './command.ts'

/** The page before the commands. */
const INTRODUCTION = `# hubctl

The command line of the hub staff. \`npm run generate\` generates this page from the help of
the commands.

\`\`\`sh
npm start -- --detach      # a hub on your own machine
npx hubctl accounts list   # hubctl finds it
\`\`\`

**Selection of the hub.** If \`HUB_DATABASE_URL\` is set, hubctl uses the hub that the environment
describes, with the same variables as the apps ([configuration](configuration.md)). Otherwise it
uses the local hub: \`npm start\` writes its variables to \`.local/hubctl.env\` (\`HUB_DATA_DIR\`
changes the folder). hubctl prints on standard error which hub it uses. Help and completion need
no hub.

**Over the operations API.** With \`--api URL\`, or \`HUBCTL_API_URL\`, hubctl needs no settings of the
apps, only \`HUBCTL_API_TOKEN\`: a token of the identity provider. The roles of the token apply, and
the audit trail names its person. Commands without an endpoint in the API are refused.

**Output.** The result goes to standard output, as a table or, with \`--json\`, as one JSON
document. Everything else goes to standard error. A failure has a sentence and a code, with
\`--json\` as \`{"error": {"code", "message"}}\`. Exit codes: 0 success; 1 the hub refuses the
command, and a repeat fails again; 2 the command line is wrong; 3 a server does not answer, or
settings are missing.

**Confirmation.** A command that cannot be undone, or that affects all clients, asks for
confirmation on a terminal. Elsewhere, and with \`--json\`, it requires \`--yes\`.

**Audit trail.** Each command that changes something, or reads data of a person, is recorded in the
audit trail: time, actor (\`HUBCTL_ACTOR\`, or the user of the operating system), role (\`admin\`),
command, arguments and outcome. hubctl writes the record before it does anything; if that fails, it does
nothing. Records are never changed or deleted, and contain no phone number: a recipient is
identified by its hash.

**Phone numbers** are personal data. On a command line they become part of the shell history. With
\`-\` instead, hubctl reads the number from standard input.

**When a change takes effect.** Processes of the hub cache keys for three seconds, and settings,
usable templates and the limits of the hub for two seconds. They read opt-outs for each send. The
help of each command says what applies.

**Completion.** \`source <(npx hubctl completion bash)\`, or \`zsh\`, \`fish\`.
`

interface NamedCommand {
  readonly path: ReadonlyArray<string>
  readonly command: Command.Command.Any
}

/** All commands without subcommands, with their paths. */
export const commandsOf = (
  command: Command.Command.Any,
  path: ReadonlyArray<string> = [],
): ReadonlyArray<NamedCommand> => {
  const children = command.subcommands.flatMap(({ commands }) => commands)
  return children.length === 0
    ? [{ path, command }]
    : children.flatMap((child) => commandsOf(child, [...path, child.name]))
}

/** The help of a command, as the parser prints it. */
const helpOf = (path: ReadonlyArray<string>): Effect.Effect<HelpDoc.HelpDoc> =>
  Effect.gen(function* () {
    const found: Array<HelpDoc.HelpDoc> = []
    const presenter: CliOutput.Presenter = {
      present: (event) =>
        Effect.sync(() => {
          if (event._tag === 'Help') found.push(event.helpDoc)
        }),
    }
    yield* Command.runWith(hubctlCommand, { version: '' })([...path, '--help']).pipe(
      Effect.provide(Layer.merge(NodeServices.layer, CliOutput.layerPresenter(presenter))),
      Effect.orDie,
    )
    return found[0] ?? (yield* Effect.die(`there is no help for ${path.join(' ')}`))
  })

/** The maximum width of a line of prose. */
const COLUMNS = 100

/** Breaks a paragraph into lines. Lines after the first begin with `indent`. */
const wrap = (paragraph: string, indent = ''): string => {
  const lines = ['']
  for (const word of paragraph.split(' ')) {
    const line = lines.at(-1) ?? ''
    if (line === '') lines[lines.length - 1] = word
    else if (line.length + 1 + word.length <= COLUMNS) lines[lines.length - 1] = `${line} ${word}`
    else lines.push(`${indent}${word}`)
  }
  return lines.join('\n')
}

const withColon = (text: Option.Option<string>): string =>
  Option.match(text, { onNone: () => '', onSome: (words) => `: ${words}` })

const bullets = (doc: HelpDoc.HelpDoc): ReadonlyArray<string> =>
  [
    ...(doc.args ?? []).map(
      (arg) => `- \`<${arg.name}>\`${arg.required ? '' : ' (optional)'}${withColon(arg.description)}`,
    ),
    ...doc.flags.map((flag) => {
      const type = flag.type === 'boolean' ? '' : ` ${flag.type}`
      return `- \`--${flag.name}${type}\`${withColon(flag.description)}`
    }),
  ].map((bullet) => wrap(bullet, '  '))

const example = ({ command, description }: HelpDoc.ExampleDoc): string =>
  description === undefined ? command : `# ${description}\n${command}`

const section = ({ command, path }: NamedCommand, doc: HelpDoc.HelpDoc): string => {
  const changes = Context.get(command.annotations, Changes)
  const list = bullets(doc)
  return [
    `### hubctl ${path.join(' ')}`,
    wrap(doc.description.replace(`\n\nChanges: ${changes}`, '')),
    wrap(`_Changes:_ ${changes}`),
    ...(list.length === 0 ? [] : [list.join('\n')]),
    ['```sh', ...(doc.examples ?? []).map(example), '```'].join('\n'),
  ].join('\n\n')
}

export const hubctlPage: Effect.Effect<string> = Effect.gen(function* () {
  const parts: Array<string> = [INTRODUCTION.trimEnd()]
  for (const group of hubctlCommand.subcommands.flatMap(({ commands }) => commands)) {
    parts.push(`## ${group.name}`)
    if (group.subcommands.length > 0) parts.push(wrap(group.description ?? ''))
    for (const command of commandsOf(group, [group.name])) {
      parts.push(section(command, yield* helpOf(command.path)))
    }
  }
  return `${parts.join('\n\n')}\n`
})
