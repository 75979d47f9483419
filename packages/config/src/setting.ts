/** A setting: one environment variable, with all that there is to say about it. */
import * as Config from 'effect/Config'
import * as ConfigProvider from 'effect/ConfigProvider'
import * as Data from 'effect/Data'
import * as Effect from 'effect/Effect'
import * as Option from 'effect/Option'
import * as Result from 'effect/Result'
import type { Kind } from './kinds.ts'

/** The processes of a hub. */
export const APPS = ['command-api', 'dispatcher', 'projector', 'webhook-fanout'] as const
export type App = (typeof APPS)[number]

/**
 * Who reads a setting: besides the apps, the command line, and what exists on developers' machines
 * only.
 */
export type Reader = App | 'hubctl' | 'npm start' | 'operator simulator' | 'tests'

/** Under which heading it is documented, in this order. */
export const GROUPS = {
  servers: 'PostgreSQL, Redis and Kafka',
  secrets: 'Keys and secrets',
  process: 'Every process',
  api: 'The API',
  smpp: 'The operator of live keys, over SMPP',
  http: 'The operator of live keys, over HTTP',
  words: 'What recipients write',
  webhooks: 'Webhooks',
  local: "On a developer's machine: `npm start`",
  simulator: "On a developer's machine: the operator simulator",
  tests: "On a developer's machine: tests",
} as const
export type Group = keyof typeof GROUPS

export interface Setting<out A> {
  /** The environment variable. */
  readonly name: string
  readonly kind: Kind<unknown>
  /** What a number counts; `null` where that is plain. */
  readonly unit: string | null
  /**
   * `required`: a process that reads it does not start without it. `default`: `otherwise` is what
   * it then is, as it would be written. `optional`: `otherwise` says in words what then happens.
   */
  readonly need: 'required' | 'default' | 'optional'
  readonly otherwise: string | null
  readonly group: Group
  readonly readBy: ReadonlyArray<Reader>
  /** One or two sentences for the people who run a hub. */
  readonly doc: string
  /**
   * Reads it. An empty variable is an absent one. Fails with a `ConfigError` that says what is
   * wrong and what was expected (`invalidSettingOf`), never what was given.
   */
  readonly config: Config.Config<A>
}

interface Description {
  readonly name: string
  readonly unit?: string
  readonly group: Group
  readonly readBy: ReadonlyArray<Reader>
  readonly doc: string
}

/** One thing that is wrong with the environment. */
export class InvalidSetting extends Data.TaggedError('InvalidSetting')<{
  readonly variable: string
  /** What is wrong, as the end of a sentence about the variable. */
  readonly problem: string
  /** What it must be, as a noun phrase. */
  readonly expected: string
}> {
  override readonly message = `${this.variable} ${this.problem}. Expected: ${this.expected}.`
}

/** What is said of a variable that is absent or empty. */
export const NOT_SET = 'is not set'

const configError = (mistake: InvalidSetting): Config.ConfigError =>
  new Config.ConfigError(new ConfigProvider.SourceError({ message: mistake.message, cause: mistake }))

/** What is wrong, in our words; anything else that a `ConfigError` may say could repeat a value. */
export const invalidSettingOf = (error: Config.ConfigError): InvalidSetting | null =>
  error.cause._tag === 'SourceError' && error.cause.cause instanceof InvalidSetting ? error.cause.cause : null

/** The text of a variable; none where it is absent or empty. */
const textOf = (name: string): Config.Config<Option.Option<string>> =>
  Config.option(Config.String(name)).pipe(Config.map(Option.filter((text) => text.trim() !== '')))

const read = <A>(kind: Kind<A>, name: string, text: string): Effect.Effect<A, Config.ConfigError> => {
  const value = kind.read(text)
  return Result.isSuccess(value)
    ? Effect.succeed(value.success)
    : Effect.fail(
        configError(new InvalidSetting({ variable: name, problem: value.failure, expected: kind.expected })),
      )
}

/** A process that reads it does not start without it. */
export const required = <A>(kind: Kind<A>, description: Description): Setting<A> => ({
  unit: null,
  ...description,
  kind,
  need: 'required',
  otherwise: null,
  config: textOf(description.name).pipe(
    Config.mapEffect((text) =>
      Option.isSome(text)
        ? read(kind, description.name, text.value)
        : Effect.fail(
            configError(
              new InvalidSetting({ variable: description.name, problem: NOT_SET, expected: kind.expected }),
            ),
          ),
    ),
  ),
})

/** Read as `otherwise` where it is absent or empty. */
export const withDefault = <A>(kind: Kind<A>, otherwise: string, description: Description): Setting<A> => ({
  unit: null,
  ...description,
  kind,
  need: 'default',
  otherwise,
  config: textOf(description.name).pipe(
    Config.mapEffect((text) =>
      read(
        kind,
        description.name,
        Option.getOrElse(text, () => otherwise),
      ),
    ),
  ),
})

/** `null` where it is absent or empty; `otherwise` says what that means. */
export const optional = <A>(
  kind: Kind<A>,
  otherwise: string,
  description: Description,
): Setting<A | null> => ({
  unit: null,
  ...description,
  kind,
  need: 'optional',
  otherwise,
  config: textOf(description.name).pipe(
    Config.mapEffect((text): Effect.Effect<A | null, Config.ConfigError> =>
      Option.isSome(text) ? read(kind, description.name, text.value) : Effect.succeed(null),
    ),
  ),
})

/**
 * A setting with the part of its rule that only its owner knows. The rule fails with the end of a
 * sentence about the variable.
 */
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

/** That a setting is wrong, said by its owner. */
export const settingError = (
  setting: Setting<unknown>,
  problem: string,
  expected: string = setting.kind.expected,
): Config.ConfigError => configError(new InvalidSetting({ variable: setting.name, problem, expected }))
