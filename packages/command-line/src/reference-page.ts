/** Generates the reference page of a command line from the help of its commands. */
import * as NodeServices from '@effect/platform-node/NodeServices'
import { Context, Effect, Layer, Option, type Stdio } from 'effect'
import { CliOutput, Command, type HelpDoc } from 'effect/cli'

import { Changes, NOTHING } from './command.ts'

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
const helpOf = <Name extends string, Input, ContextInput, E>(
  program: Command.Command<Name, Input, ContextInput, E, Command.Environment | Stdio.Stdio>,
  path: ReadonlyArray<string>,
): Effect.Effect<HelpDoc.HelpDoc> =>
  Effect.gen(function* () {
    const found: Array<HelpDoc.HelpDoc> = []
    const presenter: CliOutput.Presenter = {
      present: (event) =>
        Effect.sync(() => {
          if (event._tag === 'Help') found.push(event.helpDoc)
        }),
    }
    yield* Command.runWith(program, { version: '' })([...path, '--help']).pipe(
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

/** The examples, unless they only repeat the heading. */
const examplesOf = (heading: string, examples: ReadonlyArray<HelpDoc.ExampleDoc>): ReadonlyArray<string> => {
  const [first, ...more] = examples
  if (first === undefined || (more.length === 0 && first.command === heading)) return []
  return more.length === 0 && first.description === undefined
    ? [`Example: \`${first.command}\``]
    : [['```sh', ...examples.map(example), '```'].join('\n')]
}

const section = (program: string, { command, path }: NamedCommand, doc: HelpDoc.HelpDoc): string => {
  const changes = Context.get(command.annotations, Changes)
  const list = bullets(doc)
  const heading = `${program} ${path.join(' ')}`
  return [
    `### ${heading}`,
    wrap(doc.description.replace(`\n\nChanges: ${changes}`, '')),
    ...(changes === NOTHING ? [] : [wrap(`_Changes:_ ${changes}`)]),
    ...(list.length === 0 ? [] : [list.join('\n')]),
    ...examplesOf(heading, doc.examples ?? []),
  ].join('\n\n')
}

/** `introduction`: the page before the commands. */
export const referencePage = <Name extends string, Input, ContextInput, E>(
  program: Command.Command<Name, Input, ContextInput, E, Command.Environment | Stdio.Stdio>,
  introduction: string,
): Effect.Effect<string> =>
  Effect.gen(function* () {
    const parts: Array<string> = [introduction.trimEnd()]
    for (const group of program.subcommands.flatMap(({ commands }) => commands)) {
      parts.push(`## ${group.name}`)
      if (group.subcommands.length > 0) parts.push(wrap(group.description ?? ''))
      for (const command of commandsOf(group, [group.name])) {
        parts.push(section(program.name, command, yield* helpOf(program, command.path)))
      }
    }
    return `${parts.join('\n\n')}\n`
  })
