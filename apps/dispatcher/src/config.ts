/** The settings of the dispatcher that need more than the rules of the settings catalogue. */
import { settingError, settings } from '@hub/config'
import { DEFAULT_START_WORDS, DEFAULT_STOP_WORDS, optOutVocabulary, type OptOutVocabulary } from '@hub/domain'
import { kafkaTlsConfig } from '@hub/kafka'
import { Config, Effect } from 'effect'
import { authorities, smppErrors } from './operator/live-operator.ts'

/** The words that opt a recipient out and in. Source: OPT-3. */
export const vocabulary: Config.Config<OptOutVocabulary> = Config.all({
  stop: settings.stopWords.config,
  start: settings.startWords.config,
}).pipe(
  Config.mapEffect(({ start, stop }) => {
    const words = optOutVocabulary(stop ?? DEFAULT_STOP_WORDS, start ?? DEFAULT_START_WORDS)
    return words === null
      ? Effect.fail(
          settingError(
            settings.stopWords,
            `does not go together with ${settings.startWords.name}`,
            'words separated by commas, none of them empty and none of them in both',
          ),
        )
      : Effect.succeed(words)
  }),
)

/** Checked together with the catalogue of settings before anything connects. */
export const checks = [vocabulary, smppErrors, authorities, kafkaTlsConfig]
