/** Generates `docs/configuration.md` from the catalogue. */
import { catalogue, settings } from './catalogue/index.ts'
import { dangers } from './dangers.ts'
import { rules } from './rules.ts'
import { fileVariable } from './secret-file.ts'
import { GROUPS, type Group, type Setting } from './setting.ts'

/** Escapes pipes, which would end a table cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|')

const defaultOf = ({ need, otherwise }: Setting<unknown>): string => {
  switch (need) {
    case 'required':
      return '**required**'
    case 'default':
      return otherwise === '' ? 'empty' : `\`${otherwise}\``
    case 'optional':
      return otherwise ?? ''
  }
}

const valueOf = ({ kind, unit }: Setting<unknown>): string =>
  `${kind.secret ? 'secret: ' : ''}${kind.expected}${unit === null ? '' : ` (${unit})`}`

const HEAD = ['variable', 'value', 'default', 'read by', 'meaning']

const row = (setting: Setting<unknown>): ReadonlyArray<string> =>
  [`\`${setting.name}\``, valueOf(setting), defaultOf(setting), setting.readBy.join(', '), setting.doc].map(
    cell,
  )

/** Formats a table with aligned columns, like the formatter of the repository. */
const table = (rows: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const widths = HEAD.map((_, column) =>
    Math.max(...[HEAD, ...rows].map((cells) => cells[column]?.length ?? 0)),
  )
  const line = (cells: ReadonlyArray<string>): string =>
    `| ${cells.map((text, column) => text.padEnd(widths[column] ?? 0)).join(' | ')} |`
  return [line(HEAD), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)]
}

const section = (group: Group): string => {
  const own = catalogue.filter((setting) => setting.group === group)
  const between = rules.filter(({ about }) => about.every((setting) => setting.group === group))
  return [
    `## ${GROUPS[group]}`,
    '',
    ...table(own.map(row)),
    ...between.flatMap(({ sentence }) => ['', sentence]),
    '',
  ].join('\n')
}

/** The rules between settings of different groups. */
const across = (): string =>
  rules
    .filter(({ about }) => new Set(about.map(({ group }) => group)).size > 1)
    .map(({ sentence }) => `${sentence}\n`)
    .join('\n')

/** The settings that production refuses. */
const dangerous = (): string =>
  [
    '## Dangerous settings',
    '',
    `With \`${settings.deployment.name}=production\`, which is the default, no process starts with one of these settings:`,
    '',
    ...dangers.map(({ sentence }) => `- ${sentence}`),
    '',
    '`hubctl config` refuses them in every deployment: it prints them, and its exit code is 1.',
    '',
  ].join('\n')

/** Secrets in files. */
const secretFiles = (): string =>
  [
    '## Secrets in files',
    '',
    'Each secret of an app or of hubctl can be in a file. Its variable with `_FILE` at the end names the file:',
    `\`${fileVariable(settings.masterKey.name)}=/run/secrets/master-key\`. The hub removes one line break at the end of the file.`,
    `A process reads the file when it starts, so restart it after a change. Only the file of \`${settings.transitToken.name}\` is read`,
    'again for each request, because another program replaces it.',
    '',
    'No process starts if both variables are set, or if the file is missing, empty, larger than 64 KiB, or usable by every',
    'user. The last bits of its mode must be 0, as in 0400 and 0440. Volumes of Kubernetes have the mode 0644 unless',
    '`defaultMode` is set: set it to `0440`. The group of the files is the `fsGroup` of the pod, which is the group of the hub',
    'in `infra/k8s` ([example](deploying.md#secrets-in-files)). Credentials of systemd have the mode 0400.',
    '',
  ].join('\n')

export const configurationPage = (): string =>
  [
    '# Configuration',
    '',
    'This page is generated from the catalogue of settings (`packages/config`) with',
    '`npm run generate`.',
    '',
    'All settings are environment variables. An empty variable counts as unset. Each process validates all of its settings',
    'before it connects to anything. It logs every problem with the name of the variable, never with its value, and ends with',
    'exit code 1. It logs a warning for each variable that begins with `HUB_` or `OTEL_` and is not on this page.',
    '`hubctl config` prints the effective settings.',
    '',
    across(),
    secretFiles(),
    dangerous(),
    ...(Object.keys(GROUPS) as ReadonlyArray<Group>).map(section),
  ].join('\n')
