/** The settings that operations-api reads itself, and the rules for them that only this app has. */
import { join, resolve } from 'node:path'
import { settings } from '@hub/config'
import { catalogueConfig, kafkaTlsConfig, kafkaConnectionConfig } from '@hub/kafka'
import { Config, Duration } from 'effect'
import { roleMapConfig } from './access/claims.ts'

/** Where the build of the console puts its files, in a checkout and in the image. */
const BUILT_CONSOLE = join(import.meta.dirname, '../../console/dist')

/** The name of the app: in logs, as its Kafka client and as its PostgreSQL application. */
export const APP = 'operations-api'

export const configuration = Config.all({
  port: settings.operationsPort.config,
  host: settings.listenHost.config,
  operationsUrl: settings.operationsUrl.config,
  localSecret: settings.localLoginSecret.config,
  consoleDir: Config.map(settings.consoleDir.config, (folder) =>
    folder === null ? BUILT_CONSOLE : resolve(folder),
  ),
  connection: kafkaConnectionConfig(APP),
  catalogue: catalogueConfig,
  shutdownDelay: Config.map(settings.shutdownDelayMs.config, Duration.millis),
})

/** Checks in addition to those of the settings catalogue, before the process connects to anything. */
export const checks = [roleMapConfig, kafkaTlsConfig]
