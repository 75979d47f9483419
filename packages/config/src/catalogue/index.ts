/** The catalogue of all settings. Each is defined once. */
import { GROUPS, type Group, type Setting } from '../setting.ts'
import { local, simulator, tests } from './development.ts'
import {
  api,
  hubctl,
  hubctlApi,
  openTelemetry,
  operations,
  processes,
  secrets,
  servers,
  webhooks,
} from './hub.ts'
import { messages } from './messages.ts'
import { http, optOutWords, smpp } from './operators.ts'

export const settings = {
  ...servers,
  ...secrets,
  ...processes,
  ...openTelemetry,
  ...hubctl,
  ...hubctlApi,
  ...api,
  ...messages,
  ...smpp,
  ...http,
  ...optOutWords,
  ...webhooks,
  ...operations,
  ...local,
  ...simulator,
  ...tests,
}

/** All settings in the order of the documentation. */
export const catalogue: ReadonlyArray<Setting<unknown>> = (
  Object.keys(GROUPS) as ReadonlyArray<Group>
).flatMap((group) => Object.values<Setting<unknown>>(settings).filter((setting) => setting.group === group))
