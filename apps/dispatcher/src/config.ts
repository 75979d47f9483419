/** What the dispatcher is told by its environment, and the rules for it that only the dispatcher knows. */
import { settingError, settings } from '@hub/config'
import { DEFAULT_START_WORDS, DEFAULT_STOP_WORDS, optOutVocabulary, type OptOutVocabulary } from '@hub/domain'
import { Config, Effect } from 'effect'

/** What a recipient writes to opt out, and to opt in again. Source: contract, Opt-outs, inbound messages. */
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
