import { assert, describe, it } from '@effect/vitest'
import { Effect, Metric } from 'effect'
import { counter, labelSets, withOldName } from './metric-kinds.ts'

/** The samples of a counter: their labels and values. */
const samplesOf = (name: string) =>
  Effect.map(Metric.snapshot, (all) =>
    all.flatMap((metric) =>
      metric.type === 'Counter' && metric.id === name
        ? [[metric.attributes ?? {}, Number(metric.state.count)] as const]
        : [],
    ),
  )

describe('labelSets', () => {
  it('returns every combination of the values', () => {
    assert.deepStrictEqual(labelSets({ class: ['otp', 'service'], result: ['sent', 'lost'] }), [
      { class: 'otp', result: 'sent' },
      { class: 'otp', result: 'lost' },
      { class: 'service', result: 'sent' },
      { class: 'service', result: 'lost' },
    ])
  })
})

describe('counter', () => {
  it.effect('has the value 0 before its first event', () =>
    Effect.gen(function* () {
      const events = counter('hub_test_events_total', 'Events.')
      assert.deepStrictEqual(yield* samplesOf('hub_test_events_total'), [[{}, 0]])
      events.add()
      events.add(2)
      assert.deepStrictEqual(yield* samplesOf('hub_test_events_total'), [[{}, 3]])
    }),
  )

  it.effect('has the value 0 for each of its label sets', () =>
    Effect.gen(function* () {
      const sets = labelSets({ result: ['sent', 'lost'] })
      const results = counter('hub_test_results_total', 'Results.', sets)
      assert.deepStrictEqual(yield* samplesOf('hub_test_results_total'), [
        [{ result: 'sent' }, 0],
        [{ result: 'lost' }, 0],
      ])
      results.add({ result: 'lost' })
      results.add({ result: 'lost' }, 4)
      assert.deepStrictEqual(yield* samplesOf('hub_test_results_total'), [
        [{ result: 'sent' }, 0],
        [{ result: 'lost' }, 5],
      ])
    }),
  )
})

describe('withOldName', () => {
  it.effect('counts under both names, with the same labels', () =>
    Effect.gen(function* () {
      const sets = labelSets({ what: ['lost', 'late'] })
      const cases = withOldName(
        counter('hub_test_cases_total', 'Cases.', sets),
        counter('hub_test_older_total', 'Old name.', sets),
      )
      cases.add({ what: 'lost' })
      cases.add({ what: 'late' }, 3)
      const samples = yield* samplesOf('hub_test_cases_total')
      assert.deepStrictEqual(samples, [
        [{ what: 'lost' }, 1],
        [{ what: 'late' }, 3],
      ])
      assert.deepStrictEqual(yield* samplesOf('hub_test_older_total'), samples)
    }),
  )
})
