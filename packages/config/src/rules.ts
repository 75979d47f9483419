/** Rules between settings: which of them must be set, and how their values relate. */
import { settings } from './catalogue/index.ts'
import { NOT_SET, type Setting, InvalidSetting } from './setting.ts'

export interface Rule {
  readonly about: ReadonlyArray<Setting<unknown>>
  /** The rule as a sentence for the documentation. */
  readonly sentence: string
  /** Returns the violations. `valueOf` returns `undefined` for a setting with an invalid value. */
  readonly mistakes: (
    isSet: (setting: Setting<unknown>) => boolean,
    valueOf: <A>(setting: Setting<A>) => A | undefined,
  ) => ReadonlyArray<InvalidSetting>
}

const listed = (settings: ReadonlyArray<Setting<unknown>>) =>
  settings.map(({ name }) => `\`${name}\``).join(' and ')

/** If the first setting is set, the others are required. */
const needs = (first: Setting<unknown>, ...others: ReadonlyArray<Setting<unknown>>): Rule => ({
  about: [first, ...others],
  sentence: `If \`${first.name}\` is set, ${listed(others)} must be set too.`,
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

const atMostOne = (why: string, ...alternatives: ReadonlyArray<Setting<unknown>>): Rule => ({
  about: alternatives,
  sentence: `${listed(alternatives)} exclude each other: ${why}.`,
  mistakes: (isSet) => {
    const [first, ...others] = alternatives.filter(isSet)
    return others.map(
      ({ name }) =>
        new InvalidSetting({
          variable: first!.name,
          problem: `is set, and so is ${name}`,
          expected: `one of the two, since ${why}`,
        }),
    )
  },
})

const together = (one: Setting<unknown>, other: Setting<unknown>): Rule => ({
  about: [one, other],
  sentence: `\`${one.name}\` and \`${other.name}\` must be set together.`,
  mistakes: (isSet, valueOf) => [
    ...needs(one, other).mistakes(isSet, valueOf),
    ...needs(other, one).mistakes(isSet, valueOf),
  ],
})

/** The setting has a purpose with one choice of another setting only, which needs it. */
const onlyWith = (choice: Setting<string>, value: string, other: Setting<unknown>): Rule => ({
  about: [other, choice],
  sentence: `\`${other.name}\` must be set if \`${choice.name}\` is \`${value}\`, and only then.`,
  mistakes: (isSet, valueOf) => {
    const chosen = valueOf(choice)
    if (chosen === undefined || (chosen === value) === isSet(other)) return []
    return [
      chosen === value
        ? new InvalidSetting({
            variable: other.name,
            problem: `${NOT_SET}, and ${choice.name} is ${value}`,
            expected: other.kind.expected,
          })
        : new InvalidSetting({
            variable: other.name,
            problem: `is set, and ${choice.name} is not ${value}`,
            expected: `${choice.name}=${value}, or no value`,
          }),
    ]
  },
})

const differ = (why: string, one: Setting<string | null>, other: Setting<string | null>): Rule => ({
  about: [one, other],
  sentence: `${listed([one, other])} must differ: ${why}.`,
  mistakes: (isSet, valueOf) =>
    isSet(one) && isSet(other) && valueOf(one) === valueOf(other)
      ? [
          new InvalidSetting({
            variable: one.name,
            problem: `is the value of ${other.name}`,
            expected: `another value, since ${why}`,
          }),
        ]
      : [],
})

/** The value of the first setting is at least the value of the second. */
const atLeast = (one: Setting<number>, other: Setting<number>, why: string): Rule => ({
  about: [one, other],
  sentence: `\`${one.name}\` must not be lower than \`${other.name}\`: ${why}.`,
  mistakes: (_isSet, valueOf) => {
    const [value, least] = [valueOf(one), valueOf(other)]
    return value === undefined || least === undefined || value >= least
      ? []
      : [
          new InvalidSetting({
            variable: one.name,
            problem: `is lower than ${other.name}`,
            expected: `at least the value of ${other.name}, since ${why}`,
          }),
        ]
  },
})

const NEEDS_MASTER_KEY: Rule = {
  about: [settings.masterKey, settings.keyProvider],
  sentence: `\`${settings.masterKey.name}\` must be set with \`${settings.keyProvider.name}=environment\`, and must not be set with \`transit\`.`,
  mistakes: (isSet, valueOf) => {
    const { kind, name } = settings.masterKey
    const provider = valueOf(settings.keyProvider)
    if (provider === 'environment' && !isSet(settings.masterKey)) {
      return [new InvalidSetting({ variable: name, problem: NOT_SET, expected: kind.expected })]
    }
    if (provider !== 'transit' || !isSet(settings.masterKey)) return []
    return [
      new InvalidSetting({
        variable: name,
        problem: `is set, and ${settings.keyProvider.name} is transit`,
        expected: `no value; a key of existing data belongs in ${settings.previousMasterKeys.name}`,
      }),
    ]
  },
}

const NEEDS_TRANSIT_URL: Rule = {
  about: [settings.transitUrl, settings.keyProvider],
  sentence: `With \`${settings.keyProvider.name}=transit\`, \`${settings.transitUrl.name}\` must be set.`,
  mistakes: (isSet, valueOf) =>
    valueOf(settings.keyProvider) === 'transit' && !isSet(settings.transitUrl)
      ? [
          new InvalidSetting({
            variable: settings.transitUrl.name,
            problem: `${NOT_SET}, and ${settings.keyProvider.name} is transit`,
            expected: settings.transitUrl.kind.expected,
          }),
        ]
      : [],
}

/** Otherwise messages would expire while the operator still tries to deliver them. */
const WHY_REPORTS_ARE_LATER = 'an operator may deliver and report until the lifetime ends'

export const rules: ReadonlyArray<Rule> = [
  NEEDS_MASTER_KEY,
  NEEDS_TRANSIT_URL,
  together(settings.transitUrl, settings.transitKeyName),
  together(settings.transitUrl, settings.transitToken),
  needs(settings.transitCaFile, settings.transitUrl),
  needs(settings.transitNamespace, settings.transitUrl),
  needs(settings.kafkaCaFile, settings.kafkaTls),
  needs(settings.kafkaCertFile, settings.kafkaTls),
  together(settings.kafkaCertFile, settings.kafkaKeyFile),
  together(settings.kafkaUsername, settings.kafkaPassword),
  onlyWith(settings.kafkaMechanism, 'oauthbearer', settings.kafkaTokenUrl),
  needs(settings.kafkaTokenUrl, settings.kafkaUsername, settings.kafkaPassword),
  needs(settings.kafkaTokenScopes, settings.kafkaTokenUrl),
  needs(settings.kafkaTokenParameters, settings.kafkaTokenUrl),
  needs(settings.kafkaExtensions, settings.kafkaTokenUrl),
  atMostOne('live keys have one operator', settings.operatorSmppUrl, settings.operatorHttpUrl),
  needs(settings.operatorSmppUrl, settings.operatorSmppPassword),
  needs(settings.operatorHttpUrl, settings.operatorHttpSecret, settings.operatorCallbackPort),
  together(settings.tlsCertFile, settings.tlsKeyFile),
  needs(settings.otelSamplerRatio, settings.otelSampler),
  needs(settings.oidcIssuer, settings.oidcClientId, settings.oidcRoles),
  needs(settings.oidcAudience, settings.oidcIssuer),
  differ('id tokens have the client id as their audience', settings.oidcAudience, settings.oidcClientId),
  atLeast(settings.reportDeadlineOtp, settings.lifetimeOtp, WHY_REPORTS_ARE_LATER),
  atLeast(settings.reportDeadlineService, settings.lifetimeService, WHY_REPORTS_ARE_LATER),
]
