/** The settings of the hub: one typed catalogue of every environment variable, read, checked and documented from itself. */
export { authoritiesOf } from './authorities.ts'
export { catalogue, settings } from './catalogue/index.ts'
export { type Attached, checkSettings, findMistakes, mistakeIn, SettingsInvalid } from './check.ts'
export { configurationPage } from './document.ts'
export type { Kind, TypeName } from './kinds.ts'
export { type Rule, rules } from './rules.ts'
export {
  type App,
  APPS,
  type Group,
  GROUPS,
  mistaken,
  mistakeOf,
  type Reader,
  refined,
  type Setting,
  SettingMistake,
} from './setting.ts'
export { type UnknownVariable, unknownVariables } from './unknown.ts'
