/** The reference of the command line, `docs/hubctl.md`, made from the commands' own help. */
import * as NodeServices from '@effect/platform-node/NodeServices'
import { Context, Effect, Layer, Option } from 'effect'
import { CliOutput, Command, type HelpDoc } from 'effect/cli'
import { hubctlCommand } from '../cli.ts'
import { Changes } from './command.ts'

/** What the page says before the commands. */
const INTRODUCTION = `# hubctl

The one command line of the people who run the hub. This page is made from its help by \`node apps/hubctl/scripts/generate.ts\`.

\`\`\`sh
npm start -- --detach      # a hub on your own machine
npx hubctl accounts list   # and hubctl finds it
\`\`\`

**Which hub.** Where \`HUB_DATABASE_URL\` is set, hubctl talks to the hub that the environment describes, by the same variables that the apps read
([configuration](configuration.md)). Otherwise it talks to the local one: while it runs, \`npm start\` keeps them in \`.local/hubctl.env\`
(\`HUB_DATA_DIR\` moves it). It says on standard error which hub that is. Help and completion need no hub.

**Output.** The result goes to standard output, as a table or, with \`--json\`, as one JSON document; everything else goes to standard error. A failure is told by a
sentence and a code, with \`--json\` as \`{"error": {"code", "message"}}\`. Exit codes: 0 done; 1 the hub says no, and would again; 2 the command line is wrong;
3 a server did not answer, or settings are missing.

**Asking.** What cannot be undone, or concerns everybody, is asked for on a terminal. Elsewhere, and with \`--json\`, such a command needs \`--yes\`.

**Audit.** Each command that changes something, or reads about a person, leaves a line in \`command.audit\`: when, who (\`HUBCTL_ACTOR\`, or the user of the operating
system), which command with which arguments, and how it ended. The line is written before anything is done; where that is not possible, nothing is
done. Lines are never changed or removed, and hold no number: a recipient is named by their hash.

**Numbers** are personal data. On a command line they stand in the history of your shell; \`-\` in their place reads them from standard input.

**When it is in force.** Processes of the hub remember keys for three seconds, and settings, usable templates and the hub's limits for two. Opt-outs are looked up for
each send. Each command says what holds for it.

**Completion.** \`source <(npx hubctl completion bash)\`, or \`zsh\`, \`fish\`.
`

interface Leaf {
  readonly path: ReadonlyArray<string>
  readonly command: Command.Command.Any
}

/** Every command that does something, with its words. */
export const commandsOf = (
  command: Command.Command.Any,
  path: ReadonlyArray<string> = [],
): ReadonlyArray<Leaf> => {
  const children = command.subcommands.flatMap(({ commands }) => commands)
  return children.length === 0
    ? [{ path, command }]
    : children.flatMap((child) => commandsOf(child, [...path, child.name]))
}

/** The help of a command, as the parser knows it. */
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

const sentence = (text: Option.Option<string>): string =>
  Option.match(text, { onNone: () => '', onSome: (words) => `: ${words}` })

const bullets = (doc: HelpDoc.HelpDoc): ReadonlyArray<string> => [
  ...(doc.args ?? []).map(
    (arg) => `- \`<${arg.name}>\`${arg.required ? '' : ' (may be left out)'}${sentence(arg.description)}`,
  ),
  ...doc.flags.map((flag) => {
    const type = flag.type === 'boolean' ? '' : ` ${flag.type}`
    return `- \`--${flag.name}${type}\`${sentence(flag.description)}`
  }),
]

const section = ({ command, path }: Leaf, doc: HelpDoc.HelpDoc): string => {
  const changes = Context.get(command.annotations, Changes)
  const about = doc.description.replace(`\n\nChanges: ${changes}`, '')
  const list = bullets(doc)
  return [
    `### hubctl ${path.join(' ')}`,
    about,
    `_Changes:_ ${changes}`,
    ...(list.length === 0 ? [] : [list.join('\n')]),
    ['```sh', ...(doc.examples ?? []).map(example), '```'].join('\n'),
  ].join('\n\n')
}

const example = ({ command, description }: HelpDoc.ExampleDoc): string =>
  description === undefined ? command : `# ${description}\n${command}`

/** The whole page. */
export const hubctlPage: Effect.Effect<string> = Effect.gen(function* () {
  const parts: Array<string> = [INTRODUCTION.trimEnd()]
  for (const { commands } of hubctlCommand.subcommands) {
    for (const noun of commands) {
      parts.push(`## ${noun.name}`)
      if (noun.subcommands.length > 0) parts.push(noun.description ?? '')
      for (const defineCommand of commandsOf(noun, [noun.name]))
        parts.push(section(defineCommand, yield* helpOf(defineCommand.path)))
    }
  }
  return `${parts.join('\n\n')}\n`
})
