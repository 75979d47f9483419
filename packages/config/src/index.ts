/** The settings of the hub: a typed catalogue, its validation and documentation. */
export { caFileConfig } from './ca-file.ts'
export { catalogue, settings } from './catalogue/index.ts'
export { LONGEST_LIFETIME_SECONDS, SHORTEST_LIFETIME_SECONDS } from './catalogue/messages.ts'
export { checkSettings, findDangerousSettings, findInvalidSettings, validateSetting } from './check.ts'
export { clientCertificateConfig } from './client-certificate.ts'
export { connectionFault } from './connection-faults.ts'
export { dangers } from './dangers.ts'
export { configurationPage } from './document.ts'
export { type KeyPair, type KeyPairFiles, KeyPairUnusable, readKeyPair } from './key-pair.ts'
export type { Kind } from './kinds.ts'
export { lifetimesConfig } from './lifetimes.ts'
export { isLoopback } from './loopback.ts'
export { type RedisServers, redisServers } from './redis-servers.ts'
export { type Rule, rules } from './rules.ts'
export { fileVariable, readSecretFile } from './secret-file.ts'
export {
  ALL_APPS,
  type AnyApp,
  type App,
  APPS,
  type Group,
  GROUPS,
  settingError,
  invalidSettingOf,
  NOT_SET,
  type Reader,
  refineSetting,
  type Setting,
  InvalidSetting,
  isSet,
  mayBeInFile,
  textOfSetting,
} from './setting.ts'
export { describeUnknown, unknownVariables } from './unknown.ts'
