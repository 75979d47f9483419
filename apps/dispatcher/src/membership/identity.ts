/** The names of this process. The module is small because `main.ts` loads it first. */
import { join } from 'node:path'
import { settings } from '@hub/config'
import type { Membership } from '@hub/kafka/leave-previous-member'
import * as Config from 'effect/Config'

/** The name in logs and traces, and for the brokers. */
export const APP = 'dispatcher'

/** The consumer group, without the topic prefix of the deployment. */
export const GROUP = 'hub.dispatcher'

/** The group, and the file with the member id, so that a restarted process ends its old session. */
export const membership: Config.Config<Membership> = Config.all({
  group: settings.topicPrefix.config.pipe(Config.map((prefix) => `${prefix}${GROUP}`)),
  memberFile: settings.dataDir.config.pipe(
    Config.map((directory) => join(directory ?? `.local/${APP}`, 'member-id')),
  ),
})
