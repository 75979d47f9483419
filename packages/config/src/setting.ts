/** A setting: one environment variable with its kind, documentation and reader. */
import * as Config from 'effect/Config'
import * as ConfigProvider from 'effect/ConfigProvider'
import * as Data from 'effect/Data'
import * as Effect from 'effect/Effect'
import * as Option from 'effect/Option'
import * as Result from 'effect/Result'
import type { Kind } from './kinds.ts'
import { fileVariable, readSecretFile, SECRET_FILE } from './secret-file.ts'

/** The apps that messages and events pass. */
export const APPS = ['command-api', 'dispatcher', 'projector', 'webhook-fanout'] as const
export type App = (typeof APPS)[number]

/** All apps: also the one that only hub staff use. */
export const ALL_APPS = [...APPS, 'operations-api'] as const
export type AnyApp = (typeof ALL_APPS)[number]

/** The programs that read settings: the apps, the command line, and development tools. */
export type Reader = AnyApp | 'hubctl' | 'npm start' | 'operator simulator' | 'tests'

/** The groups with their headings, in the order of the documentation. */
export const GROUPS = {
  servers: 'PostgreSQL, Redis and Kafka',
  secrets: 'Keys and secrets',
  process: 'Every process',
  telemetry: 'Traces: the variables of OpenTelemetry',
  api: 'The API',
  messages: 'Lifetimes of messages',
  smpp: 'The operator of live keys, over SMPP',
  http: 'The operator of live keys, over HTTP',
  words: 'What recipients write',
  webhooks: 'Webhooks',
  operations: 'The operations API and its console',
  local: "On a developer's machine: `npm start`",
  simulator: "On a developer's machine: the operator simulator",
  tests: "On a developer's machine: tests",
} as const
export type Group = keyof typeof GROUPS

/** A setting before `inGroup` adds its group. */
interface UngroupedSetting<out A> {
  /** The environment variable. */
  readonly name: string
  readonly kind: Kind<unknown>
  /** The unit of a number, `null` if it is obvious. */
  readonly unit: string | null
  /**
   * `required`: a process does not start without it. `default`: `otherwise` is the default value as
   * text. `optional`: `otherwise` describes the behavior without it.
   */
  readonly need: 'required' | 'default' | 'optional'
  readonly otherwise: string | null
  readonly readBy: ReadonlyArray<Reader>
  /** One or two sentences for the operators of a hub. */
  readonly doc: string
  /**
   * Reads the setting. Fails with a `ConfigError` that names the problem and the expected value
   * (`invalidSettingOf`), but never the given value.
   */
  readonly config: Config.Config<A>
}

export interface Setting<out A> extends UngroupedSetting<A> {
  readonly group: Group
}

interface Description extends Pick<Setting<unknown>, 'name' | 'readBy' | 'doc'> {
  readonly unit?: string
}

/** A problem of one environment variable. */
export class InvalidSetting extends Data.TaggedError('InvalidSetting')<{
  readonly variable: string
  /** The problem, as the end of a sentence about the variable. */
  readonly problem: string
  /** The expected value as a noun phrase. */
  readonly expected: string
}> {
  override readonly message = `${this.variable} ${this.problem}. Expected: ${this.expected}.`
}

/** The problem of an unset or empty variable. */
export const NOT_SET = 'is not set'

const configError = (mistake: InvalidSetting): Config.ConfigError =>
  new Config.ConfigError(new ConfigProvider.SourceError({ message: mistake.message, cause: mistake }))

/** Returns the problem, or `null` for another error, whose text could contain a value. */
export const invalidSettingOf = (error: Config.ConfigError): InvalidSetting | null =>
  error.cause._tag === 'SourceError' && error.cause.cause instanceof InvalidSetting ? error.cause.cause : null

/** Reads the text of a variable. An empty text counts as unset. */
const textOf = (name: string): Config.Config<Option.Option<string>> =>
  Config.option(Config.String(name)).pipe(Config.map(Option.filter((text) => text.trim() !== '')))

const failure = (variable: string, problem: string, expected: string) =>
  Effect.fail(configError(new InvalidSetting({ variable, problem, expected })))

/** Whether the value may be in a file: it is a secret of an app or of hubctl. */
export const mayBeInFile = ({ kind, readBy }: Pick<Setting<unknown>, 'kind' | 'readBy'>): boolean =>
  kind.secret && readBy.some((reader) => reader === 'hubctl' || ALL_APPS.some((app) => app === reader))

