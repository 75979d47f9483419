/**
 * The settings of a process looked at as a whole, before anything connects: a start that fails
 * names every mistake, not the first one.
 */
import * as Config from 'effect/Config'
import * as Data from 'effect/Data'
import * as Effect from 'effect/Effect'
import * as Result from 'effect/Result'
import { catalogue } from './catalogue/index.ts'
import { rules } from './rules.ts'
import { type App, invalidSettingOf, NOT_SET, type Setting, InvalidSetting } from './setting.ts'
import { unknownVariables } from './unknown.ts'

/** The process cannot start. A retry with the same environment fails in the same way. */
export class SettingsInvalid extends Data.TaggedError('SettingsInvalid')<{
  readonly mistakes: ReadonlyArray<InvalidSetting>
}> {
  override readonly message = `not as they must be: ${this.mistakes.map(({ variable }) => variable).join(', ')}`
}

/** A part's rule that is more than the catalogue knows. */
export type ExtraCheck = Effect.Effect<unknown, Config.ConfigError>

const isSet = (setting: Setting<unknown>): Effect.Effect<boolean> =>
  Config.option(Config.String(setting.name)).pipe(
    Effect.map((text) => text._tag === 'Some' && text.value.trim() !== ''),
    Effect.orElseSucceed(() => false),
  )

/** A `ConfigError` that is none of ours names no variable and could repeat a value. */
const FOREIGN = new InvalidSetting({
  variable: 'The environment',
  problem: 'cannot be read',
  expected: 'what docs/configuration.md says',
})

/** The mistake in one setting; `null` where it is right. */
export const validateSetting = (setting: Setting<unknown>): Effect.Effect<InvalidSetting | null> =>
  Effect.map(Effect.result(setting.config), (read) =>
    Result.isFailure(read) ? (invalidSettingOf(read.failure) ?? FOREIGN) : null,
  )

/**
 * Everything that is wrong with the environment of a process: each setting that it reads, the rules
 * between them, and what its parts attach. A variable is told once. `hubctl` has nothing that it
 * must be given at its start: its commands ask for what they need.
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
    if (Result.isFailure(outcome)) add(invalidSettingOf(outcome.failure) ?? FOREIGN)
  }
  return found
})

/**
 * To be done first of all. Warns of variables that begin with `HUB_` and are no setting, and fails
 * with every mistake at once. `names`: of the environment's variables.
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
