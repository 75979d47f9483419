/** The settings of the dispatcher that need more than the rules of the settings catalogue. */
import { lifetimesConfig, settingError, settings } from '@hub/config'
import {
  DEFAULT_LIFETIMES,
  DEFAULT_START_WORDS,
  DEFAULT_STOP_WORDS,
  type Lifetimes,
  optOutVocabulary,
  type OptOutVocabulary,
} from '@hub/domain'
import { Config, Effect } from 'effect'

/** The words that opt a recipient out and in. Source: contract, Opt-outs, inbound messages. */
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

/** The lifetimes and report deadlines of the deployment. The sandbox has its own. */
export const lifetimes: Config.Config<Lifetimes> = Config.map(lifetimesConfig, (own) => ({
  ...DEFAULT_LIFETIMES,
  ...own,
}))
