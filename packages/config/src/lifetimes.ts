/** Reads the lifetimes and report deadlines of both classes, in milliseconds. */
import * as Config from 'effect/Config'
import { settings } from './catalogue/index.ts'

const milliseconds = (seconds: number): number => seconds * 1000

/** `beforeSubmit`: from acceptance to the latest submit. `report`: from submit to the report. */
export const lifetimesConfig = Config.all({
  beforeSubmit: Config.all({
    otp: Config.map(settings.lifetimeOtp.config, milliseconds),
    service: Config.map(settings.lifetimeService.config, milliseconds),
  }),
  report: Config.all({
    otp: Config.map(settings.reportDeadlineOtp.config, milliseconds),
    service: Config.map(settings.reportDeadlineService.config, milliseconds),
  }),
})
