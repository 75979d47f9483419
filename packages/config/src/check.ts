/** Validates all settings of a process at its start, and reports every invalid one. */
import type * as Config from 'effect/Config'
import * as Data from 'effect/Data'
import * as Effect from 'effect/Effect'
import * as Result from 'effect/Result'
import { catalogue, settings } from './catalogue/index.ts'
import { dangers } from './dangers.ts'
import { hasOuterSpace } from './kinds.ts'
import { type Rule, rules } from './rules.ts'
import {
  type AnyApp,
  invalidSettingOf,
  InvalidSetting,
  isSet,
  NOT_SET,
  type Setting,
  textOfSetting,
} from './setting.ts'
import { describeUnknown, unknownVariables } from './unknown.ts'

/** The process cannot start. A retry with the same environment fails in the same way. */
class SettingsInvalid extends Data.TaggedError('SettingsInvalid')<{
  readonly mistakes: ReadonlyArray<InvalidSetting>
}> {
  override readonly message = `invalid settings: ${this.mistakes.map(({ variable }) => variable).join(', ')}`
}

/** A validation that only the component can do, in addition to the catalogue. */
type ExtraCheck = Effect.Effect<unknown, Config.ConfigError>

/** The secrets of a process whose text begins or ends with a space. In a password, it may be right. */
const secretsWithOuterSpace = (reader: AnyApp | 'hubctl') =>
  Effect.filter(
    catalogue.filter(({ kind, readBy }) => kind.secret && readBy.includes(reader)),
    (setting) =>
      textOfSetting(setting).pipe(
        Effect.map((text) => text._tag === 'Some' && hasOuterSpace(text.value)),
        Effect.orElseSucceed(() => false),
      ),
  )

/** Replaces a `ConfigError` of another source, which could contain a value. */
const UNKNOWN_PROBLEM = new InvalidSetting({
  variable: 'The environment',
  problem: 'cannot be read',
  expected: 'what docs/configuration.md says',
})

const problemOf = (error: Config.ConfigError): InvalidSetting => invalidSettingOf(error) ?? UNKNOWN_PROBLEM

/** Returns the problem of a setting, or `null` if it is valid. */
export const validateSetting = (setting: Setting<unknown>): Effect.Effect<InvalidSetting | null> =>
  Effect.map(Effect.result(setting.config), (read) =>
    Result.isFailure(read) ? problemOf(read.failure) : null,
  )

/** A process, or all of them. */
type Selection = AnyApp | 'hubctl' | 'all'

/** Reads the settings of a process. `add` gets the problem of each setting. */
const readSettings = Effect.fnUntraced(function* (reader: Selection, add: (mistake: InvalidSetting) => void) {
  const own = catalogue.filter(({ readBy }) => reader === 'all' || readBy.includes(reader))
  const given = new Set<string>()
  const values = new Map<Setting<unknown>, unknown>()
  for (const setting of own) {
    if (yield* Effect.orElseSucceed(isSet(setting), () => false)) given.add(setting.name)
    const read = yield* Effect.result(setting.config)
    if (Result.isSuccess(read)) values.set(setting, read.success)
    else add(problemOf(read.failure))
  }
  const valueOf = <A>(setting: Setting<A>) => values.get(setting) as A | undefined
  return {
    valueOf,
    /** Returns the violations of the rules whose settings the process reads. */
    violations: (all: ReadonlyArray<Rule>): ReadonlyArray<InvalidSetting> =>
      all
        .filter(({ about }) => about.every((setting) => own.includes(setting)))
        .flatMap(({ mistakes }) => mistakes(({ name }) => given.has(name), valueOf)),
  }
})

/**
 * Returns all problems of the environment of a process: invalid settings, violated rules between
 * settings, dangerous settings of a production hub, and failed extra checks. Each variable is
 * reported once. `hubctl` may start without required settings, because each of its commands needs
 * only some of them.
 */
export const findInvalidSettings = Effect.fnUntraced(function* (
  reader: AnyApp | 'hubctl',
  attached: ReadonlyArray<ExtraCheck> = [],
) {
  const found: Array<InvalidSetting> = []
  const add = (mistake: InvalidSetting): void => {
    if (!found.some(({ variable }) => variable === mistake.variable)) found.push(mistake)
  }
  const addIfNeeded = (mistake: InvalidSetting): void => {
    if (mistake.problem !== NOT_SET || reader !== 'hubctl') add(mistake)
  }
  const read = yield* readSettings(reader, addIfNeeded)
  for (const mistake of read.violations(rules)) addIfNeeded(mistake)
  if (read.valueOf(settings.deployment) !== 'development') {
    for (const mistake of read.violations(dangers)) add(mistake)
  }
  for (const rule of attached) {
    const outcome = yield* Effect.result(rule)
    // A missing setting that the check needs is already reported.
    if (Result.isFailure(outcome)) add(problemOf(outcome.failure))
  }
  return found
})

/** Returns the dangerous settings of a process, also in a deployment for development. */
export const findDangerousSettings = Effect.fnUntraced(function* (reader: Selection) {
  const { violations } = yield* readSettings(reader, () => {})
  return violations(dangers)
})

/**
 * Validates the settings. It logs a warning for each unknown variable that begins like one, and for each secret with
 * a space at an end, and fails with all problems at once. `names`: environment variables.
 */
export const checkSettings = Effect.fnUntraced(function* (
  reader: AnyApp | 'hubctl',
  attached: ReadonlyArray<ExtraCheck> = [],
  names: ReadonlyArray<string> = Object.keys(process.env),
) {
  for (const unknown of unknownVariables(names)) yield* Effect.logWarning(describeUnknown(unknown))
  for (const { name } of yield* secretsWithOuterSpace(reader))
    yield* Effect.logWarning(
      `${name} begins or ends with a space. Remove it if it is not part of the secret.`,
    )
  const mistakes = yield* findInvalidSettings(reader, attached)
  if (mistakes.length === 0) return
  for (const { message, variable } of mistakes) {
    yield* Effect.annotateLogs(Effect.logError(message), { variable })
  }
  return yield* new SettingsInvalid({ mistakes })
})