type Origin = Pick<Setting<unknown>, 'name' | 'kind' | 'readBy'>

/** Whether the setting is in the environment, itself or with the name of its file. */
export const isSet = (setting: Origin): Config.Config<boolean> =>
  Config.all(
    (mayBeInFile(setting) ? [setting.name, fileVariable(setting.name)] : [setting.name]).map(textOf),
  ).pipe(Config.map((texts) => texts.some(Option.isSome)))

/** Reads the text of a setting: from its variable, or from the file that its second variable names. */
export const textOfSetting = (setting: Origin): Config.Config<Option.Option<string>> => {
  const { name } = setting
  if (!mayBeInFile(setting)) return textOf(name)
  const variable = fileVariable(name)
  return Config.all([textOf(name), textOf(variable)]).pipe(
    Config.mapEffect(([text, file]): Effect.Effect<Option.Option<string>, Config.ConfigError> => {
      if (Option.isNone(file)) return Effect.succeed(text)
      if (Option.isSome(text)) {
        return failure(variable, `is set, and so is ${name}`, 'one of the two')
      }
      return Effect.suspend(() => {
        const read = readSecretFile(file.value.trim())
        return Result.isSuccess(read)
          ? Effect.succeed(Option.some(read.success))
          : failure(variable, read.failure, SECRET_FILE)
      })
    }),
  )
}

const make = <A, Unset>(
  kind: Kind<A>,
  need: Setting<A>['need'],
  otherwise: string | null,
  description: Description,
  whenUnset: Effect.Effect<Unset, Config.ConfigError>,
): UngroupedSetting<A | Unset> => ({
  unit: null,
  ...description,
  kind,
  need,
  otherwise,
  config: textOfSetting({ ...description, kind }).pipe(
    Config.mapEffect((text): Effect.Effect<A | Unset, Config.ConfigError> => {
      if (Option.isNone(text)) return whenUnset
      return read(kind, description.name, text.value)
    }),
  ),
})

const read = <A>(kind: Kind<A>, name: string, text: string): Effect.Effect<A, Config.ConfigError> => {
  const value = kind.read(text)
  return Result.isSuccess(value) ? Effect.succeed(value.success) : failure(name, value.failure, kind.expected)
}

/** A setting that a process needs to start. */
export const required = <A>(kind: Kind<A>, description: Description): UngroupedSetting<A> =>
  make(kind, 'required', null, description, failure(description.name, NOT_SET, kind.expected))

/** A setting with the default `otherwise`. */
export const withDefault = <A>(
  kind: Kind<A>,
  otherwise: string,
  description: Description,
): UngroupedSetting<A> =>
  make(
    kind,
    'default',
    otherwise,
    description,
    Effect.suspend(() => read(kind, description.name, otherwise)),
  )

/** A setting that is `null` when unset. `otherwise` describes that case. */
export const optional = <A>(
  kind: Kind<A>,
  otherwise: string,
  description: Description,
): UngroupedSetting<A | null> => make(kind, 'optional', otherwise, description, Effect.succeed(null))

export const inGroup = <const S extends Readonly<Record<string, UngroupedSetting<unknown>>>>(
  group: Group,
  settings: S,
) =>
  Object.fromEntries(Object.entries(settings).map(([name, setting]) => [name, { ...setting, group }])) as {
    readonly [Name in keyof S]: S[Name] & { readonly group: Group }
  }

/** Adds a validation. Its error is the end of a sentence about the variable. */
export const refineSetting = <A, B>(
  setting: Setting<A>,
  rule: (value: A) => Result.Result<B, string>,
): Config.Config<B> =>
  setting.config.pipe(
    Config.mapEffect((value) => {
      const refinedValue = rule(value)
      return Result.isSuccess(refinedValue)
        ? Effect.succeed(refinedValue.success)
        : Effect.fail(settingError(setting, refinedValue.failure))
    }),
  )

/** Makes the error of a setting that a component found invalid. */
export const settingError = (
  setting: Setting<unknown>,
  problem: string,
  expected: string = setting.kind.expected,
): Config.ConfigError => configError(new InvalidSetting({ variable: setting.name, problem, expected }))
