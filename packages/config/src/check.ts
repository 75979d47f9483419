/** Validates all settings of a process at its start, and reports every invalid one. */
import * as Config from 'effect/Config'
import * as Data from 'effect/Data'
import * as Effect from 'effect/Effect'
import * as Result from 'effect/Result'
import { catalogue } from './catalogue/index.ts'
import { rules } from './rules.ts'
import { type App, invalidSettingOf, NOT_SET, type Setting, InvalidSetting } from './setting.ts'
import { unknownVariables } from './unknown.ts'

/** The process cannot start. A retry with the same environment fails in the same way. */
class SettingsInvalid extends Data.TaggedError('SettingsInvalid')<{
  readonly mistakes: ReadonlyArray<InvalidSetting>
}> {
  override readonly message = `invalid settings: ${this.mistakes.map(({ variable }) => variable).join(', ')}`
}

/** A validation that only the component can do, in addition to the catalogue. */
type ExtraCheck = Effect.Effect<unknown, Config.ConfigError>

const isSet = (setting: Setting<unknown>): Effect.Effect<boolean> =>
  Config.option(Config.String(setting.name)).pipe(
    Effect.map((text) => text._tag === 'Some' && text.value.trim() !== ''),
    Effect.orElseSucceed(() => false),
  )

/** Replaces a `ConfigError` of another source, which could contain a value. */
const UNKNOWN_PROBLEM = new InvalidSetting({
  variable: 'The environment',
  problem: 'cannot be read',
  expected: 'what docs/configuration.md says',
})

/** Returns the problem of a setting, or `null` if it is valid. */
export const validateSetting = (setting: Setting<unknown>): Effect.Effect<InvalidSetting | null> =>
  Effect.map(Effect.result(setting.config), (read) =>
    Result.isFailure(read) ? (invalidSettingOf(read.failure) ?? UNKNOWN_PROBLEM) : null,
  )

/**
 * Returns all problems of the environment of a process: invalid settings, violated rules between
 * settings, and failed extra checks. Each variable is reported once. `hubctl` may start without
 * required settings, because each of its commands needs only some of them.
 */
export const findInvalidSettings = Effect.fnUntraced(function* (
  reader: App | 'hubctl',
  attached: ReadonlyArray<ExtraCheck> = [],
) {
  const own = catalogue.filter(({ readBy }) => readBy.includes(reader))
  const found: Array<InvalidSetting> = []
  const add = (mistake: InvalidSetting): void => {
    if (!found.some(({ variable }) => variable === mistake.variable)) found.push(mistake)
  }
  const given = new Set<string>()
  for (const setting of own) {
    if (yield* isSet(setting)) given.add(setting.name)
    const mistake = yield* validateSetting(setting)
    if (mistake !== null && (mistake.problem !== NOT_SET || reader !== 'hubctl')) add(mistake)
  }
  for (const { about, mistakes } of rules) {
    if (!about.every((setting) => own.includes(setting))) continue
    for (const mistake of mistakes(({ name }) => given.has(name))) add(mistake)
  }
  for (const rule of attached) {
    const outcome = yield* Effect.result(rule)
    // A missing setting that the check needs is already reported.
    if (Result.isFailure(outcome)) add(invalidSettingOf(outcome.failure) ?? UNKNOWN_PROBLEM)
  }
  return found
})

/**
 * Validates the settings. It logs a warning for each unknown variable that begins with `HUB_`, and
 * fails with all problems at once. `names`: environment variables.
 */
export const checkSettings = Effect.fnUntraced(function* (
  reader: App | 'hubctl',
  attached: ReadonlyArray<ExtraCheck> = [],
  names: ReadonlyArray<string> = Object.keys(process.env),
) {
  for (const { name, nearest } of unknownVariables(names)) {
    yield* Effect.logWarning(
      nearest === null
        ? `${name} is no setting of the hub and has no effect`
        : `${name} is no setting of the hub and has no effect; ${nearest} is`,
    )
  }
  const mistakes = yield* findInvalidSettings(reader, attached)
  if (mistakes.length === 0) return
  for (const { message, variable } of mistakes) {
    yield* Effect.annotateLogs(Effect.logError(message), { variable })
  }
  return yield* new SettingsInvalid({ mistakes })
})
