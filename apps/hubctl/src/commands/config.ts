/** `hubctl config`: the catalogue of settings, with their effective values. */
import { NOTHING, printNote, refused, show, table } from '@hub/command-line'
import {
  ALL_APPS,
  catalogue,
  describeUnknown,
  findDangerousSettings,
  findInvalidSettings,
  isSet,
  type Reader,
  type Setting,
  textOfSetting,
  unknownVariables,
  validateSetting,
} from '@hub/config'
import { ConfigProvider, Effect, Option, Result } from 'effect'
import { Flag } from 'effect/cli'
import { defineCommand } from '../command-line/command.ts'
import { Environment, findHub } from '../config.ts'

/** The settings of the selected hub or, without a hub, the environment of the process. */
const anyEnvironment = ConfigProvider.layer(
  Effect.gen(function* () {
    const environment = yield* Environment
    const hub = findHub(environment)
    return ConfigProvider.fromEnv({ env: Result.isSuccess(hub) ? hub.success.variables : environment })
  }),
)

interface Row {
  readonly name: string
  readonly type: string
  readonly unit: string | null
  readonly expected: string
  readonly need: string
  readonly default: string | null
  readonly secret: boolean
  readonly read_by: ReadonlyArray<string>
  readonly doc: string
  readonly is_set: boolean
  /** The given or default value; `null` without a value, and for secrets. */
  readonly value: string | null
  readonly problem: string | null
}

const readRow = (setting: Setting<unknown>) =>
  Effect.gen(function* () {
    const { doc, kind, name, need, otherwise, readBy, unit } = setting
    const mistake = yield* validateSetting(setting)
    // A file that cannot be read is a mistake.
    const given = mistake === null ? yield* textOfSetting(setting) : Option.none()
    const defaultValue = need === 'default' ? otherwise : null
    return {
      name,
      type: kind.type,
      unit,
      expected: kind.expected,
      need,
      default: defaultValue,
      secret: kind.secret,
      read_by: readBy,
      doc,
      is_set: yield* isSet(setting),
      // An invalid value may be a secret in the wrong variable.
      value: kind.secret || mistake !== null ? null : Option.getOrElse(given, () => defaultValue),
      problem: mistake === null ? null : mistake.problem,
    } satisfies Row
  })

const valueText = (row: Row): string => {
  if (row.problem !== null) return row.problem
  if (row.secret) return row.is_set ? '(set)' : '(not set)'
  return row.value === null ? '(not set)' : row.value === '' ? '(empty)' : row.value
}

export const config = defineCommand(
  'config',
  {
    short: 'Show all settings and their values',
    about:
      'Shows the catalogue of settings with the values of this environment or of the local hub. Of ' +
      'secrets it shows only whether they are set. With --app it shows the settings of one process, and ' +
      'the exit code is 1 if the process would not start with them. It is also 1 with dangerous settings, ' +
      'which a hub for production refuses: see docs/configuration.md.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl config', description: 'The settings of hubctl itself' },
      { command: 'hubctl config --app dispatcher', description: 'Whether a dispatcher would start here' },
      { command: 'hubctl config --json', description: 'With types, units, defaults and descriptions' },
    ],
    notOverApi: 'it shows the settings of this machine',
    needs: anyEnvironment,
  },
  {
    app: Flag.Literals('app', [...ALL_APPS, 'hubctl', 'all'] as const).pipe(
      Flag.withDescription('The process. all: every process, and development'),
      Flag.withDefault('hubctl' as const),
    ),
  },
  Effect.fnUntraced(function* ({ app }) {
    const own =
      app === 'all' ? catalogue : catalogue.filter(({ readBy }) => readBy.includes(app satisfies Reader))
    const rows: ReadonlyArray<Row> = yield* Effect.forEach(own, readRow)
    const isApp = app !== 'all' && app !== 'hubctl'
    const invalid = isApp ? yield* findInvalidSettings(app) : []
    const dangerous = (yield* findDangerousSettings(app)).filter(
      ({ variable }) => !invalid.some((mistake) => mistake.variable === variable),
    )
    for (const unknown of unknownVariables(Object.keys(yield* Environment))) {
      yield* printNote(`hubctl: ${describeUnknown(unknown)}`)
    }
    const mistakes = [...invalid, ...dangerous].map(({ message }) => message)
    yield* show({ object: 'settings', app, data: rows, mistakes }, () =>
      table(rows, {
        setting: ({ name }) => name,
        value: valueText,
        from: (row) => (row.is_set ? 'environment' : row.default === null ? '' : 'default'),
        meaning: ({ doc }) => doc,
      }),
    )
    if (mistakes.length > 0) return yield* refused('settings_invalid', mistakes.join(' '))
  }),
)
