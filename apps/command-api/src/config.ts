/** What command-api is told by its environment, and the rules for it that only command-api knows. */
import { refineSetting, settings } from '@hub/config'
import { catalogueConfig, kafkaCaConfig, kafkaConnectionConfig } from '@hub/kafka'
import { allowedHostsConfig } from '@hub/webhooks'
import { Config, Duration, Result } from 'effect'
import { networksFrom } from './access/client-address.ts'

const trustedProxies = refineSetting(settings.trustedProxies, (entries) =>
  Result.mapError(networksFrom(entries.join(',')), () => 'holds something that is no network'),
)

/** Of the certificate; `null` for plain HTTP. That one file alone is a mistake is a rule of the catalogue. */
const tls = Config.map(
  Config.all([settings.tlsCertFile.config, settings.tlsKeyFile.config]),
  ([certFile, keyFile]) => (certFile === null || keyFile === null ? null : { certFile, keyFile }),
)

/** The settings that command-api reads itself; its parts read theirs. */
export const configuration = Config.all({
  port: settings.port.config,
  baseUrl: settings.baseUrl.config,
  hashSecret: settings.numberHashSecret.config,
  trustedProxies,
  tls,
  connection: kafkaConnectionConfig('command-api'),
  catalogue: catalogueConfig,
  shutdownDelay: Config.map(settings.shutdownDelayMs.config, Duration.millis),
})

/** What is to be right beside the catalogue before anything connects. */
export const attached = [trustedProxies, allowedHostsConfig, kafkaCaConfig]
