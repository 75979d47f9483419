/** Rules between settings. They depend only on which settings are set. */
import { settings } from './catalogue/index.ts'
import { NOT_SET, type Setting, InvalidSetting } from './setting.ts'

export interface Rule {
  readonly about: ReadonlyArray<Setting<unknown>>
  /** The rule as a sentence for the documentation. */
  readonly sentence: string
  /** Returns the violations for a set of variables. */
  readonly mistakes: (isSet: (setting: Setting<unknown>) => boolean) => ReadonlyArray<InvalidSetting>
}

/** If the first setting is set, the others are required. */
const needs = (first: Setting<unknown>, ...others: ReadonlyArray<Setting<unknown>>): Rule => ({
  about: [first, ...others],
  sentence: `If \`${first.name}\` is set, ${others.map(({ name }) => `\`${name}\``).join(' and ')} must be set too.`,
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
  sentence: `\`${one.name}\` and \`${other.name}\` must be set together.`,
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
