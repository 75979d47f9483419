/** Who this process is to others. By itself, since main.ts needs it before anything else is loaded. */
import { join } from 'node:path'
import { settings } from '@hub/config'
import * as Config from 'effect/Config'

/** Its name in logs and traces, and to the brokers. */
export const APP = 'dispatcher'

/** Where the id of its membership is kept, so that a restarted process ends its own old session. */
export const memberFile: Config.Config<string> = settings.dataDir.config.pipe(
  Config.map((directory) => join(directory ?? `.local/${APP}`, 'member-id')),
)
