/** The settings that the projector reads from the environment. Its components read their own. */
import { settings } from '@hub/config'
import { catalogueConfig, kafkaTlsConfig } from '@hub/kafka'
import { Config } from 'effect'
import { join } from 'node:path'

/** The name of the app: in logs, as its Kafka client and as its PostgreSQL application. */
export const APP = 'projector'

export const configuration = Config.all({
  catalogue: catalogueConfig,
  /** Whether the outcomes of messages are written to their topic. */
  outcomes: Config.map(settings.messageOutcomes.config, (value) => value === 'on'),
  /** The file that keeps the member id across restarts. */
  memberFile: Config.map(settings.dataDir.config, (dataDir) =>
    join(dataDir ?? `.local/${APP}`, `${APP}.member`),
  ),
})

/** Checked together with the catalogue of settings before anything connects. */
export const checks = [kafkaTlsConfig]
