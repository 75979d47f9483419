/** `hubctl config`: the catalogue of settings, and what of it is in force. */
import { APPS, catalogue, findInvalidSettings, validateSetting, type Reader, type Setting } from '@hub/config'
import { Config, ConfigProvider, Effect, Option, Result } from 'effect'
import { Flag } from 'effect/cli'
import { defineCommand, NOTHING } from '../command-line/command.ts'
import { refused } from '../command-line/failure.ts'
import { show, table } from '../command-line/output.ts'
import { findHub, readIfThere, Environment } from '../config.ts'

/** The settings of the hub that was found, or the environment as it is: this command needs no hub. */
const anyEnvironment = ConfigProvider.layer(
  Effect.gen(function* () {
    const own = yield* Environment
    const hub = findHub(own, readIfThere)
    return ConfigProvider.fromEnv({ env: Result.isSuccess(hub) ? hub.success.variables : own })
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
  /** As it was given, or the default; `null` where there is none, and of secrets always. */
  readonly value: string | null
  readonly problem: string | null
}

const rowOf = (setting: Setting<unknown>) =>
  Effect.gen(function* () {
    const { doc, kind, name, need, otherwise, readBy, unit } = setting
    const given = yield* Config.option(Config.String(name)).pipe(
      Effect.map(Option.filter((text) => text.trim() !== '')),
    )
    const mistake = yield* validateSetting(setting)
    const isSet = Option.isSome(given)
    return {
      name,
      type: kind.type,
      unit,
      expected: kind.expected,
      need,
      default: need === 'default' ? otherwise : null,
      secret: kind.secret,
      read_by: readBy,
      doc,
      is_set: isSet,
      // What is wrong may be a secret in the wrong place.
      value:
        kind.secret || mistake !== null ? null : isSet ? given.value : need === 'default' ? otherwise : null,
      problem: mistake === null ? null : mistake.problem,
    } satisfies Row
  })

const shown = (row: Row): string => {
  if (row.problem !== null) return row.problem
  if (row.secret) return row.is_set ? '(set)' : '(not set)'
  return row.value === null ? '(not set)' : row.value === '' ? '(empty)' : row.value
}

export const config = defineCommand(
  'config',
  {
    short: 'Every setting, and what is in force',
    about:
      'Prints the catalogue of settings with what this environment, or the local hub, makes of it. Secrets are only said to be set or not. With --app, ' +
      'the settings of that process alone, and the exit code is 1 where it would not start with them.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl config', description: 'What hubctl itself works with' },
      { command: 'hubctl config --app dispatcher', description: 'Whether a dispatcher would start here' },
      { command: 'hubctl config --json', description: 'With types, units, defaults and explanations' },
    ],
    needs: anyEnvironment,
  },
  {
    app: Flag.Literals('app', [...APPS, 'hubctl', 'all'] as const).pipe(
      Flag.withDescription('Whose settings; all: of everybody, and of developers too'),
      Flag.withDefault('hubctl' as const),
    ),
  },
  Effect.fnUntraced(function* ({ app }) {
    const own =
      app === 'all' ? catalogue : catalogue.filter(({ readBy }) => readBy.includes(app satisfies Reader))
    const rows: ReadonlyArray<Row> = yield* Effect.forEach(own, rowOf)
    const isApp = app !== 'all' && app !== 'hubctl'
    const mistakes = isApp ? yield* findInvalidSettings(app) : []
    yield* show(
      { object: 'settings', app, data: rows, mistakes: mistakes.map(({ message }) => message) },
      () =>
        table(rows, {
          setting: ({ name }) => name,
          value: shown,
          from: (row) => (row.is_set ? 'environment' : row.default === null ? '' : 'default'),
          'what it is': ({ doc }) => doc,
        }),
    )
    if (mistakes.length > 0) {
      return yield* refused('settings_invalid', mistakes.map(({ message }) => message).join(' '))
    }
  }),
)
