/** The settings of the hub: a typed catalogue, its validation and documentation. */
export { caFileConfig } from './ca-file.ts'
export { catalogue, settings } from './catalogue/index.ts'
export { checkSettings, findInvalidSettings, validateSetting } from './check.ts'
export { configurationPage } from './document.ts'
export type { Kind } from './kinds.ts'
export { type Rule, rules } from './rules.ts'
export {
  type App,
  APPS,
  type Group,
  GROUPS,
  settingError,
  invalidSettingOf,
  type Reader,
  refineSetting,
  type Setting,
  InvalidSetting,
} from './setting.ts'
export { unknownVariables } from './unknown.ts'
