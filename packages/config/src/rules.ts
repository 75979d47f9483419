/** What holds between settings, as far as it is a matter of which of them are set. */
import { settings } from './catalogue/index.ts'
import { NOT_SET, type Setting, InvalidSetting } from './setting.ts'

export interface Rule {
  /** The settings that it is about. */
  readonly about: ReadonlyArray<Setting<unknown>>
  /** For people, as a whole sentence. */
  readonly sentence: string
  /** What is wrong where just these are set. */
  readonly mistakes: (isSet: (setting: Setting<unknown>) => boolean) => ReadonlyArray<InvalidSetting>
}

/** Where the first is set, the others have to be as well. */
const needs = (first: Setting<unknown>, ...others: ReadonlyArray<Setting<unknown>>): Rule => ({
  about: [first, ...others],
  sentence: `Where \`${first.name}\` is set, ${others.map(({ name }) => `\`${name}\``).join(' and ')} must be too.`,
  mistakes: (isSet) =>
    isSet(first)
      ? others
          .filter((other) => !isSet(other))
          .map(
            ({ kind, name }) =>
              new InvalidSetting({
                variable: name,
                problem: `${NOT_SET}, and ${first.name} is`,
                expected: kind.expected,
              }),
          )
      : [],
})

const notBoth = (one: Setting<unknown>, other: Setting<unknown>, why: string): Rule => ({
  about: [one, other],
  sentence: `\`${one.name}\` and \`${other.name}\` exclude each other: ${why}.`,
  mistakes: (isSet) =>
    isSet(one) && isSet(other)
      ? [
          new InvalidSetting({
            variable: one.name,
            problem: `is set, and so is ${other.name}`,
            expected: `one of the two, since ${why}`,
          }),
        ]
      : [],
})

const together = (one: Setting<unknown>, other: Setting<unknown>): Rule => ({
  about: [one, other],
  sentence: `\`${one.name}\` and \`${other.name}\` go together.`,
  mistakes: (isSet) => [...needs(one, other).mistakes(isSet), ...needs(other, one).mistakes(isSet)],
})

export const rules: ReadonlyArray<Rule> = [
  needs(settings.kafkaCaFile, settings.kafkaTls),
  together(settings.kafkaUsername, settings.kafkaPassword),
  notBoth(settings.operatorSmppUrl, settings.operatorHttpUrl, 'live keys have one operator'),
  needs(settings.operatorSmppUrl, settings.operatorSmppPassword),
  needs(settings.operatorHttpUrl, settings.operatorHttpSecret, settings.operatorCallbackPort),
  together(settings.tlsCertFile, settings.tlsKeyFile),
]
