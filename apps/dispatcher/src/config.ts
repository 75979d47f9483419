/** Configuration of the dispatcher, from the environment. */
import { join } from 'node:path'
import { DEFAULT_START_WORDS, DEFAULT_STOP_WORDS, optOutVocabulary, type OptOutVocabulary } from '@hub/domain'
import { Config, ConfigProvider, Effect, Redacted } from 'effect'

/** `HUB_DATA_DIR`: where the member id is kept, so that a restarted process ends its own old session. */
export const memberFile = Config.String('HUB_DATA_DIR').pipe(
  Config.withDefault('.local/dispatcher'),
  Config.map((directory) => join(directory, 'member-id')),
)

/** A hash secret shorter than its digest would be the easier of the two to guess. */
const MIN_HASH_SECRET = 32

/** Only a sentence of ours, so that no value is told. */
export const wrong = (words: string): Effect.Effect<never, Config.ConfigError> =>
  Effect.fail(new Config.ConfigError(new ConfigProvider.SourceError({ message: words })))

/** `HUB_NUMBER_HASH_SECRET`, the same in every app: what recipient hashes are keyed with. */
export const hashSecret: Config.Config<Redacted.Redacted<string>> = Config.Redacted(
  'HUB_NUMBER_HASH_SECRET',
).pipe(
  Config.mapEffect((secret) =>
    Redacted.value(secret).length >= MIN_HASH_SECRET
      ? Effect.succeed(secret)
      : wrong(`HUB_NUMBER_HASH_SECRET must have at least ${MIN_HASH_SECRET} characters`),
  ),
)

const wordList = (name: string, defaults: ReadonlyArray<string>) =>
  Config.String(name).pipe(
    Config.withDefault(''),
    Config.map((text) => (text.trim() === '' ? defaults : text.split(','))),
  )

/**
 * `HUB_STOP_WORDS` and `HUB_START_WORDS`, separated by commas: what a recipient writes to opt out, and to opt in again. Case and spaces
 * around a word do not matter. Source: contract, Opt-outs, inbound messages.
 */
export const vocabulary: Config.Config<OptOutVocabulary> = Config.all({
  stop: wordList('HUB_STOP_WORDS', DEFAULT_STOP_WORDS),
  start: wordList('HUB_START_WORDS', DEFAULT_START_WORDS),
}).pipe(
  Config.mapEffect(({ start, stop }) => {
    const words = optOutVocabulary(stop, start)
    return words === null
      ? wrong(
          'HUB_STOP_WORDS and HUB_START_WORDS must be words separated by commas, at least one to stop with, none of them empty or in both',
        )
      : Effect.succeed(words)
  }),
)
