import { assert, describe, it } from '@effect/vitest'
import { findInvalidSettings } from '@hub/config'
import { ConfigProvider, Effect } from 'effect'
import { vocabulary } from './config.ts'

const from = (environment: Readonly<Record<string, string>>) =>
  Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment)))

describe('the opt-out words', () => {
  // Rules: OPT-3
  it.effect('are those of the contract or of the deployment', () =>
    Effect.gen(function* () {
      const usual = yield* vocabulary.pipe(from({}))
      assert.isTrue(usual.stop.has('отписка') && usual.start.has('start'))
      const own = yield* vocabulary.pipe(from({ HUB_STOP_WORDS: 'нет , ХВАТИТ', HUB_START_WORDS: 'да' }))
      assert.deepStrictEqual([[...own.stop], [...own.start]], [['нет', 'хватит'], ['да']])
    }),
  )
  it.effect.each([
    { HUB_STOP_WORDS: 'стоп,,нет' },
    { HUB_STOP_WORDS: 'START' },
    { HUB_STOP_WORDS: 'нет', HUB_START_WORDS: 'НЕТ' },
  ])('are refused where one is empty or means both: %o', (environment) =>
    Effect.gen(function* () {
      const mistakes = yield* findInvalidSettings('dispatcher', [vocabulary]).pipe(from(environment))
      assert.deepInclude(
        mistakes.map(({ variable }) => variable),
        'HUB_STOP_WORDS',
      )
    }),
  )
})
