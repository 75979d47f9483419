/** Who this process is to others. By itself, since main.ts needs it before anything else is loaded. */
import { join } from 'node:path'
import { settings } from '@hub/config'
import type { Membership } from '@hub/kafka/leave-previous-member'
import * as Config from 'effect/Config'

/** Its name in logs and traces, and to the brokers. */
export const APP = 'dispatcher'

/** The consumer group, without the prefix of topics. */
export const GROUP = 'hub.dispatcher'

/** Its group, and where the id of its membership is kept, so that a restarted process ends its own old session. */
export const membership: Config.Config<Membership> = Config.all({
  group: settings.topicPrefix.config.pipe(Config.map((prefix) => `${prefix}${GROUP}`)),
  memberFile: settings.dataDir.config.pipe(
    Config.map((directory) => join(directory ?? `.local/${APP}`, 'member-id')),
  ),
})
