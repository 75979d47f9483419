/** The settings that command-api reads itself, and the rules for them that only this app has. */
import { lifetimesConfig, refineSetting, settings } from '@hub/config'
import { catalogueConfig, kafkaTlsConfig, kafkaConnectionConfig } from '@hub/kafka'
import { allowedHostsConfig, deniedNetworksConfig } from '@hub/webhooks'
import { Config, Duration, Result } from 'effect'
import { networksFrom } from './access/client-address.ts'

const trustedProxies = refineSetting(settings.trustedProxies, (entries) =>
  Result.mapError(networksFrom(entries.join(',')), () => 'contains an entry that is not a network'),
)

/** The certificate files; `null` for plain HTTP. The settings catalogue refuses one file without the other. */
const tls = Config.map(
  Config.all([settings.tlsCertFile.config, settings.tlsKeyFile.config]),
  ([certFile, keyFile]) => (certFile === null || keyFile === null ? null : { certFile, keyFile }),
)

/** The name of the app: in logs, as its Kafka client and as its PostgreSQL application. */
export const APP = 'command-api'

/** The settings of the app. Components of the packages read their own settings. */
export const configuration = Config.all({
  port: settings.port.config,
  host: settings.listenHost.config,
  baseUrl: settings.baseUrl.config,
  hashSecret: settings.numberHashSecret.config,
  trustedProxies,
  lifetimes: lifetimesConfig,
  tls,
  loggedShare: settings.httpLogShare.config,
  connection: kafkaConnectionConfig(APP),
  catalogue: catalogueConfig,
  shutdownDelay: Config.map(settings.shutdownDelayMs.config, Duration.millis),
  secretTransition: Config.map(settings.webhookSecretTransition.config, Duration.seconds),
})

/** Checks in addition to those of the settings catalogue, before the process connects to anything. */
export const checks = [trustedProxies, allowedHostsConfig, deniedNetworksConfig, kafkaTlsConfig]
